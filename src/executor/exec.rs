//! Runs a program in a helper container and moves bytes through it.
//!
//! A stream without a final status is a lost stream, never a success: kube gives `None` for the status then,
//! and may never end the output streams. So the status, the streams and a deadline are raced, and both output
//! streams are drained at once, because a full one stops the other.

use bytes::Bytes;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::executor::api::ApiError;
use crate::executor::fault::Fault;
use crate::output::Tail;

/// How much of a stream is buffered; kube's own 1 KiB costs a wake-up for each.
const BUFFER: usize = 64 * 1024;

/// How much of standard error is kept for a message.
const STDERR_KEPT: usize = 2048;

/// What to run, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    pub(crate) pods: &'a Api<Pod>,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
    pub(crate) argv: &'a [&'a str],
}

/// How a program in a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// It exited; the code.
    Exited(i32),
    /// It ended otherwise, in the node's words.
    Failed(String),
    /// The connection ended without a status, so nothing is known.
    Lost,
    /// The deadline came first. The program may still run.
    TimedOut,
}

/// The end, and what was written on standard error.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) stderr: String,
}

impl Command<'_> {
    /// Writes `input` to the program's standard input, then ends it; its output is of no interest.
    ///
    /// # Errors
    /// [`ApiError`] when the program could not be started.
    pub(crate) async fn send(self, input: &[Bytes], deadline: Instant) -> Result<Finished, ApiError> {
        self.run(Some(input), None, deadline).await
    }

    /// Both at once.
    ///
    /// # Errors
    /// [`ApiError`] when the program could not be started.
    pub(crate) async fn exchange(
        self,
        input: &[Bytes],
        output: mpsc::Sender<Bytes>,
        deadline: Instant,
    ) -> Result<Finished, ApiError> {
        self.run(Some(input), Some(output), deadline).await
    }

    /// Hands the program's standard output to `output`, whose channel ends when this returns.
    ///
    /// # Errors
    /// [`ApiError`] when the program could not be started.
    pub(crate) async fn receive(
        self,
        output: mpsc::Sender<Bytes>,
        deadline: Instant,
    ) -> Result<Finished, ApiError> {
        self.run(None, Some(output), deadline).await
    }

    async fn run(
        self,
        input: Option<&[Bytes]>,
        output: Option<mpsc::Sender<Bytes>>,
        deadline: Instant,
    ) -> Result<Finished, ApiError> {
        const WHAT: &str = "run a program in a helper container";
        let params = AttachParams {
            stdin: input.is_some(),
            max_stdin_buf_size: Some(BUFFER),
            max_stdout_buf_size: Some(BUFFER),
            max_stderr_buf_size: Some(BUFFER),
            ..AttachParams::default().container(self.container)
        };
        let starting = self.pods.exec(self.pod, self.argv.iter().copied(), &params);
        // Dropping the process at the end of this function ends its task, whatever state it is in.
        let mut process = match timeout_at(deadline, starting).await {
            Ok(started) => started.map_err(|error| ApiError::of(WHAT, error))?,
            Err(_) => {
                return Err(ApiError::Unavailable { what: WHAT, cause: Fault::no_answer() });
            }
        };
        let stdin = process.stdin();
        let (stdout, stderr) = (process.stdout(), process.stderr());
        let Some(status) = process.take_status() else {
            return Ok(Finished { end: End::Lost, stderr: String::new() });
        };

        let mut errors = Tail::new(STDERR_KEPT);
        let end = {
            let writing = async {
                if let (Some(mut stdin), Some(input)) = (stdin, input) {
                    for chunk in input {
                        if stdin.write_all(chunk).await.is_err() {
                            return;
                        }
                    }
                    // Dropping it would send no end of file, and the program would wait for ever.
                    let _ = stdin.shutdown().await;
                }
            };
            let reading = async {
                tokio::join!(forward(stdout, output), keep_tail(stderr, &mut errors));
            };
            let (mut writing, mut reading, mut status) =
                (std::pin::pin!(writing), std::pin::pin!(reading), std::pin::pin!(status));
            let (mut written, mut read) = (false, false);
            let status = timeout_at(deadline, async {
                loop {
                    tokio::select! {
                        status = &mut status => return status,
                        () = &mut writing, if !written => written = true,
                        () = &mut reading, if !read => read = true,
                    }
                }
            })
            .await;
            match status {
                Err(_) => End::TimedOut,
                Ok(None) => End::Lost,
                // What was received before the status is still on its way through the buffers.
                Ok(Some(status)) => match timeout_at(deadline, async {
                    if !read {
                        reading.await;
                    }
                })
                .await
                {
                    Ok(()) => end_of(status),
                    Err(_) => End::TimedOut,
                },
            }
        };
        Ok(Finished { end, stderr: errors.finish().text })
    }
}

impl Finished {
    /// For a message: how it ended, and its last words.
    pub(crate) fn describe(&self) -> String {
        let how = match &self.end {
            End::Exited(code) => format!("exit code {code}"),
            End::Failed(message) => message.clone(),
            End::Lost => "the connection was lost".to_owned(),
            End::TimedOut => "it did not end in time".to_owned(),
        };
        crate::executor::text::because(&how, &self.stderr)
    }
}

/// The status on the exec protocol's error channel (`metav1.Status`; reason `NonZeroExitCode` with a cause
/// `ExitCode`).
fn end_of(status: Status) -> End {
    if status.status.as_deref() == Some("Success") {
        return End::Exited(0);
    }
    let code = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten())
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .and_then(|cause| cause.message.as_deref()?.parse().ok());
    match code {
        Some(code) => End::Exited(code),
        None => End::Failed(status.message.unwrap_or_else(|| "it failed without a reason".to_owned())),
    }
}

/// Reads to the end, also when nobody takes the bytes: a full pipe would stop the other streams.
async fn forward(stream: Option<impl AsyncRead + Unpin>, to: Option<mpsc::Sender<Bytes>>) {
    let Some(mut stream) = stream else { return };
    loop {
        let mut buffer = bytes::BytesMut::with_capacity(BUFFER);
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if let Some(to) = &to {
            // A receiver that is gone has all that it wanted.
            let _ = to.send(buffer.freeze()).await;
        }
    }
}

async fn keep_tail(stream: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    let Some(mut stream) = stream else { return };
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => tail.push(buffer.get(..length).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
    use serde_json::json;

    use super::{End, end_of};

    #[test]
    fn the_status_tells_the_exit_code() {
        let table = [
            (json!({ "status": "Success" }), End::Exited(0)),
            (
                json!({ "status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated with non-zero exit code",
                    "details": { "causes": [{ "reason": "ExitCode", "message": "42" }] } }),
                End::Exited(42),
            ),
            (
                json!({ "status": "Failure", "reason": "InternalError", "message": "container not found" }),
                End::Failed("container not found".to_owned()),
            ),
        ];
        for (status, end) in table {
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(end_of(status), end);
        }
    }
}
