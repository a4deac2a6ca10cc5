//! `pods/exec`: one more process in a running container, its streams over a WebSocket.
//!
//! The protocols are Kubernetes' `v4.channel.k8s.io` and `v5.channel.k8s.io`: each message is a channel's number
//! and its bytes. 0 is standard input, 1 and 2 are output and error, 3 brings a `Status` at the end. With v5 the
//! client may close a channel: 255 and the channel's number.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use super::log::pick_container;
use super::objects::find;
use super::request::is_true;
use super::status::ApiError;
use crate::embedded::cluster::Cluster;
use crate::embedded::kubelet::Running;
use crate::embedded::runner;
use crate::embedded::sandbox::{ContainerProcess, Exit, StartError};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const CLOSE: u8 = 255;

/// The protocols, the better one first.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// How much of an output is sent in one message.
const CHUNK: usize = 32 << 10;

/// Runs a command in a container.
pub async fn exec(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let options = ExecOptions::parse(request.uri().query().unwrap_or_default())?;
    let pod = find::<Pod>(&cluster, &namespace, &name)?;
    let container = pick_container(&pod, options.container.as_deref())?;
    if let Some(phase @ ("Succeeded" | "Failed")) = pod.status.as_ref().and_then(|s| s.phase.as_deref()) {
        let message = format!("cannot exec into a container in a completed pod; current phase is {phase}");
        return Err(ApiError::bad_request(message));
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let running = cluster.kubelet.running(uid, &container).ok_or_else(|| {
        ApiError::internal(format!("unable to upgrade connection: container not found ({container:?})"))
    })?;
    let (protocol, accept) = handshake(request.headers())?;
    let upgrade = hyper::upgrade::on(&mut request);
    let session = Session { cluster: Arc::clone(&cluster), running, options };
    cluster.tasks.spawn(async move {
        match upgrade.await {
            Ok(connection) => session.run(TokioIo::new(connection)).await,
            Err(error) => tracing::debug!(%error, "an exec connection was not upgraded"),
        }
    });
    let headers = [
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol)),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// The parameters of `pods/exec`.
#[derive(Debug, Default)]
struct ExecOptions {
    container: Option<String>,
    command: Vec<String>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl ExecOptions {
    /// `command` comes once a word, so the query cannot be read as a map.
    fn parse(query: &str) -> Result<Self, ApiError> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value)
                .ok_or_else(|| ApiError::bad_request("the query is not percent-encoded UTF-8"))?;
            match key {
                "container" => options.container = Some(value),
                "command" => options.command.push(value),
                "stdin" => options.stdin = is_true(Some(&value)),
                "stdout" => options.stdout = is_true(Some(&value)),
                "stderr" => options.stderr = is_true(Some(&value)),
                "tty" if is_true(Some(&value)) => {
                    return Err(ApiError::bad_request(
                        "the embedded cluster has no terminals: tty must be false",
                    ));
                }
                _ => {}
            }
        }
        if options.command.is_empty() {
            return Err(ApiError::bad_request("you must specify at least one command for the container"));
        }
        if !options.stdin && !options.stdout && !options.stderr {
            return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(options)
    }
}

/// An exec whose connection stands.
struct Session {
    cluster: Arc<Cluster>,
    running: Running,
    options: ExecOptions,
}

impl Session {
    async fn run<S: AsyncRead + tokio::io::AsyncWrite + Unpin>(self, connection: S) {
        let stop = self.cluster.stop.clone();
        let socket = WebSocketStream::from_raw_socket(connection, Role::Server, None).await;
        tokio::select! {
            () = self.serve(socket) => {}
            () = stop.cancelled() => {}
        }
    }

    async fn serve<S>(self, socket: S)
    where
        S: Sink<Message> + Stream<Item = Result<Message, S::Error>> + Unpin,
    {
        let (sink, stream) = socket.split();
        let (sender, receiver) = mpsc::channel(8);
        let mut launch = self.running.launch.clone();
        launch.argv.clone_from(&self.options.command);
        let started = runner::start_exec(&self.cluster.kubelet.sandbox, &launch, self.options.stdin).await;
        let work = async move {
            // The first, empty message tells the client that the connection stands.
            let _ = sender.send(frame(STDOUT, &[])).await;
            let status = match started {
                Ok(mut process) => self.attend(&mut process, stream, &sender).await,
                Err(error) => start_failed(&error),
            };
            // Nobody reads it when the client has gone.
            let _ = sender.send(frame(ERROR, status.to_string().as_bytes())).await;
            let _ = sender.send(Message::Close(None)).await;
        };
        tokio::join!(work, write(receiver, sink));
    }

