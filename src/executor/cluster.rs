//! The connection to a Kubernetes API server, made when it is first needed and again when it failed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::executor::fault::Fault;
use crate::executor::proxy::{is_direct, is_loopback};

/// How long a client may take to be made: its credential plugin is a program, and may wait for a person.
const BUILD_DEADLINE: Duration = Duration::from_secs(20);

/// How long a TCP and TLS connection may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);

/// Where the API server's address and credentials come from. Always said explicitly: what lies in a home
/// directory or in `KUBECONFIG` never decides where an agent's jobs run.
#[derive(Debug, Clone)]
pub enum ClusterSource {
    /// A kubeconfig file, and the context in it; `None` means its current context.
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// Name of the context.
        context: Option<String>,
    },
    /// Several files, merged as kubectl merges them: of each name the first.
    Kubeconfigs {
        /// Their paths.
        paths: Vec<PathBuf>,
        /// Name of the context.
        context: String,
    },
    /// The service account of the pod that this process runs in.
    InCluster,
}

/// What is known of the connection before it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Scheme, host and port: a path or a user's name in the URL may be a secret.
    pub(crate) server: String,
    /// It is made by TLS.
    pub(crate) encrypted: bool,
    /// The server's certificate is checked.
    pub(crate) verified: bool,
    /// It does not leave this machine.
    pub(crate) loopback: bool,
}

/// A cluster that may be unreachable: nothing is tried before the first job.
pub struct Cluster {
    source: ClusterSource,
    no_proxy: String,
    client: Mutex<Option<Client>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Why there is no client. None of these has a source: what a library says of a kubeconfig, a credential plugin
/// or a proxy may quote their secrets, so only a [`Fault`] is kept of it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The file does not exist, cannot be read or is not a kubeconfig.
    #[error(
        "{described} cannot be used: {cause}; correct it, or name another with MCP_K8S_KUBECONFIG or --kubeconfig"
    )]
    Kubeconfig {
        /// The file, and the context in it.
        described: String,
        /// What is wrong with it.
        cause: Fault,
    },
    /// This process has no service account.
    #[error(
        "no kubeconfig is named and this process does not run in a pod with a service account ({cause}); name a kubeconfig with MCP_K8S_KUBECONFIG or --kubeconfig, or use --embedded"
    )]
    InCluster {
        /// What is missing.
        cause: Fault,
    },
    /// The configuration does not make a client: credentials, certificates, proxy.
    #[error("no connection can be made with {described}: {cause}")]
    Client {
        /// The configuration.
        described: String,
        /// What is wrong with it.
        cause: Fault,
    },
    /// The credential plugin did not answer.
    #[error("the credential plugin of {described} did not answer within {} s", BUILD_DEADLINE.as_secs())]
    PluginTimeout {
        /// The configuration.
        described: String,
    },
    /// The task that makes clients ended early, as when the process shuts down.
    #[error("making a client was interrupted")]
    Interrupted,
}

impl Cluster {
    /// A cluster that is not connected to yet.
    #[must_use]
    pub fn new(source: ClusterSource) -> Self {
        Self { source, no_proxy: String::new(), client: Mutex::new(None) }
    }

    /// The value of `NO_PROXY`: hosts that are reached without the proxy that `HTTPS_PROXY` names.
    #[must_use]
    pub fn with_no_proxy(mut self, no_proxy: impl Into<String>) -> Self {
        self.no_proxy = no_proxy.into();
        self
    }

    /// A client, made on first use. A failure is not remembered: the next call tries again.
    ///
    /// # Errors
    /// [`ClusterError`] when the file, the service account or the credentials do not make a client. That the
    /// server does not answer shows only when the client is used.
    pub async fn client(&self) -> Result<Client, ClusterError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let mut config = self.config().await?;
        config.connect_timeout = Some(CONNECT_DEADLINE);
        // The executor retries by itself: kube's own retry hides the reason until 15 attempts are over.
        config.default_retry = false;
        if let (Ok(name), Ok(value)) =
            ("user-agent".parse(), concat!("kubepermit/", env!("CARGO_PKG_VERSION")).parse())
        {
            config.headers.push((name, value));
        }
        // Blocking: the credential plugin runs inside. When it hangs its thread is lost until it ends.
        let making = spawn_blocking(move || Client::try_from(config));
        let described = || self.describe();
        let client = timeout(BUILD_DEADLINE, making)
            .await
            .map_err(|_| ClusterError::PluginTimeout { described: described() })?
            .map_err(|error| match error.is_panic() {
                true => ClusterError::Client { described: described(), cause: Fault::no_header() },
                false => ClusterError::Interrupted,
            })?
            .map_err(|error| ClusterError::Client { described: described(), cause: Fault::of(&error) })?;
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Forgets the client, so that credentials are read again: the server rejected them.
    pub async fn forget(&self) {
        *self.client.lock().await = None;
    }

