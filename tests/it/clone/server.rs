//! A git server: git's own http-backend behind TLS, with a certificate authority of its own and, where it is wanted,
//! basic authentication.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes, to_bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a request is answered with.
#[derive(Debug, Clone)]
pub enum Manner {
    /// Everybody is served.
    Open,
    /// Who brings this token as the password is served; others are asked for it.
    Token(String),
    /// A redirect to this base.
    Redirect(String),
    /// A refusal that quotes what was sent, as a hostile or a careless server may.
    Echo,
}

/// Each request, in order.
type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// A running server. It ends with the test's runtime.
pub struct Server {
    pub port: u16,
    /// The certificate authority, PEM.
    pub authority: String,
    /// Path, and the `Authorization` header of each request.
    pub seen: Seen,
}

impl Server {
    pub fn url(&self, repository: &str) -> String {
        format!("https://localhost:{}/{repository}", self.port)
    }

    pub fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

/// Serves the repositories below `root`.
pub async fn serve(root: &Path, manner: Manner) -> Server {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    // A name of its own: a client that trusts two authorities finds the right one by it.
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    authority.distinguished_name.push(rcgen::DnType::CommonName, format!("authority of {port}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = Server { port, authority: authority.pem(), seen: Arc::clone(&seen) };
    let root = root.to_owned();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, root, manner, seen) =
                (acceptor.clone(), root.clone(), manner.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up here.
                let Ok(connection) = acceptor.accept(connection).await else { return };
                let service = service_fn(move |request| {
                    let (root, manner, seen) = (root.clone(), manner.clone(), Arc::clone(&seen));
                    async move { Ok::<_, Infallible>(answer(&root, &manner, &seen, request).await) }
                });
                let served = hyper::server::conn::http1::Builder::new();
                let _gone = served.serve_connection(TokioIo::new(connection), service).await;
            });
        }
    });
    server
}

async fn answer(
    root: &Path,
    manner: &Manner,
    seen: &Mutex<Vec<(String, Option<String>)>>,
    request: Request<Incoming>,
) -> Response<Body> {
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let authorization = header("authorization");
    let path = request.uri().path_and_query().unwrap().to_string();
    seen.lock().unwrap().push((path.clone(), authorization.clone()));
    let plain = |code: u16| Response::builder().status(code);
    let password = authorization.as_deref().and_then(|value| value.strip_prefix("Basic ")).map(|value| {
        let pair = String::from_utf8(STANDARD.decode(value).unwrap()).unwrap();
        pair.split_once(':').unwrap().1.to_owned()
    });
    match manner {
        Manner::Redirect(base) => {
            return plain(301).header("location", format!("{base}{path}")).body(Body::empty()).unwrap();
        }
        Manner::Token(token) if password.as_ref() != Some(token) => {
            let ask = plain(401).header("www-authenticate", "Basic realm=\"git\"");
            return ask.body(Body::empty()).unwrap();
        }
        Manner::Echo if authorization.is_none() => {
            let ask = plain(401).header("www-authenticate", "Basic realm=\"git\"");
            return ask.body(Body::empty()).unwrap();
        }
        Manner::Echo => {
            let text = format!("you sent {} and {}\n", authorization.unwrap(), password.unwrap());
            return plain(403).header("content-type", "text/plain").body(Body::from(text)).unwrap();
        }
        Manner::Open | Manner::Token(_) => {}
    }
    let mut environment = HashMap::from([
        ("GIT_PROJECT_ROOT", root.display().to_string()),
        ("GIT_HTTP_EXPORT_ALL", "1".to_owned()),
        ("GIT_CONFIG_COUNT", "1".to_owned()),
        ("GIT_CONFIG_KEY_0", "safe.directory".to_owned()),
        ("GIT_CONFIG_VALUE_0", "*".to_owned()),
        ("PATH_INFO", request.uri().path().to_owned()),
        ("QUERY_STRING", request.uri().query().unwrap_or_default().to_owned()),
        ("REQUEST_METHOD", request.method().to_string()),
        ("CONTENT_TYPE", header("content-type").unwrap_or_default()),
        ("GIT_PROTOCOL", header("git-protocol").unwrap_or_default()),
        ("HTTP_CONTENT_ENCODING", header("content-encoding").unwrap_or_default()),
        ("PATH", "/usr/bin:/bin".to_owned()),
    ]);
    let body: Bytes = to_bytes(Body::new(request.into_body()), 1 << 20).await.unwrap();
    environment.insert("CONTENT_LENGTH", body.len().to_string());
    let mut child = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let write = async move {
        let _closed = input.write_all(&body).await;
    };
    let ((), output) = tokio::join!(write, child.wait_with_output());
    let output = output.unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(value.split(' ').next().unwrap().parse::<u16>().unwrap()),
            _ => response.header(name, value),
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).unwrap()
}

/// Runs git in `folder`, with nothing of this machine's configuration.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `root/team/tool.git`: three commits on `main`, a branch `feature/x`, a tag `v1` on the first commit (annotated) that
/// is also a branch's name elsewhere. Gives the ids of the commits.
pub fn repository(root: &Path) -> (PathBuf, Vec<String>) {
    let bare = root.join("team/tool.git");
    std::fs::create_dir_all(&bare).unwrap();
    let work = root.join("work");
    std::fs::create_dir_all(&work).unwrap();
    git(&bare, &["init", "-q", "--bare"]);
    git(&work, &["init", "-q"]);
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        std::fs::write(work.join("file.txt"), format!("{text}\n")).unwrap();
        git(&work, &["add", "-A"]);
        git(&work, &["commit", "-q", "-m", text]);
        ids.push(git(&work, &["rev-parse", "HEAD"]));
    }
    git(&work, &["tag", "-a", "-m", "first", "v1", &ids[0]]);
    git(&work, &["branch", "feature/x", &ids[1]]);
    git(&work, &["push", "-q", bare.to_str().unwrap(), "--all"]);
    git(&work, &["push", "-q", bare.to_str().unwrap(), "--tags"]);
    (bare, ids)
}
