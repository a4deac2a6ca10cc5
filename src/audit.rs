//! The audit log: one record for the decision on a call, durable before anything happens, and one for its
//! outcome, durable before the reply.
//!
//! No record, no execution: [`Audit::admit`] is the only maker of [`OpenRecord`], and answers once the
//! decision is on the disk. A call that was not admitted gets one record by [`Audit::refuse`].
//!
//! A log is a text file, one JSON object a line (`schemas/audit-record.json`), chained by SHA-256; [`chain`]
//! holds the exact rule. Each process begins with a `start` record and ends, when it is stopped in order,
//! with a `stop` record. `ts` is the time at which the writer took the record.
//!
//! ```text
//! Audit --encoded record--> queue --> writer thread --> Log (chain, state) --> AuditFile
//!    ^                                     |
//!    +------- durable, or an error --------+
//! ```

pub mod chain;
mod error;
mod file;
mod inspect;
mod line;
mod log;
mod open;
mod record;
mod redact;
#[cfg(test)]
mod tests;
mod writer;

pub use error::AuditError;
pub use inspect::{Inspection, inspect};
pub use record::{ArtifactSummary, DecisionSummary, Entry, OutcomeStatus, OutcomeSummary, OutputSummary};
pub use redact::unparsed;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::ids::DecisionId;
use log::Log;
use open::Opened;
use writer::Request;

/// Where records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard error, for a collector to pick up. Nothing is synced.
    Stderr,
    /// One file for one process at a time, continued after a restart. Its directory must exist.
    File(PathBuf),
    /// A directory in which each process makes a file of its own. Created when missing.
    Directory(PathBuf),
}

/// How to record.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Record commands in full instead of by digest.
    pub record_commands: bool,
    /// Names this gateway among several; at most 128 characters are kept.
    pub instance: String,
    /// How long a call waits for its record to be durable.
    pub commit_deadline: Duration,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            record_commands: false,
            instance: "kubepermit".to_owned(),
            commit_deadline: Duration::from_secs(5),
        }
    }
}

/// A running audit log. Cheap to clone; all clones write to one chain.
#[derive(Clone)]
pub struct Audit {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Sender<Request>,
    slots: Arc<Semaphore>,
    location: String,
    options: AuditOptions,
}

impl Audit {
    /// Opens the target and writes the `start` record.
    ///
    /// # Errors
    /// When the target cannot be opened, is in use, has a mode that lets others in, or holds a chain that
    /// cannot be continued. A target that can be opened but not written now (a full disk) is no error here:
    /// each call is refused until it can.
    pub fn start(target: AuditTarget, options: AuditOptions) -> Result<Self, AuditError> {
        let opened = open::open(&target, &options.instance)?;
        Self::over(opened, options)
    }

    fn over(opened: Opened, mut options: AuditOptions) -> Result<Self, AuditError> {
        options.instance = options.instance.chars().take(128).collect();
        let location = opened.location.clone();
        let mut log = Log::new(opened, line::encode(&record::start(&options.instance))?);
        match log.begin() {
            Ok(()) => {}
            Err(error @ AuditError::Write { .. }) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "no call is admitted until the audit log can be written"
                );
            }
            Err(error) => return Err(error),
        }
        let queue = writer::spawn(log)?;
        let slots = Arc::new(Semaphore::new(writer::SLOTS));
        Ok(Self { shared: Arc::new(Shared { queue, slots, location, options }) })
    }

    /// The log's name for messages: a path, or `stderr`.
    #[must_use]
    pub fn location(&self) -> String {
        self.shared.location.clone()
    }

    /// Records the decision on an allowed call. Nothing may happen on the call's behalf before this answers.
    ///
    /// # Errors
    /// When the record is not durable. The call must be refused.
    pub async fn admit(&self, entry: Entry) -> Result<OpenRecord, AuditError> {
        let shared = &self.shared;
        let decision_id = entry.decision_id;
        let members = shared.decision(entry)?;
        shared
            .in_time(async {
                let slot = shared.slot().await?;
                let open =
                    OpenRecord { shared: Arc::clone(shared), decision_id, slot: Some(slot), armed: false };
                let (reply, answer) = oneshot::channel();
                shared.send(Request::Admit { members, open, reply })?;
                answer.await.map_err(|_| shared.stopped())?
            })
            .await
    }

    /// Records a call that was refused. It gets no other record.
    ///
    /// # Errors
    /// When the record is not durable. The caller should hear that too.
    pub async fn refuse(&self, entry: Entry) -> Result<(), AuditError> {
        let shared = &self.shared;
        let members = shared.decision(entry)?;
        shared
            .in_time(async {
                let slot = shared.slot().await?;
                shared.record(members, slot).await
            })
            .await
    }

    /// Takes up a call whose decision another process recorded, to record its outcome: that process is gone,
    /// and the call's job is not.
    ///
    /// # Errors
    /// When the log cannot take records now. The job must be left alone.
    pub async fn take_up(&self, decision_id: DecisionId) -> Result<OpenRecord, AuditError> {
        let shared = &self.shared;
        let slot = shared.in_time(shared.slot()).await?;
        Ok(OpenRecord { shared: Arc::clone(shared), decision_id, slot: Some(slot), armed: true })
    }

    /// Records a clean end, closes the target and frees its lock. Every later record is refused; calls that
    /// are still open should be closed first.
    ///
    /// # Errors
    /// When the record is not durable, or the log was stopped before.
    pub async fn stop(&self) -> Result<(), AuditError> {
        let shared = &self.shared;
        let members = line::encode(&record::stop(&shared.options.instance))?;
        shared
            .in_time(async {
                let (reply, answer) = oneshot::channel();
                shared.send(Request::Stop { members, reply })?;
                answer.await.map_err(|_| shared.stopped())?
            })
            .await
    }
}

