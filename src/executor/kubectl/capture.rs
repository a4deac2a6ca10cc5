//! One end of a program's output, in bounded memory, while the rest is read and counted.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Which end to keep, and the most bytes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// The first bytes: as many as `list` when they begin like a list in JSON, which is of use only whole, or
    /// else as many as `text`.
    Start {
        /// For JSON.
        list: usize,
        /// For anything else.
        text: usize,
    },
    /// The last bytes.
    End(usize),
}

/// Collects an output.
#[derive(Debug)]
pub(super) struct Capture {
    keep: Keep,
    kept: VecDeque<u8>,
    characters: u64,
}

/// What was kept of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Captured {
    /// The bytes at the wanted end, cut between characters.
    pub(super) bytes: Vec<u8>,
    /// How many characters were not kept.
    pub(super) omitted: u64,
}

impl Capture {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, kept: VecDeque::new(), characters: 0 }
    }

    /// Reads to the end. An error of the pipe is an end, too: kubectl's own end tells more.
    pub(super) async fn fill(&mut self, mut output: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = output.read(&mut chunk).await {
            self.push(chunk.get(..count).unwrap_or_default());
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.characters += characters(chunk);
        match self.keep {
            Keep::Start { .. } => {
                let room = self.cap(chunk).saturating_sub(self.kept.len());
                let (new, _) = chunk.split_at(room.min(chunk.len()));
                self.append(new, self.cap(chunk));
            }
            Keep::End(cap) => {
                let (_, new) = chunk.split_at(chunk.len().saturating_sub(cap));
                let overflow = (self.kept.len() + new.len()).saturating_sub(cap);
                self.kept.drain(..overflow);
                self.append(new, cap);
            }
        }
    }

    /// The cap, once there is a first byte.
    fn cap(&self, chunk: &[u8]) -> usize {
        match self.keep {
            Keep::Start { list, .. } if self.kept.front().or(chunk.first()) == Some(&b'{') => list,
            Keep::Start { text, .. } => text,
            Keep::End(cap) => cap,
        }
    }

    /// Doubling, but never past the cap: an unbounded doubling would take twice what was promised.
    fn append(&mut self, new: &[u8], cap: usize) {
        let needed = self.kept.len() + new.len();
        if self.kept.capacity() < needed {
            let wanted = (self.kept.capacity() * 2).clamp(needed, cap.max(needed));
            self.kept.reserve_exact(wanted - self.kept.len());
        }
        self.kept.extend(new);
    }

    pub(super) fn finish(self) -> Captured {
        let mut bytes = Vec::from(self.kept);
        let mut omitted = self.characters.saturating_sub(characters(&bytes));
        match self.keep {
            Keep::Start { .. } if omitted > 0 => {
                // The last character may be cut; what is then left of it is not valid on its own.
                let rest = bytes.iter().rev().take(3).take_while(|byte| is_continuation(**byte)).count() + 1;
                let last = bytes.split_off(bytes.len().saturating_sub(rest));
                if std::str::from_utf8(&last).is_ok() {
                    bytes.extend(last);
                } else {
                    omitted += 1;
                }
            }
            Keep::End(_) if omitted > 0 => {
                let rest = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
                bytes.drain(..rest);
            }
            Keep::Start { .. } | Keep::End(_) => {}
        }
        Captured { bytes, omitted }
    }
}

/// Characters of UTF-8, counted by their first bytes.
fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| !is_continuation(**byte)).count() as u64
}

/// A byte that is not the first of its character (RFC 3629, section 3).
fn is_continuation(byte: u8) -> bool {
    (0x80..0xc0).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::{Capture, Captured, Keep};

    fn captured(keep: Keep, chunks: &[&[u8]]) -> Captured {
        let mut capture = Capture::new(keep);
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.finish()
    }

    const fn start(text: usize) -> Keep {
        Keep::Start { list: 8, text }
    }

    #[test]
    fn one_end_is_kept_and_the_other_counted() {
        // The pieces in which it comes are set apart by bars.
        let table = [
            (start(9), "abc", "abc", 0),
            (start(3), "abc", "abc", 0),
            (start(3), "ab|cde", "abc", 2),
            (start(3), "{b|cdefg|hij", "{bcdefgh", 2),
            (Keep::End(9), "abc", "abc", 0),
            (Keep::End(3), "ab|cde", "cde", 2),
            (Keep::End(2), "abcdefgh", "gh", 6),
            (Keep::End(0), "ab", "", 2),
            // "\u{e4}" is c3 a4: it goes whole, and counts once.
            (start(2), "x\u{e4}yz", "x", 3),
            (Keep::End(3), "x\u{e4}yz", "yz", 2),
            (Keep::End(4), "x\u{e4}yz", "\u{e4}yz", 1),
        ];
        for (keep, text, kept, omitted) in table {
            let chunks: Vec<&[u8]> = text.split('|').map(str::as_bytes).collect();
            let wanted = Captured { bytes: kept.as_bytes().to_vec(), omitted };
            assert_eq!(captured(keep, &chunks), wanted, "{keep:?} of {text:?}");
        }
    }

    #[tokio::test]
    async fn memory_stays_within_the_cap() {
        for keep in [start(1000), Keep::End(1000)] {
            let mut capture = Capture::new(keep);
            capture.fill(tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 5_000_000)).await;
            assert!(capture.kept.capacity() <= 1000, "{}", capture.kept.capacity());
            assert_eq!(capture.finish(), Captured { bytes: vec![b'x'; 1000], omitted: 4_999_000 });
        }
    }
}