    /// Where the connection goes, and what protects it.
    ///
    /// # Errors
    /// Those of [`client`](Self::client) that concern the source.
    pub(crate) async fn connection(&self) -> Result<Connection, ClusterError> {
        let config = self.config().await?;
        let url = &config.cluster_url;
        let scheme = url.scheme_str().unwrap_or("https");
        let host = url.host().unwrap_or_default();
        let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Connection {
            server: format!("{scheme}://{host}{port}"),
            encrypted: scheme == "https",
            verified: !config.accept_invalid_certs,
            loopback: is_loopback(host),
        })
    }

    /// The source, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.source {
            ClusterSource::Kubeconfig { path, context: None } => {
                format!("the kubeconfig `{}`", path.display())
            }
            ClusterSource::Kubeconfig { path, context: Some(context) } => {
                format!("context `{context}` of the kubeconfig `{}`", path.display())
            }
            ClusterSource::Kubeconfigs { paths, context } => {
                let paths: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
                format!("context `{context}` of the kubeconfig {}", paths.join(", "))
            }
            ClusterSource::InCluster => "the pod's service account".to_owned(),
        }
    }

    async fn config(&self) -> Result<Config, ClusterError> {
        match &self.source {
            ClusterSource::InCluster => Config::incluster()
                .map_err(|error| ClusterError::InCluster { cause: Fault::of_service_account(&error) }),
            ClusterSource::Kubeconfig { path, context } => {
                self.config_of(vec![path.clone()], context.clone()).await
            }
            ClusterSource::Kubeconfigs { paths, context } => {
                self.config_of(paths.clone(), Some(context.clone())).await
            }
        }
    }

    async fn config_of(&self, paths: Vec<PathBuf>, context: Option<String>) -> Result<Config, ClusterError> {
        let unusable = |error| ClusterError::Kubeconfig {
            described: self.describe(),
            cause: Fault::of_kubeconfig(&error),
        };
        let mut kubeconfig = spawn_blocking(move || read(&paths))
            .await
            .map_err(|_| ClusterError::Interrupted)?
            .map_err(unusable)?;
        // A plugin that asks a question would read it from the MCP stream on standard input.
        for user in &mut kubeconfig.auth_infos {
            if let Some(exec) = user.auth_info.as_mut().and_then(|info| info.exec.as_mut()) {
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
        }
        let explicit_proxy = proxy_of(&kubeconfig, context.as_deref());
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
        match explicit_proxy {
            // A kubeconfig's own proxy-url holds, whatever the environment says.
            Some(proxy) => config.proxy_url = proxy.parse().ok().or(config.proxy_url),
            None => {
                let host = config.cluster_url.host().unwrap_or_default();
                if is_direct(&self.no_proxy, host, config.cluster_url.port_u16()) {
                    config.proxy_url = None;
                }
            }
        }
        Ok(config)
    }
}

/// The files, merged.
fn read(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    paths.iter().try_fold(Kubeconfig::default(), |merged, path| merged.merge(Kubeconfig::read_from(path)?))
}