impl Shared {
    fn decision(&self, entry: Entry) -> Result<Vec<u8>, AuditError> {
        let members = record::decision(entry, &self.options.instance, self.options.record_commands);
        line::encode(&members.ok_or(AuditError::Encode)?)
    }

    async fn slot(&self) -> Result<OwnedSemaphorePermit, AuditError> {
        Arc::clone(&self.slots).acquire_owned().await.map_err(|_| self.stopped())
    }

    async fn record(&self, members: Vec<u8>, slot: OwnedSemaphorePermit) -> Result<(), AuditError> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Record { members, slot, reply: Some(reply) })?;
        answer.await.map_err(|_| self.stopped())?
    }

    fn send(&self, request: Request) -> Result<(), AuditError> {
        self.queue.send(request).map_err(|_| self.stopped())
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, AuditError>>) -> Result<T, AuditError> {
        let after = self.options.commit_deadline;
        match tokio::time::timeout(after, work).await {
            Ok(done) => done,
            Err(_) => Err(AuditError::Deadline { location: self.location.clone(), after }),
        }
    }

    fn stopped(&self) -> AuditError {
        AuditError::Stopped { location: self.location.clone() }
    }
}

/// An admitted call whose outcome is not recorded yet: the proof that the executor asks for.
///
/// INVARIANT (open-record): made only once the decision is durable. Dropped without [`close`](Self::close),
/// it records the outcome `abandoned`.
#[must_use = "an admitted call must be closed with its outcome"]
pub struct OpenRecord {
    shared: Arc<Shared>,
    decision_id: DecisionId,
    /// Gone once the outcome is on its way.
    slot: Option<OwnedSemaphorePermit>,
    /// Whether there is a decision record that wants an outcome.
    armed: bool,
}

impl OpenRecord {
    /// The call's id.
    #[must_use]
    pub fn decision_id(&self) -> DecisionId {
        self.decision_id
    }

    /// Records how the call ended. The result may be returned only once this answers.
    ///
    /// # Errors
    /// When the outcome is not durable: the call ran and is not recorded, and its caller must hear so
    /// instead of the result.
    pub async fn close(mut self, outcome: &OutcomeSummary) -> Result<(), AuditError> {
        let members = self.outcome(outcome)?;
        let shared = Arc::clone(&self.shared);
        let Some(slot) = self.slot.take() else {
            return Err(shared.stopped());
        };
        shared.in_time(shared.record(members, slot)).await
    }

    /// Leaves the outcome to another process, which will record it: the call's job lives on without this one.
    pub fn hand_over(mut self) {
        self.slot = None;
    }

    fn outcome(&self, outcome: &OutcomeSummary) -> Result<Vec<u8>, AuditError> {
        let members = record::outcome(self.decision_id, outcome, &self.shared.options.instance);
        line::encode(&members.ok_or(AuditError::Encode)?)
    }

    fn arm(&mut self) {
        self.armed = true;
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        if !self.armed {
            return;
        }
        let sent = self
            .outcome(&OutcomeSummary::abandoned())
            .and_then(|members| self.shared.send(Request::Record { members, slot, reply: None }));
        if let Err(error) = sent {
            tracing::error!(decision_id = %self.decision_id, error = &error as &dyn std::error::Error, "an abandoned call has no outcome record");
        }
    }
}

impl fmt::Debug for OpenRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRecord").field("decision_id", &self.decision_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("location", &self.shared.location).finish_non_exhaustive()
    }
}
