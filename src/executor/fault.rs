//! Why a cluster cannot be used, in words that are all written here.
//!
//! What kube and the libraries below it say may quote what they read: a line of a kubeconfig with its token, a
//! credential plugin's output, a proxy's URL with its password, a page in which some server repeats the request's
//! headers. All of that would reach the caller and the audit log. So an error is only recognised here, and what
//! is said of it comes from the tables below, with numbers (a line, an exit code, an HTTP status) at most.

use std::error::Error;
use std::fmt;
use std::io;

use kube::client::{AuthError, RustlsTlsError, UpgradeConnectionError};
use kube::config::{InClusterError, KubeconfigError, LoadDataError};
use kube::core::Status;
use kube::runtime::watcher;

use crate::executor::text::shortened;

/// A cause, fit for a caller and for the record. Made by this module alone, from its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&'static str> for Fault {
    fn from(words: &'static str) -> Self {
        Self(words.to_owned())
    }
}

impl Fault {
    /// Nothing came back within the time for it.
    pub(crate) fn no_answer() -> Self {
        Self::from("no answer in time")
    }

    /// A static token or password that cannot be sent: kube panics over it, and over nothing else here.
    pub(crate) fn no_header() -> Self {
        Self::from(NO_HEADER)
    }

    /// Of a file that is not a usable kubeconfig. Not even the paths in it are named: where a path should
    /// stand, a key may have been pasted.
    pub(crate) fn of_kubeconfig(error: &KubeconfigError) -> Self {
        Self(match error {
            KubeconfigError::CurrentContextNotSet => "it has no `current-context`".to_owned(),
            KubeconfigError::KindMismatch | KubeconfigError::ApiVersionMismatch => {
                "its documents differ in `kind` or `apiVersion`".to_owned()
            }
            KubeconfigError::LoadContext(_) => "it has no context of that name".to_owned(),
            KubeconfigError::LoadClusterOfContext(_) => "it has no cluster for that context".to_owned(),
            KubeconfigError::FindPath => "its path is not known".to_owned(),
            KubeconfigError::ReadConfig(error, _) => format!("it cannot be read ({})", error.kind()),
            KubeconfigError::Parse(error) => {
                let place = error.location().map(|place| place_of(place.line(), place.column()));
                format!("it is not YAML of a kubeconfig's form{}", place.unwrap_or_default())
            }
            KubeconfigError::MissingClusterUrl => "its cluster has no `server`".to_owned(),
            KubeconfigError::ParseClusterUrl(_) => "the `server` of its cluster is not a URL".to_owned(),
            KubeconfigError::ParseProxyUrl(_) => {
                "its `proxy-url`, or else HTTPS_PROXY, is not a URL".to_owned()
            }
            KubeconfigError::LoadCertificateAuthority(error) => data("certificate-authority", error),
            KubeconfigError::LoadClientCertificate(error) => data("client-certificate", error),
            KubeconfigError::LoadClientKey(error) => data("client-key", error),
            KubeconfigError::ParseCertificates(_) => "its `certificate-authority` is not PEM".to_owned(),
            KubeconfigError::ParseNoProxy(_) => "NO_PROXY has an entry that is not a host".to_owned(),
        })
    }

    /// Of a pod without a usable service account.
    pub(crate) fn of_service_account(error: &InClusterError) -> Self {
        Self(match error {
            InClusterError::ReadDefaultNamespace(error) => {
                format!("the service account's `namespace` cannot be read ({})", error.kind())
            }
            InClusterError::ReadEnvironmentVariable(_) => {
                "KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set".to_owned()
            }
            InClusterError::ReadCertificateBundle(error) => {
                format!("the service account's `ca.crt` cannot be read ({})", error.kind())
            }
            InClusterError::ParseClusterPort(_) => "KUBERNETES_SERVICE_PORT is not a port".to_owned(),
            InClusterError::ParseClusterUrl(_) => "KUBERNETES_SERVICE_HOST is not a host".to_owned(),
            InClusterError::ParseCertificates(_) => "the service account's `ca.crt` is not PEM".to_owned(),
        })
    }

