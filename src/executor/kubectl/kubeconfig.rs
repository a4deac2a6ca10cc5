//! Which cluster reads go to, resolved once at start: the files for `KUBECONFIG`, and the context for every
//! command. kubectl never looks for either by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use crate::executor::kubectl::home::PrivateHome;
use crate::strict;

/// Where a pod finds its service account's token and the cluster's CA (Kubernetes documentation, "Accessing the
/// Kubernetes API from a Pod").
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// A name that never resolves (RFC 2606, section 2), over which no credential can leave.
const NOWHERE: &str = "https://kubepermit.invalid";

/// The context of a kubeconfig that this program writes, when no other is wanted.
const OWN_CONTEXT: &str = "kubepermit";

/// No kubeconfig is larger, and a mistyped path may lead to anything.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Where the credentials for reads come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadSource {
    /// The operator named this file.
    Named(PathBuf),
    /// The operator named none: the pod's service account if there is one, or else these files.
    Ambient {
        /// `host:port` of the API server, as a pod is told it.
        service: Option<String>,
        /// Absolute paths as kubectl would take them; those that do not exist are passed over.
        files: Vec<PathBuf>,
    },
}

/// The cluster that reads go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The value of `KUBECONFIG`.
    pub kubeconfig: OsString,
    /// The value of `--context`.
    pub context: String,
    /// There is none: the kubeconfig leads nowhere, so that kubectl cannot fall back to a default of its own.
    pub is_nothing: bool,
    /// What the operator should know, a sentence each.
    pub notices: Vec<String>,
}

/// Why no read can run. Each message is for the operator and, within a failed read, for the caller.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("the kubeconfig `{}` cannot be read: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system or the parser said.
        cause: String,
    },
    /// `KUBECONFIG` separates files by colons.
    #[error("the path of the kubeconfig `{}` has a colon, which kubectl takes for the end of a path", path.display())]
    Colon {
        /// The file.
        path: PathBuf,
    },
    /// There is no context to pin.
    #[error("the kubeconfig {files} has no current context; name one with KUBEPERMIT_CONTEXT or --context")]
    NoContext {
        /// The files, for a reader.
        files: String,
    },
    /// The context, or what it names, is not there.
    #[error("the kubeconfig {files} has no {what} `{name}`{others}")]
    Missing {
        /// The files, for a reader.
        files: String,
        /// `context`, `cluster`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The names that there are, for a reader.
        others: String,
    },
    /// The server would not be authenticated.
    #[error(
        "cluster `{cluster}` of the kubeconfig has insecure-skip-tls-verify, so anybody on the way could take the credentials and answer in its place; give it the certificate-authority instead"
    )]
    Insecure {
        /// The cluster's name.
        cluster: String,
    },
    /// The file that this program writes cannot be written.
    #[error("a private kubeconfig cannot be written: {0}")]
    Write(#[source] io::Error),
}

/// The parts of a kubeconfig that decide anything here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: Option<String>,
    #[serde(default)]
    contexts: Option<Vec<Named<Context>>>,
    #[serde(default)]
    clusters: Option<Vec<Named<Cluster>>>,
    #[serde(default)]
    users: Option<Vec<Named<User>>>,
}

#[derive(Debug, Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "context", alias = "cluster", alias = "user")]
    content: Option<T>,
}

#[derive(Debug, Default, Clone, Deserialize)]
struct Context {
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    #[serde(default)]
    insecure_skip_tls_verify: bool,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    exec: Option<Exec>,
    auth_provider: Option<serde_json::Value>,
}

#[derive(Debug, Default, Clone, Deserialize)]
struct Exec {
    #[serde(default)]
    command: String,
}

/// Files merged as kubectl merges them: of each name the first.
#[derive(Default)]
struct Merged {
    current: Option<String>,
    contexts: BTreeMap<String, Context>,
    clusters: BTreeMap<String, Cluster>,
    users: BTreeMap<String, User>,
}

impl Access {
    /// Finds the cluster for reads. `context` is the operator's choice. Blocks on the disk.
    ///
    /// # Errors
    /// [`AccessError`] when reads cannot run, or had better not.
    pub fn resolve(
        source: &ReadSource,
        context: Option<&str>,
        home: &PrivateHome,
    ) -> Result<Self, AccessError> {
        let files = match source {
            ReadSource::Named(path) => vec![path.clone()],
            ReadSource::Ambient { service: Some(service), .. } if Path::new(TOKEN).exists() => {
                return Self::in_cluster(service, context, home);
            }
            ReadSource::Ambient { files, .. } => files.iter().filter(|path| path.exists()).cloned().collect(),
        };
        if files.is_empty() { Self::nowhere(context, home) } else { Self::of_files(&files, context) }
    }