    /// Moves the streams until the process has ended; then its `Status`.
    async fn attend<E>(
        &self,
        process: &mut ContainerProcess,
        stream: impl Stream<Item = Result<Message, E>> + Unpin,
        sender: &mpsc::Sender<Message>,
    ) -> Value {
        let (stdin, stdout, stderr) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let output = async {
            tokio::join!(
                forward(stdout, STDOUT, self.options.stdout, sender),
                forward(stderr, STDERR, self.options.stderr, sender),
            );
        };
        let end = async {
            tokio::select! {
                exit = process.wait() => return exit,
                () = self.running.gone.cancelled() => {}
            }
            // What runs in a container ends with it.
            process.kill().await;
            process.wait().await
        };
        let input = async {
            feed(stream, stdin).await;
            // As with a real node, the process outlives a client that has gone.
            std::future::pending::<()>().await;
        };
        let exit = tokio::select! {
            (exit, ()) = async { tokio::join!(end, output) } => exit,
            () = input => return json!({}),
        };
        match exit.unwrap_or(Exit::Signal(9)).code() {
            0 => json!({"metadata": {}, "status": "Success"}),
            code => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!(
                    "command terminated with non-zero exit code: error executing command {:?}, exit code {code}",
                    self.options.command
                ),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
        }
    }
}

/// Chooses the protocol, and answers the key.
fn handshake(headers: &HeaderMap) -> Result<(&'static str, HeaderValue), ApiError> {
    let text = |name| headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
    let websocket = text(header::UPGRADE).any(|value| value.eq_ignore_ascii_case("websocket"));
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| websocket);
    let key = key.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    let offered: Vec<&str> =
        text(header::SEC_WEBSOCKET_PROTOCOL).flat_map(|value| value.split(',').map(str::trim)).collect();
    let protocol = PROTOCOLS.into_iter().find(|protocol| offered.contains(protocol)).ok_or_else(|| {
        ApiError::bad_request(format!(
            "unable to negotiate protocol: client supports {offered:?}, server {PROTOCOLS:?}"
        ))
    })?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|error| ApiError::internal(error.to_string()))?;
    Ok((protocol, accept))
}

/// What the client sends, to the process' standard input.
async fn feed<E>(mut stream: impl Stream<Item = Result<Message, E>> + Unpin, mut stdin: Option<ChildStdin>) {
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => return,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match bytes.as_ref() {
            [STDIN, rest @ ..] => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(rest).await.is_err()
                {
                    // The process reads no more.
                    stdin = None;
                }
            }
            [CLOSE, STDIN] => stdin = None,
            _ => {}
        }
    }
}

/// What the process writes, to the client. An output that nobody wants is read all the same.
async fn forward(
    pipe: Option<impl AsyncRead + Unpin>,
    channel: u8,
    wanted: bool,
    sender: &mpsc::Sender<Message>,
) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        if let Some(bytes) = buffer.get(..count).filter(|_| wanted) {
            // It fails when the client has gone, and the process runs on.
            let _ = sender.send(frame(channel, bytes)).await;
        }
    }
}

async fn write<S: Sink<Message> + Unpin>(mut messages: mpsc::Receiver<Message>, mut sink: S) {
    let mut open = true;
    while let Some(message) = messages.recv().await {
        open = open && sink.send(message).await.is_ok();
    }
    // A client that has closed already needs no goodbye.
    let _ = sink.close().await;
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    Message::Binary([&[channel], bytes].concat().into())
}

fn start_failed(error: &StartError) -> Value {
    let message = format!(
        "error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec \
         failed: exec failed: unable to start container process: {error}: unknown"
    );
    let mut status = ApiError::internal(message.clone()).status();
    if let Value::Object(fields) = &mut status {
        fields.insert("details".to_owned(), json!({"causes": [{"message": message}]}));
    }
    status
}

/// Undoes the encoding of a query's value.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_word_by_word() {
        let options = ExecOptions::parse(
            "command=sh&command=-c&command=echo+a%26b%20%C3%A9&stdout=true&container=main",
        )
        .unwrap();
        assert_eq!(options.command, ["sh", "-c", "echo a&b é"]);
        assert_eq!(options.container.as_deref(), Some("main"));
        assert!(options.stdout && !options.stdin && !options.stderr);
        for wrong in [
            "",
            "command=a",
            "stdout=true",
            "command=%&stdout=1",
            "command=%FF&stdout=1",
            "command=a&stdout=1&tty=1",
        ] {
            assert!(ExecOptions::parse(wrong).is_err(), "{wrong}");
        }
    }
}
