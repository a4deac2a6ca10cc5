//! What of a repository is cloned: a branch, a tag or a commit.

use std::fmt;
use std::str::FromStr;

/// Longer than any name that a file system could hold as a loose ref.
const MAX_REF_BYTES: usize = 255;

/// A ref by the rules of git-check-ref-format(1), with one component allowed; never one that begins with `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRef(String);

impl GitRef {
    /// As the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full id of a commit: 40 digits for SHA-1, 64 for SHA-256.
    #[must_use]
    pub fn is_commit(&self) -> bool {
        matches!(self.0.len(), 40 | 64) && self.0.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// The names to ask the server for, in this order: `git clone --branch` also takes a branch before a tag.
    #[must_use]
    pub fn candidates(&self) -> Vec<String> {
        let name = &self.0;
        if self.is_commit() || name == "HEAD" || name.starts_with("refs/") {
            return vec![name.clone()];
        }
        vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")]
    }
}

impl fmt::Display for GitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for GitRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is empty");
        }
        if text.len() > MAX_REF_BYTES {
            return Err("is longer than 255 bytes");
        }
        if text.starts_with('-') {
            return Err("begins with `-`");
        }
        // git allows more; a record must show a name as it is, and no name needs these.
        if text.chars().any(|c| c.is_control() || crate::plan::path::is_unprintable(c)) {
            return Err("has a character that does not print");
        }
        if text.contains([' ', '~', '^', ':', '?', '*', '[', '\\']) {
            return Err("has a blank or one of `~^:?*[\\`");
        }
        // Of these no shell in the cloner makes anything, but scripts that other people run on its branch may.
        if text.contains(['$', '`', ';', '|', '&', '<', '>', '"', '\'']) {
            return Err("has a character that shells act on");
        }
        if text.contains("..") || text.contains("@{") || text == "@" {
            return Err("has `..` or `@{`, or is `@`");
        }
        if text.ends_with('.') {
            return Err("ends with a dot");
        }
        for component in text.split('/') {
            if component.is_empty() {
                return Err("has an empty component, or a slash at an end");
            }
            if component.starts_with('.') || component.ends_with(".lock") {
                return Err("has a component that begins with a dot or ends with `.lock`");
            }
        }
        // A commit's id may be written in capitals; a branch of that name is no use to anyone.
        let lower = text.to_ascii_lowercase();
        let id = Self(lower);
        Ok(if id.is_commit() { id } else { Self(text.to_owned()) })
    }
}
