//! What a log is written to, behind a trait so that tests can make it fail.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nix::fcntl::Flock;

/// The bytes' way out. One owner, one thread.
pub(in crate::audit) trait AuditFile: Send {
    /// Finds out, before a write, whether the target is still the one that was opened and has the length
    /// `expected`.
    fn check(&self, expected: u64) -> Result<(), Drift>;

    /// Writes some of `bytes` at the end; may write fewer.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Makes everything that was written durable, as far as the target can.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the target back to `len` bytes, to remove the beginning of a record that did not fit.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// How a target differs from what was opened.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::audit) enum Drift {
    /// The path names nothing, or another file.
    Moved,
    /// The file has another length.
    Length(u64),
}

/// A regular file, opened for appending.
pub(in crate::audit) struct RegularFile {
    file: File,
    path: PathBuf,
    dev: u64,
    ino: u64,
    /// Held for as long as the file is written; released when this is dropped.
    _lock: Option<Flock<File>>,
}

impl RegularFile {
    pub(in crate::audit) fn new(file: File, path: PathBuf, lock: Option<Flock<File>>) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { dev: metadata.dev(), ino: metadata.ino(), file, path, _lock: lock })
    }
}

impl AuditFile for RegularFile {
    fn check(&self, expected: u64) -> Result<(), Drift> {
        // A path that cannot be looked up is as good as gone: nobody would find the records there.
        let there = fs::metadata(&self.path).map_err(|_| Drift::Moved)?;
        if (there.dev(), there.ino()) != (self.dev, self.ino) {
            return Err(Drift::Moved);
        }
        if there.len() != expected {
            return Err(Drift::Length(there.len()));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

/// Standard error: what is written is gone, and can be neither synced nor cut back.
pub(in crate::audit) struct Stream<W>(pub(in crate::audit) W);

impl<W: Write + Send> AuditFile for Stream<W> {
    fn check(&self, _expected: u64) -> Result<(), Drift> {
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn truncate(&mut self, _len: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
