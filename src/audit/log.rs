//! The chain on its target: appends whole records or nothing.
//!
//! Three states. Sound: records go in. Refusing one record (no space, moved, altered): the chain is as it
//! was, and the next record is tried afresh. Failed: for good, when it can no longer be known what is on the
//! disk. After a failed fsync the kernel may drop the dirty pages and report success to the next one, so a
//! retry proves nothing; PostgreSQL ends itself for the same reason.

use std::io;

use jiff::Timestamp;

use crate::audit::AuditError;
use crate::audit::chain::{self, Head};
use crate::audit::file::{AuditFile, Drift};
use crate::audit::open::Opened;

/// A log and where it stands. Owned by the writer's thread.
pub(in crate::audit) struct Log {
    file: Box<dyn AuditFile>,
    location: String,
    head: Head,
    len: u64,
    /// The first record of this process, until it is written.
    start: Option<Vec<u8>>,
    failed: Option<String>,
}

impl Log {
    /// A log that writes `start`, a record's encoded members, before any other.
    pub(in crate::audit) fn new(opened: Opened, start: Vec<u8>) -> Self {
        let Opened { file, location, head, len } = opened;
        Self { file, location, head, len, start: Some(start), failed: None }
    }

    /// Writes the first record, unless it is written.
    pub(in crate::audit) fn begin(&mut self) -> Result<(), AuditError> {
        let Some(start) = self.start.take() else {
            return Ok(());
        };
        let written = self.append(&start).and_then(|()| self.sync());
        if written.is_err() {
            self.start = Some(start);
        }
        written
    }

    /// Writes one record and makes it durable.
    pub(in crate::audit) fn commit(&mut self, members: &[u8]) -> Result<(), AuditError> {
        self.begin()?;
        self.append(members)?;
        self.sync()
    }

    fn append(&mut self, members: &[u8]) -> Result<(), AuditError> {
        self.sound()?;
        self.file.check(self.len).map_err(|drift| match drift {
            Drift::Moved => AuditError::Moved { location: self.location.clone() },
            Drift::Length(found) => {
                AuditError::Altered { location: self.location.clone(), expected: self.len, found }
            }
        })?;
        let ts = format!("{:.6}", Timestamp::now());
        let (line, head) = chain::seal(&self.head, &ts, members);
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.take_back(line.len() - rest.len(), error)),
                Ok(0) => return Err(self.take_back(line.len() - rest.len(), io::ErrorKind::WriteZero.into())),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            }
        }
        self.len = self.len.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        self.head = head;
        Ok(())
    }

    /// Removes the beginning of a record that could not be written whole.
    fn take_back(&mut self, written: usize, source: io::Error) -> AuditError {
        if written > 0
            && let Err(error) = self.file.truncate(self.len)
        {
            self.failed = Some(format!("half a record could not be removed: {error}"));
        }
        AuditError::Write { location: self.location.clone(), source }
    }

    fn sync(&mut self) -> Result<(), AuditError> {
        self.sound()?;
        self.file.sync().map_err(|source| {
            self.failed = Some(format!("a record could not be made durable: {source}"));
            AuditError::Sync { location: self.location.clone(), source }
        })
    }

    fn sound(&self) -> Result<(), AuditError> {
        match &self.failed {
            Some(why) => Err(AuditError::Failed { location: self.location.clone(), why: why.clone() }),
            None => Ok(()),
        }
    }
}
