//! Names as Kubernetes writes them.
//!
//! kubectl itself hands `p1;id`, `$(id)` or `a b` through to the API server, so the grammar is held here
//! (Kubernetes, "Object Names and IDs"; RFC 1123 in lower case).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A label of RFC 1123: what a namespace and a container may be called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DnsLabel(String);

/// A subdomain of RFC 1123, labels joined by dots: what most objects may be called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plan) struct DnsSubdomain(String);

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing would mean "the default one" or "all" to kubectl.
    #[error("is empty")]
    Empty,
    /// Longer than Kubernetes allows.
    #[error("is longer than {0} characters")]
    TooLong(usize),
    /// Anything but `[a-z0-9-]`, and `.` where dots may be.
    #[error("has a character other than lower-case letters, digits{0}")]
    Character(&'static str),
    /// `-` or `.` in the first or last place, or next to a dot.
    #[error("does not begin and end{0} with a letter or a digit")]
    Edge(&'static str),
}

const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

impl DnsLabel {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DnsLabel {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        length(text, MAX_LABEL)?;
        if !text.bytes().all(is_inner) {
            return Err(NameError::Character(" and `-`"));
        }
        if !has_good_edges(text) {
            return Err(NameError::Edge(""));
        }
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for DnsSubdomain {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        length(text, MAX_SUBDOMAIN)?;
        if !text.bytes().all(|b| is_inner(b) || b == b'.') {
            return Err(NameError::Character(", `-` and `.`"));
        }
        if !text.split('.').all(has_good_edges) {
            return Err(NameError::Edge(", around each dot too,"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for DnsLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for DnsSubdomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn length(text: &str, most: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        len if len > most => Err(NameError::TooLong(most)),
        _ => Ok(()),
    }
}

fn is_inner(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
}

fn has_good_edges(label: &str) -> bool {
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples and bounds of Kubernetes' documentation, "Object Names and IDs".
    #[test]
    fn names_are_those_of_kubernetes() {
        let long = |n: usize| "a".repeat(n);
        // (text, is a label, is a subdomain)
        let cases = [
            ("default", true, true),
            ("kube-system", true, true),
            ("a", true, true),
            ("1", true, true),
            ("1a--b9", true, true),
            ("web.example", false, true),
            ("0.0.0.0", false, true),
            ("10-0-0-1.example.com", false, true),
            (&long(63), true, true),
            (&long(64), false, true),
            (&long(253), false, true),
            (&long(254), false, false),
            ("", false, false),
            ("-", false, false),
            ("--", false, false),
            ("-A", false, false),
            ("-a", false, false),
            ("a-", false, false),
            (".", false, false),
            ("..", false, false),
            (".a", false, false),
            ("a.", false, false),
            ("a..b", false, false),
            ("a-.b", false, false),
            ("a.-b", false, false),
            ("P1", false, false),
            ("a_b", false, false),
            ("a b", false, false),
            (" a", false, false),
            ("a\n", false, false),
            ("a\0", false, false),
            ("a/b", false, false),
            ("a/../b", false, false),
            ("../../apis", false, false),
            ("a%2f..", false, false),
            ("a;id", false, false),
            ("$(id)", false, false),
            ("@/etc/passwd", false, false),
            ("a,b", false, false),
            ("a=b", false, false),
            ("\u{e4}", false, false),
            ("a\u{202e}b", false, false),
            // A digit and letters elsewhere, not in ASCII.
            ("\u{663}", false, false),
            ("\u{ff41}", false, false),
        ];
        for (text, label, subdomain) in cases {
            assert_eq!(text.parse::<DnsLabel>().is_ok(), label, "{text:?} as a label");
            assert_eq!(text.parse::<DnsSubdomain>().is_ok(), subdomain, "{text:?} as a subdomain");
        }
    }

    #[test]
    fn a_fault_is_said_in_words() {
        let of = |text: &str| text.parse::<DnsLabel>().unwrap_err().to_string();
        assert_eq!(of(""), "is empty");
        assert_eq!(of(&"a".repeat(64)), "is longer than 63 characters");
        assert_eq!(of("a.b"), "has a character other than lower-case letters, digits and `-`");
        assert_eq!(of("a-"), "does not begin and end with a letter or a digit");
        let of = |text: &str| text.parse::<DnsSubdomain>().unwrap_err().to_string();
        assert_eq!(of("a_b"), "has a character other than lower-case letters, digits, `-` and `.`");
        assert_eq!(of("a..b"), "does not begin and end, around each dot too, with a letter or a digit");
    }
}
