//! The split of standard input into lines: the same whatever the pieces in which it comes, and whatever future was
//! dropped between them.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll};

use kubepermit::transport::fuzzing::lines;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, ReadBuf};

/// Gives the bytes in small pieces, and has nothing ready in between.
struct Trickle<'a> {
    rest: &'a [u8],
    piece: usize,
    ready: bool,
}

impl AsyncRead for Trickle<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.ready = !self.ready;
        if !self.ready {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = self.piece.min(self.rest.len()).min(buffer.remaining());
        let (now, later) = self.rest.split_at(count);
        buffer.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

/// What the lines are: text without its end, `None` for one that is too long; blank ones do not count.
fn expected(input: &[u8], most: usize) -> Vec<Option<Vec<u8>>> {
    let lines = input.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        (line.len() <= most).then(|| text.to_vec())
    });
    lines.filter(|line| line.as_ref().is_none_or(|text| !text.is_empty())).collect()
}

fuzz_target!(|data: &[u8]| {
    let [most, piece, input @ ..] = data else {
        return;
    };
    let (most, piece) = (usize::from(*most), usize::from(*piece).max(1));
    let expected = expected(input, most);
    let whole = futures::executor::block_on(lines(input, most)).expect("memory does not fail");
    assert_eq!(whole, expected);
    let trickle = Trickle { rest: input, piece, ready: false };
    let pieces = futures::executor::block_on(lines(trickle, most)).expect("memory does not fail");
    assert_eq!(pieces, expected);
});
