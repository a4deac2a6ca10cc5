//! Output on its way to a reader: the newest part of a stream in bounded memory, and text made safe to show.

mod clean;
mod cut;
mod secrets;

use std::collections::VecDeque;

pub use clean::{Cleaned, clean, clean_bytes};
pub use cut::{Cut, keep_end, keep_start};
pub use secrets::redact;

/// Keeps the newest bytes of a stream and counts those that came before.
///
/// Errors stand at the end of a log, so the head is what goes. Memory stays within the cap, however much is
/// pushed and however it is cut into pieces.
#[derive(Debug)]
pub struct Tail {
    cap: usize,
    kept: VecDeque<u8>,
    dropped: u64,
}

/// The text that a [`Tail`] ends with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// The newest output, at most the cap's bytes, cut between characters. Bytes that are not UTF-8 are
    /// replaced by U+FFFD.
    pub text: String,
    /// How many bytes of the stream came before `text`.
    pub omitted_bytes: u64,
}

impl Tail {
    /// An empty tail of at most `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self { cap, kept: VecDeque::new(), dropped: 0 }
    }

    /// Appends the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        let beyond = chunk.len().saturating_sub(self.cap);
        let (old, new) = chunk.split_at(beyond);
        let overflow = (self.kept.len() + new.len()).saturating_sub(self.cap);
        self.kept.drain(..overflow);
        if self.kept.capacity() < self.kept.len() + new.len() {
            // Doubling, but never past the cap: an unbounded doubling would take twice what was promised.
            let wanted = (self.kept.capacity() * 2).clamp(self.kept.len() + new.len(), self.cap);
            self.kept.reserve_exact(wanted - self.kept.len());
        }
        self.kept.extend(new);
        self.dropped += (old.len() + overflow) as u64;
    }

    /// How many bytes of the stream were pushed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// The text at the end of the stream.
    #[must_use]
    pub fn finish(mut self) -> Text {
        let bytes: &[u8] = self.kept.make_contiguous();
        let split = if self.dropped > 0 { split_character(bytes) } else { 0 };
        let (cut, bytes) = bytes.split_at(split);
        let (text, cut_more) = lossy_within(bytes, self.cap);
        Text { text, omitted_bytes: self.dropped + (cut.len() + cut_more) as u64 }
    }
}

/// How many bytes at the start may be the rest of a character whose first byte is gone. A character of UTF-8
/// has at most three continuation bytes (RFC 3629, section 3).
fn split_character(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count()
}

/// Decodes `bytes` into at most `cap` bytes of text, leaving out the head where replacements make it too long.
/// Also gives how many of `bytes` were left out.
fn lossy_within(bytes: &[u8], cap: usize) -> (String, usize) {
    let replacement = char::REPLACEMENT_CHARACTER.len_utf8();
    let decoded: usize = bytes
        .utf8_chunks()
        .map(|chunk| chunk.valid().len() + if chunk.invalid().is_empty() { 0 } else { replacement })
        .sum();
    let mut excess = decoded.saturating_sub(cap);
    let mut text = String::with_capacity(decoded.min(cap));
    let mut left_out = 0;
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().chars();
        while excess > 0
            && let Some(character) = rest.next()
        {
            excess = excess.saturating_sub(character.len_utf8());
            left_out += character.len_utf8();
        }
        text.push_str(rest.as_str());
        if !chunk.invalid().is_empty() {
            if excess > 0 {
                excess = excess.saturating_sub(replacement);
                left_out += chunk.invalid().len();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
    (text, left_out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};
    use proptest::prop_assert;
    use proptest::prop_assert_eq;

    use super::{Tail, Text};

    fn tail(cap: usize, chunks: &[&[u8]]) -> (String, u64) {
        let mut tail = Tail::new(cap);
        for chunk in chunks {
            tail.push(chunk);
        }
        let Text { text, omitted_bytes } = tail.finish();
        (text, omitted_bytes)
    }

    #[test]
    fn keeps_the_newest_bytes_and_counts_the_rest() {
        let table: &[(usize, &[&[u8]], &str, u64)] = &[
            (10, &[], "", 0),
            (10, &[b"hello"], "hello", 0),
            (5, &[b"hello"], "hello", 0),
            (5, &[b"hello", b"!"], "ello!", 1),
            (3, &[b"a", b"bcdefgh"], "fgh", 5),
            (0, &[b"abc"], "", 3),
            // "\u{e4}" is c3 a4: a cut inside it takes the whole character.
            (4, &["x\u{e4}bcd".as_bytes()], "bcd", 3),
            // "\u{1f980}" is f0 9f a6 80: three continuation bytes at most go.
            (5, &["\u{1f980}yz".as_bytes()], "yz", 4),
            // Not cut, so a stray continuation byte is invalid input, not a split character.
            (9, &[b"\xa4bc"], "\u{fffd}bc", 0),
            // One invalid byte becomes three: the text still fits the cap.
            (6, &[b"abc\xffde"], "c\u{fffd}de", 2),
        ];
        for (cap, chunks, text, omitted) in table {
            assert_eq!(tail(*cap, chunks), ((*text).to_owned(), *omitted), "cap {cap}, {chunks:?}");
        }
    }

    proptest! {
        #[test]
        fn text_is_the_end_of_the_stream(text in "\\PC{0,80}", cap in 0_usize..100, cuts in prop::collection::vec(0_usize..320, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let (kept, omitted) = tail(cap, &chunks);
            prop_assert!(text.ends_with(&kept));
            prop_assert!(kept.len() <= cap);
            prop_assert_eq!(kept.len() as u64 + omitted, bytes.len() as u64);
            // No more is lost than a split character demands.
            prop_assert!(omitted == 0 || kept.len() + 4 > cap);
        }

        #[test]
        fn any_bytes_stay_within_the_cap(bytes in prop::collection::vec(any::<u8>(), 0..300), cap in 0_usize..120, piece in 1_usize..50) {
            let mut tail = Tail::new(cap);
            for chunk in bytes.chunks(piece) {
                tail.push(chunk);
                prop_assert!(tail.kept.capacity() <= cap, "{} over {cap}", tail.kept.capacity());
            }
            let Text { text, omitted_bytes } = tail.finish();
            let omitted = usize::try_from(omitted_bytes).unwrap();
            prop_assert!(text.len() <= cap);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes[omitted..]));
        }
    }
}
