//! MCP on the wire: stdio by rmcp, and the translation between its types and the pipeline's.

mod handler;
mod lines;
mod message;
mod stdio;
mod wire;

pub use stdio::{ServeError, serve};
use wire::Usable;

use crate::pipeline::Judge;

/// The tools as `tools/list` shows them to a caller with these roles.
#[must_use]
pub fn listing(judge: &Judge, roles: &[String]) -> Vec<rmcp::model::Tool> {
    let usable = Usable { images: judge.images(roles), namespaces: judge.readable_namespaces(roles) };
    judge.catalogue().definitions().map(|definition| wire::tool(definition, &usable)).collect()
}

/// Doors for tests/fuzz, in no ordinary build.
#[cfg(fuzzing)]
pub mod fuzzing {
    use std::future::poll_fn;
    use std::io;
    use std::pin::pin;
    use std::task::Poll;

    use tokio::io::AsyncRead;

    use super::lines::{Line, Lines};

    /// All lines of an input, `None` for one that is too long. Like a service loop, it drops the future of the
    /// next line whenever that is not ready.
    ///
    /// # Errors
    /// Those of the input.
    pub async fn lines(input: impl AsyncRead + Unpin, most: usize) -> io::Result<Vec<Option<Vec<u8>>>> {
        let (mut lines, mut found) = (Lines::new(input, most), Vec::new());
        loop {
            match poll_fn(|context| Poll::Ready(pin!(lines.next()).poll(context))).await {
                Poll::Pending => {}
                Poll::Ready(line) => match line? {
                    Line::Text(text) => found.push(Some(text)),
                    Line::TooLong => found.push(None),
                    Line::End => return Ok(found),
                },
            }
        }
    }
}