    fn of_files(files: &[PathBuf], context: Option<&str>) -> Result<Self, AccessError> {
        let mut merged = Merged::default();
        let mut notices = Vec::new();
        let mut kubeconfig = OsString::new();
        for path in files {
            if path.as_os_str().as_bytes().contains(&b':') {
                return Err(AccessError::Colon { path: path.clone() });
            }
            let (file, mode) = read(path)
                .map_err(|cause| AccessError::File { path: path.clone(), cause: cause.to_string() })?;
            merged.add(file);
            if mode & 0o077 != 0 {
                notices.push(format!(
                    "the kubeconfig `{}` can be read by other users of this machine (mode {:o})",
                    path.display(),
                    mode & 0o777
                ));
            }
            if !kubeconfig.is_empty() {
                kubeconfig.push(":");
            }
            kubeconfig.push(path);
        }
        let shown = shown(files);
        let context = context.map(str::to_owned).or(merged.current.clone());
        let context = context.filter(|name| !name.is_empty());
        let context = context.ok_or_else(|| AccessError::NoContext { files: shown.clone() })?;
        notices.extend(merged.inspect(&context, &shown)?);
        Ok(Self { kubeconfig, context, is_nothing: false, notices })
    }

    fn in_cluster(service: &str, context: Option<&str>, home: &PrivateHome) -> Result<Self, AccessError> {
        Self::own(
            context,
            home,
            &json!({ "server": format!("https://{service}"), "certificate-authority": CA }),
            &json!({ "tokenFile": TOKEN }),
        )
    }

    fn nowhere(context: Option<&str>, home: &PrivateHome) -> Result<Self, AccessError> {
        let mut access = Self::own(context, home, &json!({ "server": NOWHERE }), &json!({}))?;
        access.is_nothing = true;
        access.notices.push(
            "no cluster is known for reads: name a kubeconfig with KUBEPERMIT_READ_KUBECONFIG or --read-kubeconfig"
                .to_owned(),
        );
        Ok(access)
    }

    fn own(
        context: Option<&str>,
        home: &PrivateHome,
        cluster: &serde_json::Value,
        user: &serde_json::Value,
    ) -> Result<Self, AccessError> {
        let context = context.unwrap_or(OWN_CONTEXT).to_owned();
        let document = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{ "name": OWN_CONTEXT, "cluster": cluster }],
            "users": [{ "name": OWN_CONTEXT, "user": user }],
            "contexts": [{ "name": context, "context": { "cluster": OWN_CONTEXT, "user": OWN_CONTEXT } }],
        });
        let path = home.write_kubeconfig(&document).map_err(AccessError::Write)?;
        Ok(Self { kubeconfig: path.into_os_string(), context, is_nothing: false, notices: Vec::new() })
    }
}

impl Merged {
    fn add(&mut self, file: Kubeconfig) {
        if self.current.as_deref().is_none_or(str::is_empty) {
            self.current = file.current_context;
        }
        merge(&mut self.contexts, file.contexts);
        merge(&mut self.clusters, file.clusters);
        merge(&mut self.users, file.users);
    }

    /// Whether the context leads to a cluster that reads may use, and what to tell about it.
    fn inspect(&self, name: &str, files: &str) -> Result<Vec<String>, AccessError> {
        let Some(context) = self.contexts.get(name) else {
            return Err(missing(files, "context", name, &self.contexts));
        };
        let Some(cluster) = self.clusters.get(&context.cluster) else {
            return Err(missing(files, "cluster", &context.cluster, &self.clusters));
        };
        if cluster.insecure_skip_tls_verify {
            return Err(AccessError::Insecure { cluster: context.cluster.clone() });
        }
        let mut notices = Vec::new();
        let user = self.users.get(&context.user);
        if let Some(exec) = user.and_then(|user| user.exec.as_ref())
            && !exec.command.contains('/')
        {
            notices.push(format!(
                "user `{}` of the kubeconfig gets its credentials from `{}`, which reads cannot find: they run \
                 without a PATH; name the program by its absolute path",
                context.user, exec.command
            ));
        }
        if user.is_some_and(|user| user.auth_provider.is_some()) {
            notices.push(format!(
                "user `{}` of the kubeconfig has an auth-provider, which kubectl no longer knows (since 1.26)",
                context.user
            ));
        }
        Ok(notices)
    }
}

fn merge<T: Default>(all: &mut BTreeMap<String, T>, more: Option<Vec<Named<T>>>) {
    for Named { name, content } in more.into_iter().flatten() {
        all.entry(name).or_insert_with(|| content.unwrap_or_default());
    }
}

fn missing<T>(files: &str, what: &'static str, name: &str, all: &BTreeMap<String, T>) -> AccessError {
    let names: Vec<&str> = all.keys().map(String::as_str).take(20).collect();
    let others = if names.is_empty() { String::new() } else { format!("; there are: {}", names.join(", ")) };
    AccessError::Missing { files: files.to_owned(), what, name: name.to_owned(), others }
}

/// The file and its mode.
fn read(path: &Path) -> io::Result<(Kubeconfig, u32)> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(io::Error::other("it is not a file of at most 4 MiB"));
    }
    let text = std::fs::read_to_string(path)?;
    if text.trim().is_empty() {
        return Ok((Kubeconfig::default(), metadata.permissions().mode()));
    }
    // The parser's message tells a place, and may quote a word of the file; it never quotes a value whole.
    let file = strict::yaml(&text).map_err(|error| match error.location() {
        Some(at) => io::Error::other(format!("line {} is not that of a kubeconfig", at.line())),
        None => io::Error::other("it is not a kubeconfig"),
    })?;
    Ok((file, metadata.permissions().mode()))
}

fn shown(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|path| format!("`{}`", path.display())).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
