//! What may be said, and that nothing else is. The texts of other libraries are what they print today.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use kube::client::AuthError;
use kube::config::{KubeconfigError, LoadDataError};
use kube::core::Status;

use super::{Fault, refusal};

/// An error with another under it, as HTTP clients stack them.
#[derive(Debug)]
struct Layer(String, Option<Box<dyn Error + Send + Sync>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Layer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.as_ref().map(|under| under.as_ref() as _)
    }
}

fn layer(text: &str, under: impl Into<Box<dyn Error + Send + Sync>>) -> Layer {
    Layer(text.to_owned(), Some(under.into()))
}

fn leaf(text: &str) -> Layer {
    Layer(text.to_owned(), None)
}

fn said(under: impl Into<Box<dyn Error + Send + Sync>>) -> String {
    let service = kube::Error::Service(layer("client error (Connect)", under).into());
    Fault::of(&service).to_string()
}

fn tls(text: &str) -> String {
    // tokio-rustls puts rustls' error into an io::Error, whose own source is what lies under that.
    said(io::Error::new(io::ErrorKind::InvalidData, leaf(text)))
}

#[test]
fn a_connection_says_which_way_it_failed() {
    for (text, expected) in [
        (
            "invalid peer certificate: UnknownIssuer",
            "the server's TLS certificate is not signed by a trusted authority",
        ),
        (
            "invalid peer certificate: certificate expired: verification time 2 (UNIX), but certificate is not valid after 1 (1 seconds ago)",
            "the server's TLS certificate has expired",
        ),
        (
            "invalid peer certificate: certificate not valid for name \"CANARY\"; certificate is only valid for CANARY",
            "the server's TLS certificate is for another name",
        ),
        ("invalid peer certificate: BadSignature CANARY", "the server's TLS certificate is not valid"),
        (
            "received fatal alert: CertificateRequired",
            "the server ended the TLS handshake; it may not accept the client certificate",
        ),
    ] {
        assert_eq!(tls(text), expected);
    }
    for (kind, expected) in [
        (io::ErrorKind::ConnectionRefused, "the connection was refused"),
        (io::ErrorKind::TimedOut, "the connection timed out"),
        (io::ErrorKind::ConnectionReset, "the connection was cut"),
        (io::ErrorKind::HostUnreachable, "there is no route to the server"),
        (io::ErrorKind::Other, "the connection failed"),
    ] {
        assert_eq!(said(layer("tcp connect error", io::Error::new(kind, "CANARY"))), expected);
    }
    assert_eq!(said(layer("dns error", io::Error::other("CANARY"))), "the server's name cannot be resolved");
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(
        said(layer("tunnel error: failed to create underlying connection", refused)),
        "through the proxy: the connection was refused"
    );
    assert_eq!(said(leaf("CANARY")), "the connection failed");
}

#[test]
fn credentials_and_kubeconfigs_are_not_quoted() {
    use std::os::unix::process::ExitStatusExt as _;
    let out = std::process::Output {
        status: std::process::ExitStatus::from_raw(3 << 8),
        stdout: b"CANARY".to_vec(),
        stderr: b"CANARY".to_vec(),
    };
    let canary = || "CANARY".to_owned();
    let run = AuthError::AuthExecRun { cmd: canary(), out: Box::new(out) };
    // As when the credentials are renewed in the middle of a request.
    assert_eq!(said(run), "the credential plugin failed with exit code 3");
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let kube = |error| Fault::of(&error).to_string();
    let proxy = "socks9://user:CANARY@host:1".parse().unwrap();
    for (text, expected) in [
        (
            said(AuthError::AuthExec(canary())),
            "its `auth-provider` is not supported or gave no token; use an exec plugin",
        ),
        (
            said(AuthError::ReadTokenFile(missing(), PathBuf::from("CANARY"))),
            "the file of `tokenFile` cannot be read (entity not found)",
        ),
        (
            kube(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(proxy) }),
            "the proxy's URL is not http, https or socks5",
        ),
        (
            kube(kube::Error::SerdeError(serde_json::from_str::<u8>("\"CANARY\"").unwrap_err())),
            "the answer is not Kubernetes'",
        ),
        (kube(KubeconfigError::LoadContext(canary()).into()), "it has no context of that name"),
        (
            kube(
                KubeconfigError::LoadClientKey(LoadDataError::ReadFile(missing(), PathBuf::from("CANARY")))
                    .into(),
            ),
            "the file that its `client-key` names cannot be read (entity not found)",
        ),
    ] {
        assert_eq!(text, expected);
    }
}

#[test]
fn an_answer_is_quoted_only_when_it_is_kubernetes() {
    let status = |message: &str, reason: &str, code| Status::failure(message, reason).with_code(code);
    for (message, reason, code, expected) in [
        (
            "pods \"a\" is forbidden: exceeded quota: q",
            "Forbidden",
            403,
            "pods \"a\" is forbidden: exceeded quota: q",
        ),
        // Of a webhook that gives no reason.
        (
            "admission webhook \"w\" denied the request: no",
            "",
            400,
            "admission webhook \"w\" denied the request: no",
        ),
        (
            "got Authorization: Bearer CANARY",
            "Failed to parse error data",
            403,
            "HTTP 403, in a form that is not Kubernetes'; a proxy or another server may have answered",
        ),
        (
            "token CANARY is unknown",
            "Unauthorized",
            401,
            "HTTP 401: the credentials are not accepted; renew them",
        ),
        (
            "denied, Authorization: \"Bearer CANARY\" eyJCANARY",
            "Forbidden",
            403,
            "denied, Authorization: \"Bearer [withheld] [withheld]",
        ),
    ] {
        assert_eq!(refusal(&status(message, reason, code)), expected);
    }
    for (message, reason, code, expected) in [
        ("<html>CANARY", "Failed to parse error data", 502, "HTTP 502"),
        ("CANARY", "ServiceUnavailable", 503, "HTTP 503 (ServiceUnavailable)"),
        (
            "Internal error occurred: failed calling webhook \"w\": Post \"https://CANARY\"",
            "InternalError",
            500,
            "HTTP 500 (InternalError): an admission webhook could not be called",
        ),
    ] {
        let error = kube::Error::Api(status(message, reason, code).boxed());
        assert_eq!(Fault::of(&error).to_string(), expected);
    }
}
