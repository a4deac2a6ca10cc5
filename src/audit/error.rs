//! What can go wrong with the audit log. No message holds anything of a call's arguments.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why the log could not be started, or why a call could not be recorded. A call that could not be
/// recorded must not run; an outcome that could not be recorded must not be returned.
#[derive(Debug, Error)]
pub enum AuditError {
    /// Start: the file cannot be opened, created or read.
    #[error("cannot open the audit file `{}`", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Start: the directory cannot be created or made durable.
    #[error("cannot prepare the audit directory `{}`", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Start: the path names something that cannot hold a log.
    #[error("the audit target `{}` is not a regular file; name one, a directory, or `stderr`", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Start: others could write the file, or it could be run.
    #[error("the audit file `{}` has mode {mode:04o}: others may read or write it, or it is executable; run `chmod 600` on it", .path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Start: somebody else could replace the file, or has it under another name.
    #[error("the audit target `{}` {problem}", .path.display())]
    Exposed {
        /// The file or its directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// Start: another process writes this file.
    #[error("the audit file `{}` is in use by process {}; stop that process, or name another file or a directory", .path.display(), .pid.map_or_else(|| "(unknown)".to_owned(), |pid| pid.to_string()))]
    Locked {
        /// The file.
        path: PathBuf,
        /// The holder, when its lock file says so.
        pid: Option<u32>,
    },
    /// Start: the existing file does not end in a whole record, so its chain cannot be continued.
    #[error("the audit file `{}` cannot be continued: {problem}; keep it as evidence under another name and start again with a new file", .path.display())]
    Tail {
        /// The file.
        path: PathBuf,
        /// What is wrong with its end.
        problem: &'static str,
    },
    /// Start: the writer thread could not be made.
    #[error("cannot start the audit writer's thread")]
    Thread {
        /// The system's answer.
        source: io::Error,
    },
    /// The record could not be written (no space, read-only, I/O error). The chain is intact and a later
    /// call may succeed.
    #[error("cannot write to the audit log `{location}`")]
    Write {
        /// Which log.
        location: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The record could not be made durable. The log takes no further record.
    #[error("cannot make the audit log `{location}` durable")]
    Sync {
        /// Which log.
        location: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The file at the path is no longer the one that was opened.
    #[error("the audit file `{location}` was moved or deleted; put it back, or restart")]
    Moved {
        /// Which log.
        location: String,
    },
    /// Somebody else wrote to the file or cut it.
    #[error(
        "the audit file `{location}` was changed by another program: it has {found} bytes and should have {expected}"
    )]
    Altered {
        /// Which log.
        location: String,
        /// Bytes that this process knows of.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// An earlier error makes the log untrustworthy; only a restart helps.
    #[error("the audit log `{location}` failed earlier ({why}); restart after the cause is mended")]
    Failed {
        /// Which log.
        location: String,
        /// The earlier error.
        why: String,
    },
    /// The record was not durable in time. It may still be written later.
    #[error("the audit log `{location}` did not confirm the record within {} ms", .after.as_millis())]
    Deadline {
        /// Which log.
        location: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// The log was stopped.
    #[error("the audit log `{location}` is stopped")]
    Stopped {
        /// Which log.
        location: String,
    },
    /// The record could not be put into JSON, or not into its size limit.
    #[error("the audit record cannot be encoded")]
    Encode,
}
