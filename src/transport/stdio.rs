//! MCP over a pair of byte streams, one JSON message a line.
//!
//! rmcp speaks the protocol; the line transport is ours, because rmcp's own one answers malformed JSON with
//! silence, drops over-long lines without a word, ends the process when a notification comes first, loses a
//! last line without a newline, and hides repeated keys.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{ClientRequest, ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{QuitReason, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::{RoleServer, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::audit;
use crate::caller::Caller;
use crate::pipeline::Gateway;
use crate::refusal::Reason;
use crate::transport::handler::Server;
use crate::transport::lines::{Line, Lines, MOST_LINE_BYTES};
use crate::transport::message::{self, Incoming};

/// Why a session ended other than by its end of input.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The session could not begin.
    #[error("the MCP session could not begin")]
    Begin(#[source] Box<rmcp::service::ServerInitializeError>),
    /// The session's task failed.
    #[error("the MCP session failed")]
    Session(#[source] tokio::task::JoinError),
}

/// Serves one session until its input ends.
///
/// # Errors
/// [`ServeError`] when the session could not begin or its task failed; an end of input is not an error.
pub async fn serve<R, W>(gateway: Arc<Gateway>, input: R, output: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = LineTransport::new(Arc::clone(&gateway), input, output);
    let service = match Server::new(gateway).serve(transport).await {
        Ok(service) => service,
        // The client left before it said anything: nothing went wrong.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Begin(Box::new(error))),
    };
    match service.waiting().await {
        Ok(QuitReason::Closed | QuitReason::Cancelled) => Ok(()),
        Ok(reason) => {
            tracing::warn!(?reason, "the MCP session ended");
            Ok(())
        }
        Err(error) => Err(ServeError::Session(error)),
    }
}

struct LineTransport<R> {
    gateway: Arc<Gateway>,
    lines: Lines<R>,
    /// `None` after [`Transport::close`].
    output: Option<mpsc::Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    /// `initialize` has come, or a request that names its revision (2026-07-28 has no handshake). Before that
    /// rmcp takes a notification for the end of the session.
    begun: bool,
    running: Running,
}

/// The ids of requests without an answer yet. JSON-RPC matches an answer by its id alone.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<HashSet<RequestId>>>);

impl Running {
    /// Whether the id was free.
    fn begin(&self, id: &RequestId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone())
    }

    fn end(&self, id: &RequestId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

impl<R: AsyncRead + Send + Unpin> LineTransport<R> {
    fn new<W>(gateway: Arc<Gateway>, input: R, output: W) -> Self
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, receiver) = mpsc::channel(64);
        let writer = tokio::spawn(write(receiver, output));
        let lines = Lines::new(input, MOST_LINE_BYTES);
        let running = Running::default();
        Self { gateway, lines, output: Some(sender), writer: Some(writer), begun: false, running }
    }

    /// What is wrong with a message at this point of the session, and the answer that it gets instead.
    fn out_of_turn(&self, message: &RxJsonRpcMessage<RoleServer>) -> Option<(ErrorData, Option<RequestId>)> {
        let JsonRpcMessage::Request(request) = message else { return None };
        if !self.begun && matches!(request.request, ClientRequest::CallToolRequest(_)) {
            let text =
                "the session has not begun: send `initialize` first, or name the protocol version in `_meta`";
            return Some((ErrorData::invalid_request(text, None), Some(request.id.clone())));
        }
        if !self.running.begin(&request.id) {
            let text = "the id is that of a request which still runs; give each request an id of its own";
            return Some((ErrorData::invalid_request(text, None), None));
        }
        None
    }

    /// Answers a line that is no message, and records it. Both happen in tasks, because rmcp drops the
    /// future that this is called from whenever something else is ready.
    fn reject(&self, content: &[u8], error: ErrorData, id: Option<RequestId>, reason: Reason) {
        let gateway = Arc::clone(&self.gateway);
        let content = audit::unparsed(content);
        let answer = encode(&TxJsonRpcMessage::<RoleServer>::error(error, id));
        let output = self.output.clone();
        tokio::spawn(async move {
            gateway.record_stray(Caller::over_stdio(None), "", content, reason).await;
            if let (Ok(answer), Some(output)) = (answer, output) {
                let _ = output.send(answer).await;
            }
        });
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for LineTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        match &item {
            JsonRpcMessage::Response(response) => self.running.end(&response.id),
            JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) => self.running.end(id),
            JsonRpcMessage::Error(_) | JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        async move {
            let line = encode(&item)?;
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the session's output is closed");
            output.ok_or_else(closed)?.send(line).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = match self.lines.next().await {
                Ok(Line::Text(line)) => line,
                Ok(Line::TooLong) => {
                    let text = format!("the message is longer than {MOST_LINE_BYTES} bytes");
                    let reason = Reason::new("message.too_long", text.clone(), "", "");
                    self.reject(&[], ErrorData::invalid_request(text, None), None, reason);
                    continue;
                }
                Ok(Line::End) => return None,
                Err(error) => {
                    tracing::error!(%error, "the session's input cannot be read");
                    return None;
                }
            };
            match message::read(&line) {
                Incoming::Message(message) => {
                    self.begun |= message::begins(&message);
                    if let Some(id) = message::taken_back(&message) {
                        self.running.end(id);
                    }
                    if let Some((error, id)) = self.out_of_turn(&message) {
                        let reason = Reason::new("message.out_of_turn", error.message.to_string(), "", "");
                        self.reject(&line, error, id, reason);
                    } else if self.begun || matches!(*message, JsonRpcMessage::Request(_)) {
                        return Some(*message);
                    }
                }
                Incoming::Nothing => {}
                Incoming::Fault(error, id, reason) => self.reject(&line, error, id, reason),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output = None;
        match self.writer.take() {
            Some(writer) => writer.await.map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// One message, one line. serde_json escapes line breaks inside strings.
fn encode(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes lines until every sender is gone, or the reader is.
async fn write<W: AsyncWrite + Unpin>(mut lines: mpsc::Receiver<Vec<u8>>, mut output: W) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::warn!(%error, "the session's output cannot be written");
            return;
        }
    }
}
