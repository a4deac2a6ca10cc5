//! The hash chain over the lines of a log, and its check.
//!
//! A line is one JSON object, in ASCII, ended by one newline (0x0A). Its last two members are `prev` and
//! `hash`, so that every line ends in exactly
//!
//! ```text
//! ,"prev":"<64 digits>","hash":"<64 digits>"}
//! ```
//!
//! with lowercase hexadecimal digits and no space. With *body* for the bytes of the line before its last
//! `,"hash":`, the rule is
//!
//! ```text
//! prev(1) = 64 times the digit 0        seq(1) = 1
//! prev(n) = hash(n-1)                   seq(n) = seq(n-1) + 1
//! hash(n) = hex(SHA-256(prev(n) as those 64 ASCII digits, then body(n)))
//! ```
//!
//! To check one line in a shell, or a whole file in Python:
//!
//! ```text
//! body=${line%,\"hash\":*}; prev=${body##*\"prev\":\"}; printf '%s' "${prev%\"}$body" | sha256sum
//!
//! import hashlib, json, sys
//! prev = "0" * 64
//! for n, line in enumerate(open(sys.argv[1], "rb"), 1):
//!     body, digest = line[:-76], line[-67:-3].decode()
//!     record = json.loads(line)
//!     assert record["seq"] == n and record["prev"] == prev and record["hash"] == digest, n
//!     assert hashlib.sha256(prev.encode() + body).hexdigest() == digest, n
//!     prev = digest
//! ```
//!
//! The chain shows that a line was changed, removed from the middle, added or moved. Whoever can write the
//! file can also make it anew, and cut it at its end: against that, keep the head (`seq` and `hash`) elsewhere.

use std::io::{self, BufRead, Read};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::audit::line::MAX_LINE;

/// Where a chain stands: the last record's number and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// `seq` of the last record; 0 before the first.
    pub seq: u64,
    /// `hash` of the last record in lowercase hexadecimal; 64 zeros before the first.
    pub hash: String,
}

impl Head {
    /// The head before the first record.
    #[must_use]
    pub fn genesis() -> Self {
        Self { seq: 0, hash: "0".repeat(64) }
    }
}

/// The first line at which a chain breaks.
#[derive(Debug, Error)]
#[error("line {line} {problem}")]
pub struct ChainError {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: Break,
    /// Set for [`Break::Unreadable`].
    pub source: Option<io::Error>,
}

/// What can be wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Break {
    /// The reader failed.
    #[error("cannot be read")]
    Unreadable,
    /// The bytes end before a newline does.
    #[error("does not end in a newline")]
    Torn,
    /// More bytes than a record may have.
    #[error("is longer than a record may be")]
    TooLong,
    /// Not a record.
    #[error("is not a record")]
    Malformed,
    /// The digest does not fit the bytes.
    #[error("does not match its own hash")]
    Hash,
    /// `prev` is not the hash of the line before.
    #[error("does not follow the line before it")]
    Link,
    /// `seq` is not one more than that of the line before.
    #[error("is out of sequence")]
    Sequence,
}

/// Checks every line and every link from `head` on, in one pass and constant memory. Answers the new head.
///
/// # Errors
/// The first line that breaks the chain.
pub fn verify_lines(head: Head, mut reader: impl BufRead) -> Result<Head, ChainError> {
    let mut head = head;
    let mut number = 0;
    loop {
        number += 1;
        let mut line = Vec::new();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1);
        let broken = |problem, source| ChainError { line: number, problem, source };
        let read = reader.by_ref().take(limit).read_until(b'\n', &mut line);
        if read.map_err(|error| broken(Break::Unreadable, Some(error)))? == 0 {
            return Ok(head);
        }
        head = follow(&head, &line).map_err(|problem| broken(problem, None))?;
    }
}

/// Checks one line against the head before it; answers the head after it.
fn follow(head: &Head, line: &[u8]) -> Result<Head, Break> {
    let (next, prev) = inspect(line)?;
    if prev != head.hash {
        return Err(Break::Link);
    }
    if Some(next.seq) != head.seq.checked_add(1) {
        return Err(Break::Sequence);
    }
    Ok(next)
}

/// Checks one line by itself: its form and its own hash. Answers the head after it, and its `prev`.
pub(in crate::audit) fn inspect(line: &[u8]) -> Result<(Head, String), Break> {
    if line.len() > MAX_LINE {
        return Err(Break::TooLong);
    }
    let text = line.strip_suffix(b"\n").ok_or(Break::Torn)?;
    let record: Links = serde_json::from_slice(text).map_err(|_| Break::Malformed)?;
    let end = closing(&record.hash);
    let body = text.strip_suffix(end.as_bytes()).ok_or(Break::Malformed)?;
    if !body.ends_with(linking(&record.prev).as_bytes()) {
        return Err(Break::Malformed);
    }
    if hash(&record.prev, body) != record.hash {
        return Err(Break::Hash);
    }
    Ok((Head { seq: record.seq, hash: record.hash }, record.prev))
}

/// The members of a record that make the chain. A second member of one of these names is an error.
#[derive(Deserialize)]
struct Links {
    seq: u64,
    prev: String,
    hash: String,
}

