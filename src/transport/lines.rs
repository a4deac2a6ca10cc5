//! Splits a byte stream into lines of bounded length.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// The longest message that is read, in bytes: an input of 10 MiB in base64, and room to spare.
pub(super) const MOST_LINE_BYTES: usize = 32 * 1024 * 1024;

/// What the stream gave next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end (`\n` or `\r\n`), never empty.
    Text(Vec<u8>),
    /// A line longer than the limit; it was dropped.
    TooLong,
    /// The stream ended.
    End,
}

/// Reads lines. The state lives here and not in [`Lines::next`], because a service loop drops that future
/// whenever something else is ready: what was read by then must not be lost.
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    most: usize,
    dropping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, most: usize) -> Self {
        Self { input: BufReader::new(input), line: Vec::new(), most, dropping: false, ended: false }
    }

    /// The next line. A last line without an end counts as one: `printf` sends such.
    pub(super) async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            if self.ended {
                return Ok(Line::End);
            }
            let chunk = self.input.fill_buf().await?;
            // No await between here and `consume`: both happen or neither does.
            if chunk.is_empty() {
                self.ended = true;
                match self.take() {
                    Some(line) => return Ok(line),
                    None => continue,
                }
            }
            let (piece, ends) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(end) => (chunk.get(..end).unwrap_or_default(), true),
                None => (chunk, false),
            };
            let used = piece.len().saturating_add(usize::from(ends));
            if self.line.len().saturating_add(piece.len()) > self.most {
                self.dropping = true;
                self.line = Vec::new();
            }
            if !self.dropping {
                self.line.extend_from_slice(piece);
            }
            self.input.consume(used);
            if ends && let Some(line) = self.take() {
                return Ok(line);
            }
        }
    }

    /// The line that was gathered, unless it is blank.
    fn take(&mut self) -> Option<Line> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.dropping) {
            return Some(Line::TooLong);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!line.is_empty()).then_some(Line::Text(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], most: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, most);
        let mut found = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return found,
                line => found.push(line),
            }
        }
    }

    fn text(line: &str) -> Line {
        Line::Text(line.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_end_at_newlines_and_at_the_end() {
        assert_eq!(all(b"a\nb\r\n\n\nc", 10).await, [text("a"), text("b"), text("c")]);
        assert_eq!(all(b"", 10).await, []);
        assert_eq!(all(b"\n\r\n", 10).await, []);
    }

    #[tokio::test]
    async fn a_long_line_is_dropped_and_the_next_one_is_not() {
        assert_eq!(all(b"1234\n12345\n1\n", 4).await, [text("1234"), Line::TooLong, text("1")]);
        assert_eq!(all(b"12345", 4).await, [Line::TooLong]);
        let long = [vec![b'x'; 100_000], b"\nok\n".to_vec()].concat();
        assert_eq!(all(&long, 4).await, [Line::TooLong, text("ok")]);
    }
}