/// `proxy-url` of the cluster that the context names.
fn proxy_of(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == name)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|entry| entry.name == *cluster)?;
    cluster.cluster.as_ref()?.proxy_url.clone().filter(|proxy| !proxy.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Cluster, ClusterError, ClusterSource};

    fn kubeconfig(user: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
                 contexts: [{{ name: a, context: {{ cluster: a, user: a }} }}]\n\
                 clusters: [{{ name: a, cluster: {{ server: 'http://127.0.0.1:1' }} }}]\n\
                 users: [{{ name: a, user: {user} }}]\n"
            ),
        )
        .unwrap();
        file
    }

    fn cluster(path: &Path, context: Option<&str>) -> Cluster {
        Cluster::new(ClusterSource::Kubeconfig { path: path.to_owned(), context: context.map(str::to_owned) })
    }

    #[tokio::test]
    async fn a_missing_file_is_an_error_that_names_it_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let cluster = cluster(&path, None);
        let error = cluster.client().await.err().unwrap();
        assert!(matches!(error, ClusterError::Kubeconfig { .. }));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        std::fs::copy(kubeconfig("{}").path(), &path).unwrap();
        assert!(cluster.client().await.is_ok());
    }

    #[tokio::test]
    async fn an_unknown_context_is_an_error() {
        let file = kubeconfig("{}");
        let error = cluster(file.path(), Some("b")).client().await.err().unwrap();
        assert!(matches!(error, ClusterError::Kubeconfig { .. }), "{error}");
    }

    /// What a caller is told of a configuration in which `CANARY` stands where secrets do.
    async fn told(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let cluster = cluster(file.path(), None);
        let error = match cluster.client().await {
            Err(error) => error,
            Ok(client) => {
                let fault = crate::executor::fault::Fault::of(&client.apiserver_version().await.unwrap_err());
                return fault.to_string();
            }
        };
        assert!(std::error::Error::source(&error).is_none(), "a source would be printed too");
        let path = file.path().to_str().unwrap();
        assert!(error.to_string().contains(path), "{error}");
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("CANARY") && !text.contains("Q0FOQVJZ"), "{text}");
        }
        error.to_string().replace(path, "FILE")
    }

    fn with(cluster: &str, user: &str) -> String {
        format!(
            "current-context: a\ncontexts: [{{ name: a, context: {{ cluster: a, user: a }} }}]\n\
             clusters: [{{ name: a, cluster: {{ {cluster} }} }}]\nusers: [{{ name: a, user: {{ {user} }} }}]\n"
        )
    }

    fn plugin(script: &str) -> String {
        let exec = format!(
            "exec: {{ apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, args: ['-c', '{script}'] }}"
        );
        with("server: 'http://127.0.0.1:1'", &exec)
    }

    #[tokio::test]
    async fn no_secret_of_a_configuration_is_told() {
        const CANARY_BASE64: &str = "Q0FOQVJZ";
        // The same again as the body of a PEM certificate.
        const PEM: &str =
            "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClEwRk9RVkpaCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";
        let server = "server: 'https://127.0.0.1:1'";
        let table = [
            (
                "users:\n- name: a\n  user:\n    token: CANARY\n    : bad\n".to_owned(),
                "not YAML of a kubeconfig's form at line 5",
            ),
            ("users: [{ name: a, user: [CANARY] }]".to_owned(), "not YAML of a kubeconfig's form at line 1"),
            ("CANARY".to_owned(), "not YAML of a kubeconfig's form"),
            ("current-context: CANARY".to_owned(), "no context of that name"),
            (plugin("echo CANARY: CANARY: CANARY"), "output is not an ExecCredential"),
            (plugin("echo CANARY; echo CANARY >&2; exit 7"), "plugin failed with exit code 7"),
            (
                with(server, "exec: { command: /no/such/CANARY }"),
                "plugin cannot be started (entity not found)",
            ),
            (with("server: 'CANARY CANARY'", ""), "`server` of its cluster is not a URL"),
            (
                with(&format!("{server}, proxy-url: 'CANARY CANARY'"), ""),
                "`proxy-url`, or else HTTPS_PROXY, is not",
            ),
            (with(&format!("{server}, proxy-url: 'ftp://u:CANARY@h:1'"), ""), "proxy's URL is not http"),
            (
                with(&format!("{server}, certificate-authority-data: '%CANARY%'"), ""),
                "`certificate-authority-data` is not base64",
            ),
            (
                with(&format!("{server}, certificate-authority-data: {PEM}"), ""),
                "certificate authority's certificates cannot be used",
            ),
            (
                with(&format!("{server}, certificate-authority: /CANARY"), ""),
                "`certificate-authority` names cannot be read",
            ),
            (
                with(
                    server,
                    &format!("client-certificate-data: {CANARY_BASE64}, client-key-data: {CANARY_BASE64}"),
                ),
                "client certificate and key are not a PEM pair",
            ),
            (
                with(server, "client-certificate: /CANARY, client-key: /CANARY"),
                "names cannot be read (entity not found)",
            ),
            (with(server, "tokenFile: /CANARY"), "file of `tokenFile` cannot be read"),
            (with(server, "token: \"CANARY\\nCANARY\""), "characters that no header may hold"),
            (with(server, "auth-provider: { name: CANARY, config: {} }"), "`auth-provider` is not supported"),
        ];
        for (text, expected) in table {
            let told = told(&text).await;
            assert!(told.contains(expected), "{told}\nfor\n{text}");
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_says_why() {
        // Something that is no TLS server.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = std::io::Write::write_all(&mut stream.unwrap(), b"HTTP/1.1 400 CANARY\r\n\r\n");
            }
        });
        let table = [
            ("http://127.0.0.1:1".to_owned(), "the connection was refused"),
            ("https://127.0.0.1:1".to_owned(), "the connection was refused"),
            ("http://no-such-host.invalid:1".to_owned(), "the server's name cannot be resolved"),
            (format!("https://{address}"), "the server does not speak TLS on that port"),
        ];
        for (server, expected) in table {
            let config =
                with(&format!("server: '{server}', insecure-skip-tls-verify: true"), "token: CANARY");
            assert_eq!(told(&config).await, expected, "{server}");
        }
    }

    #[tokio::test]
    async fn a_credential_plugin_cannot_read_standard_input() {
        // The plugin fails unless its standard input is at its end.
        let script = "{ exec: { apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: IfAvailable, args: ['-c', 'if read line; then exit 1; fi; [ ! -t 0 ] && [ \"$(readlink /proc/self/fd/0)\" != x ] && echo ''{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t\"}}'''] } }";
        let file = kubeconfig(script);
        let made = cluster(file.path(), None).client().await;
        assert!(made.is_ok(), "{:?}", made.err());
    }
}