    /// Of a client that cannot be made, or of a request that got no answer of Kubernetes' own.
    pub(crate) fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::HyperError(error) => Self::of_connection(error),
            kube::Error::Service(error) => Self::of_connection(error.as_ref()),
            kube::Error::ReadEvents(error) => Self::of_connection(error),
            kube::Error::ProxyProtocolUnsupported { .. } | kube::Error::ProxyProtocolDisabled { .. } => {
                Self::from("the proxy's URL is not http, https or socks5")
            }
            kube::Error::FromUtf8(_)
            | kube::Error::LinesCodecMaxLineLengthExceeded
            | kube::Error::SerdeError(_)
            | kube::Error::Discovery(_) => Self::from("the answer is not Kubernetes'"),
            kube::Error::HttpError(_) | kube::Error::BuildRequest(_) => {
                Self::from("the request cannot be made from the configuration")
            }
            kube::Error::RustlsTls(error) => Self::of_tls(error),
            kube::Error::TlsRequired => Self::from("TLS is needed and not built in"),
            kube::Error::UpgradeConnection(error) => Self::of_upgrade(error),
            kube::Error::Auth(error) => Self::of_credentials(error),
            kube::Error::InferConfig(_) => Self::from("no configuration was found"),
            kube::Error::InferKubeconfig(error) => Self::of_kubeconfig(error),
        }
    }

    /// Of a watch that was interrupted.
    pub(crate) fn of_watch(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Self::of(error),
            watcher::Error::WatchError(status) => Self::of_status(status),
            watcher::Error::NoResourceVersion => Self::from("the answer is not Kubernetes'"),
        }
    }

    /// Of an answer that is no verdict on the request: the status, never its text.
    fn of_status(status: &Status) -> Self {
        const HINTS: [(&str, &str); 3] = [
            ("failed calling webhook", ": an admission webhook could not be called"),
            ("etcdserver", ": its etcd does not answer"),
            ("exceeded its requested timeout", ": the server ran out of time"),
        ];
        let hint = HINTS.iter().find(|(words, _)| status.message.contains(words));
        let known = reason(status).map(|reason| format!(" ({reason})")).unwrap_or_default();
        Self(format!("HTTP {}{known}{}", status.code, hint.map_or("", |(_, hint)| hint)))
    }

    /// Of a connection, from the innermost cause that is recognised.
    pub(crate) fn of_connection(error: &(dyn Error + 'static)) -> Self {
        let chain: Vec<&(dyn Error + 'static)> = std::iter::successors(Some(error), |e| under(*e)).collect();
        if let Some(own) = chain.iter().find_map(|cause| own(*cause)) {
            return own;
        }
        let texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
        let says = |words: &str| texts.iter().any(|text| text.contains(words));
        if let Some((_, cause)) = CONNECTION.iter().find(|(words, _)| says(words)) {
            return Self::from(*cause);
        }
        let io = chain.iter().rev().find_map(|cause| cause.downcast_ref::<io::Error>());
        let cause = io.map_or(UNKNOWN_CONNECTION, |error| of_kind(error.kind()));
        let proxy = if says("tunnel error") || says("SOCKS error") { "through the proxy: " } else { "" };
        Self(format!("{proxy}{cause}"))
    }

    fn of_tls(error: &RustlsTlsError) -> Self {
        Self::from(match error {
            RustlsTlsError::InvalidIdentityPem(_)
            | RustlsTlsError::MissingPrivateKey
            | RustlsTlsError::MissingCertificate
            | RustlsTlsError::InvalidPrivateKey(_)
            | RustlsTlsError::UnknownPrivateKeyFormat => "the client certificate and key are not a PEM pair",
            RustlsTlsError::AddRootCertificate(_) | RustlsTlsError::NoValidNativeRootCA(_) => {
                "the certificate authority's certificates cannot be used"
            }
            RustlsTlsError::InvalidServerName(_) => "the server's name is not one that TLS can check",
        })
    }

    fn of_upgrade(error: &UpgradeConnectionError) -> Self {
        match error {
            UpgradeConnectionError::ProtocolSwitch(code) => {
                Self(format!("HTTP {} instead of a WebSocket", code.as_u16()))
            }
            UpgradeConnectionError::MissingUpgradeWebSocketHeader
            | UpgradeConnectionError::MissingConnectionUpgradeHeader
            | UpgradeConnectionError::SecWebSocketAcceptKeyMismatch
            | UpgradeConnectionError::SecWebSocketProtocolMismatch
            | UpgradeConnectionError::GetPendingUpgrade(_) => {
                Self::from("the connection did not become a WebSocket; a proxy may be in the way")
            }
        }
    }

    /// A plugin's command line and output stay out: both may hold credentials.
    fn of_credentials(error: &AuthError) -> Self {
        Self(match error {
            AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => NO_HEADER.to_owned(),
            AuthError::UnrefreshableTokenResponse => "the credentials cannot be renewed".to_owned(),
            AuthError::ExecPluginFailed => "the credential plugin's answer has no `status`".to_owned(),
            AuthError::MalformedTokenExpirationDate(_) => {
                "the credentials' expiration is not an RFC 3339 time".to_owned()
            }
            AuthError::AuthExecStart(error) => {
                format!("the credential plugin cannot be started ({})", error.kind())
            }
            AuthError::AuthExecRun { out, .. } => match out.status.code() {
                Some(code) => format!("the credential plugin failed with exit code {code}"),
                None => "the credential plugin was killed".to_owned(),
            },
            AuthError::AuthExecParse(_) | AuthError::AuthExecSerialize(_) => {
                "the credential plugin's output is not an ExecCredential".to_owned()
            }
            AuthError::AuthExec(_) | AuthError::ParseTokenKey(_) => {
                "its `auth-provider` is not supported or gave no token; use an exec plugin".to_owned()
            }
            AuthError::ReadTokenFile(error, _) => {
                format!("the file of `tokenFile` cannot be read ({})", error.kind())
            }
            AuthError::MissingCommand => "its exec plugin has no `command`".to_owned(),
            AuthError::ExecMissingClusterInfo => "its exec plugin has no cluster information".to_owned(),
            AuthError::NoValidNativeRootCA(_) => "this system has no usable CA certificates".to_owned(),
        })
    }
}

/// What the API server says about a request that it refuses. Its own words, since a quota or a Pod Security
/// profile has no others; but only of an answer that has the form of Kubernetes' `Status` with one of its
/// reasons, or is an admission webhook's, and never with what looks like a token in it.
pub(crate) fn refusal(status: &Status) -> String {
    if status.code == 401 {
        return "HTTP 401: the credentials are not accepted; renew them".to_owned();
    }
    let webhook = status.message.starts_with("admission webhook \"");
    if reason(status).is_none() && !webhook {
        return format!(
            "HTTP {}, in a form that is not Kubernetes'; a proxy or another server may have answered",
            status.code
        );
    }
    shortened(&without_tokens(&status.message))
}

/// `reason` when it is one that Kubernetes' API conventions list (`metav1.StatusReason`).
fn reason(status: &Status) -> Option<&'static str> {
    const KNOWN: [&str; 19] = [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    KNOWN.into_iter().find(|known| status.reason == *known)
}

/// What follows the word `Bearer` or `Basic`, and every word with the beginning of a JSON Web Token in it.
fn without_tokens(message: &str) -> String {
    let mut announced = false;
    let words = message.split(' ').map(|word| {
        let withheld = announced || word.contains("eyJ");
        let plain = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        announced = ["bearer", "basic"].into_iter().any(|scheme| plain.eq_ignore_ascii_case(scheme));
        if withheld { "[withheld]" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Parts of the texts of rustls, hyper-util and tungstenite, and what each stands for. The first that is found holds.
const CONNECTION: [(&str, &str); 16] = [
    ("certificate: UnknownIssuer", "the server's TLS certificate is not signed by a trusted authority"),
    ("certificate: certificate expired", "the server's TLS certificate has expired"),
    ("certificate: Expired", "the server's TLS certificate has expired"),
    ("certificate: certificate not valid yet", "the server's TLS certificate is not valid yet"),
    ("certificate: NotValidYet", "the server's TLS certificate is not valid yet"),
    ("certificate: certificate not valid for name", "the server's TLS certificate is for another name"),
    ("certificate: NotValidForName", "the server's TLS certificate is for another name"),
    ("CaUsedAsEndEntity", "the server's TLS certificate is a certificate authority's own"),
    ("certificate: ", "the server's TLS certificate is not valid"),
    ("received fatal alert", "the server ended the TLS handshake; it may not accept the client certificate"),
    ("received corrupt message", "the server does not speak TLS on that port"),
    ("peer is incompatible", "the server and this client have no TLS version in common"),
    ("dns error", "the server's name cannot be resolved"),
    ("failed to lookup address", "the server's name cannot be resolved"),
    ("proxy authorization required", "the proxy wants other credentials"),
    ("tunnel error: unsuccessful", "the proxy does not connect to the server"),
];

const NO_HEADER: &str = "the token or password has characters that no header may hold";

const UNKNOWN_CONNECTION: &str = "the connection failed";

fn of_kind(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => "the connection was refused",
        io::ErrorKind::TimedOut => "the connection timed out",
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => "the connection was cut",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "there is no route to the server"
        }
        // Words for the rest would say no more; the kind is not exhaustive.
        _ => UNKNOWN_CONNECTION,
    }
}

/// Kube's own errors come boxed from a request whose credentials had to be renewed first.
fn own(cause: &(dyn Error + 'static)) -> Option<Fault> {
    let auth = cause.downcast_ref::<AuthError>().map(Fault::of_credentials);
    let auth = auth.or_else(|| cause.downcast_ref::<RustlsTlsError>().map(Fault::of_tls));
    auth.or_else(|| cause.downcast_ref::<kube::Error>().map(Fault::of))
}

/// The next cause. An [`io::Error`] that holds another error names only what lies under that one.
fn under<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match held {
        Some(held) => Some(held),
        None => error.source(),
    }
}

fn data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("its `{field}-data` is not base64"),
        LoadDataError::ReadFile(error, _) => {
            format!("the file that its `{field}` names cannot be read ({})", error.kind())
        }
        LoadDataError::NoBase64DataOrFile => format!("it has neither `{field}` nor `{field}-data`"),
    }
}

fn place_of(line: u64, column: u64) -> String {
    format!(" at line {line}, column {column}")
}

#[cfg(test)]
mod tests;
