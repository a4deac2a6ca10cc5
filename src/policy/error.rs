//! Why a bundle was not loaded: the file, the line where it is known, and what is wrong there.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A bundle that kubepermit refuses to decide with.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file system would not give a file or directory.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file was read and is not acceptable.
    #[error("{at}: {problem}")]
    Rejected {
        /// Where.
        at: Location,
        /// Why.
        problem: Problem,
    },
    /// The bundle as a whole is not acceptable.
    #[error("the policy bundle {0}")]
    Bundle(&'static str),
    /// A value that configuration lays over the data is not acceptable.
    #[error("the configured {setting}: {problem}")]
    Overlay {
        /// Which setting.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// A place in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Path relative to the bundle, with `/` between its parts.
    pub file: String,
    /// Line, counted from 1, where it is known.
    pub line: Option<u32>,
}

/// What is wrong with a file. Each closes a hole that the engine itself leaves open, or is a plain mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Larger than a file of its kind may be.
    #[error("is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// More files, or deeper folders, than a bundle may have.
    #[error("the bundle holds more than {limit} {what}")]
    TooMany {
        /// The limit.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
    /// Not UTF-8.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// Starts with a byte order mark, which Rego does not know.
    #[error("starts with a byte order mark; save it as UTF-8 without one")]
    ByteOrderMark,
    /// A symbolic link out of the bundle, or to a folder.
    #[error("is a symbolic link that leaves the bundle or names a folder")]
    Symlink,
    /// Neither a regular file nor a folder.
    #[error("is neither a regular file nor a folder")]
    NotAFile,
    /// A data file that would be ignored.
    #[error("would be ignored: the bundle's data is `data.yaml` alone; move it out of the bundle")]
    StrayData,
    /// A file that is neither loaded nor known to be harmless.
    #[error(
        "would be ignored: a bundle holds `*.rego`, `data.yaml` and `*.md`; rename it or move it out of the bundle"
    )]
    UnknownFile,
    /// A character that looks otherwise to a reader than to the engine.
    #[error(
        "contains the character U+{0:04X}, which hides or moves text; leave it out, or write it as an escape in a \
         string"
    )]
    Character(u32),
    /// A part of the file that the parser passed over.
    #[error("`{0}` is not part of any rule that was read")]
    Unread(String),
    /// Text that would overflow the parser's stack, or keep it busy for very long.
    #[error("{what} beyond the limit of {limit}; give the inner values names of their own")]
    TooDeep {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A minus in front of something else than a number, which the engine reads as one with all that follows.
    #[error("a minus sign may stand before a number only; write `0 - x`")]
    Minus,
    /// A rule that would overflow the engine's stack.
    #[error("rule `{rule}` {what} ({cost}, where {limit} is the limit); {hint}")]
    TooHigh {
        /// The rule's path.
        rule: String,
        /// What it does.
        what: &'static str,
        /// How much of it.
        cost: usize,
        /// The limit.
        limit: usize,
        /// What to change.
        hint: &'static str,
    },
    /// A reference to something that is never there, for which a rule would silently never hold.
    #[error("there is no `{path}`; {hint}")]
    UnknownPath {
        /// The reference as far as it is wrong.
        path: String,
        /// What there is.
        hint: String,
    },
    /// Not Rego, or Rego that the engine refuses.
    #[error("{0}")]
    Rego(String),
    /// A package that the bundle may not define.
    #[error("package `{package}` is not allowed here; {rule}")]
    Package {
        /// The package as written.
        package: String,
        /// Which packages are.
        rule: &'static str,
    },
    /// A rule that reaches itself: the engine would end the process.
    #[error("rule recursion: {path}")]
    Recursion {
        /// The rules on the way round, joined by arrows.
        path: String,
    },
    /// A second `default` for one rule, of which the engine silently ignores one.
    #[error("second `default` for `{rule}`; the first is at {first}")]
    SecondDefault {
        /// The rule's path.
        rule: String,
        /// Where the first one is.
        first: Location,
    },
    /// A built-in whose answer is not a function of the input.
    #[error("`{0}` is not allowed: a decision must follow from the input alone")]
    Impure(String),
    /// A function that neither the bundle nor the engine has.
    #[error("unknown function `{0}`")]
    UnknownFunction(String),
    /// A rule that would be ignored, or that tries to allow from where nothing can.
    #[error("{0}")]
    Rule(String),
    /// The YAML of the data file.
    #[error("{0}")]
    Data(String),
}

impl LoadError {
    pub(in crate::policy) fn rejected(file: impl Into<String>, line: Option<u32>, problem: Problem) -> Self {
        Self::Rejected { at: Location { file: file.into(), line }, problem }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}