/// Puts the envelope around a record's encoded members, and moves to the head after it.
pub(in crate::audit) fn seal(head: &Head, ts: &str, members: &[u8]) -> (Vec<u8>, Head) {
    let seq = head.seq.saturating_add(1);
    let mut line = format!(r#"{{"ts":"{ts}","v":1,"seq":{seq},"#).into_bytes();
    line.extend_from_slice(members);
    line.extend_from_slice(linking(&head.hash).as_bytes());
    let hash = hash(&head.hash, &line);
    line.extend_from_slice(closing(&hash).as_bytes());
    line.push(b'\n');
    (line, Head { seq, hash })
}

fn linking(prev: &str) -> String {
    format!(r#","prev":"{prev}""#)
}

fn closing(hash: &str) -> String {
    format!(r#","hash":"{hash}"}}"#)
}

fn hash(prev: &str, body: &[u8]) -> String {
    let digest = Sha256::new().chain_update(prev).chain_update(body).finalize();
    hex::encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(bodies: &[&str]) -> Vec<u8> {
        let mut head = Head::genesis();
        let mut lines = Vec::new();
        for body in bodies {
            let (line, next) = seal(&head, "2026-01-02T03:04:05.000006Z", body.as_bytes());
            lines.extend_from_slice(&line);
            head = next;
        }
        lines
    }

    fn problem(lines: &[u8]) -> Option<(u64, Break)> {
        verify_lines(Head::genesis(), lines).err().map(|error| (error.line, error.problem))
    }

    #[test]
    fn a_line_is_what_the_rule_says() {
        // The digest is what sha256sum makes of 64 zeros and the text before `,"hash":`.
        let prev = "0".repeat(64);
        let sha256 = "a392839094794a67fc4dce739eb70b0739d756c5234e0ae47085556a9082b7b5";
        let expected = format!(
            r#"{{"ts":"2026-01-02T03:04:05.000006Z","v":1,"seq":1,"kind":"stop","prev":"{prev}","hash":"{sha256}"}}"#
        );
        assert_eq!(String::from_utf8(chain(&[r#""kind":"stop""#])).unwrap(), expected + "\n");
    }

    #[test]
    fn an_independent_reading_of_the_rule_agrees() {
        let lines = chain(&[r#""a":1"#, r#""a":"\u2028""#, r#""a":",\"hash\":\"""#]);
        let mut prev = "0".repeat(64);
        let mut count = 0;
        for (index, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let body = &line[..line.len() - 76];
            let digest = String::from_utf8(line[line.len() - 67..line.len() - 3].to_vec()).unwrap();
            let record: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(
                (record["seq"].as_u64().unwrap() as usize, record["prev"].as_str().unwrap()),
                (index + 1, &*prev)
            );
            let mut hasher = Sha256::new();
            hasher.update(prev.as_bytes());
            hasher.update(body);
            assert_eq!(hex::encode(hasher.finalize()), digest);
            prev = digest;
            count += 1;
        }
        assert_eq!(count, 3);
        assert_eq!(verify_lines(Head::genesis(), &*lines).unwrap(), Head { seq: 3, hash: prev });
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let lines = chain(&[r#""a":1"#, r#""a":"text""#, r#""a":3"#]);
        assert_eq!(problem(&lines), None);
        for index in 0..lines.len() {
            for bit in 0..8 {
                let mut changed = lines.clone();
                changed[index] ^= 1 << bit;
                assert!(problem(&changed).is_some(), "byte {index} bit {bit}");
            }
        }
    }

    #[test]
    fn names_what_is_wrong_and_where() {
        let lines = chain(&[r#""a":1"#, r#""a":2"#, r#""a":3"#]);
        let text = String::from_utf8(lines.clone()).unwrap();
        let parts: Vec<&str> = text.split_inclusive('\n').collect();
        let other = String::from_utf8(chain(&[r#""a":9"#])).unwrap();
        for (altered, expected) in [
            (parts[..2].concat() + parts[2].trim_end(), Some((3, Break::Torn))),
            (parts[1].to_owned() + parts[2], Some((1, Break::Link))),
            (parts[0].to_owned() + parts[2], Some((2, Break::Link))),
            (parts[0].to_owned() + parts[0], Some((2, Break::Link))),
            (other + parts[1], Some((2, Break::Link))),
            (text.replace(r#""a":2"#, r#""a":4"#), Some((2, Break::Hash))),
            (text.replace(r#""a":2"#, r#""seq":2"#), Some((2, Break::Malformed))),
            (parts[0].replace(r#","hash""#, r#", "hash""#), Some((1, Break::Malformed))),
            ("\n".to_owned(), Some((1, Break::Malformed))),
            (" ".repeat(MAX_LINE + 1), Some((1, Break::TooLong))),
            (parts[..2].concat(), None),
            (String::new(), None),
        ] {
            assert_eq!(problem(altered.as_bytes()), expected, "{altered}");
        }
        // A line with a right hash and a wrong number.
        let (skipped, _) = seal(&Head { seq: 7, hash: "0".repeat(64) }, "t", br#""a":1"#);
        assert_eq!(problem(&skipped), Some((1, Break::Sequence)));
    }
}
