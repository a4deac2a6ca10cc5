//! One door for every kind of plan: a permit goes in, an outcome comes out.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::audit::OpenRecord;
use crate::executor::kubectl::{KubectlExecutor, ReadFailure, ReadOutcome, ReadReason};
use crate::executor::{Busy, Handles, JobEnd, JobExecutor, JobOutcome, JobSlot, Progress, Reason, Results};
use crate::ids::HandleKey;
use crate::plan::Plan;
use crate::policy::Permit;

/// Carries admitted plans out.
#[derive(Debug)]
pub struct Executor {
    jobs: JobExecutor,
    reads: KubectlExecutor,
    handles: Handles,
    results: Option<Results>,
}

/// How an admitted plan ended.
#[derive(Debug)]
pub enum Outcome {
    /// A job.
    Job(JobOutcome),
    /// A read.
    Read(ReadOutcome),
    /// A look at a job in the background, or its end.
    Handle(HandleOutcome),
}

/// What became of a call that names a job in the background.
#[derive(Debug)]
pub struct HandleOutcome {
    /// What was found.
    pub found: Found,
    /// How long the call took.
    pub duration: Duration,
}

/// What a token led to.
#[derive(Debug)]
pub enum Found {
    /// A job that runs.
    Running,
    /// A job that ended.
    Ended(Arc<JobEnd>),
    /// Nothing: no such token, another caller's, or one whose time is over.
    Unknown,
    /// A job that another process followed, with a result that only that one has.
    Elsewhere,
    /// The cluster does not tell; a sentence.
    Unreachable(String),
    /// A new job that there is no room for.
    NoRoom,
}

impl Executor {
    /// Joins the executors of each kind.
    #[must_use]
    pub fn new(jobs: JobExecutor, reads: KubectlExecutor) -> Self {
        Self { jobs, reads, handles: Handles::default(), results: None }
    }

    /// The executor of jobs.
    #[must_use]
    pub fn jobs(&self) -> &JobExecutor {
        &self.jobs
    }

    /// The same with results in a directory that other processes look into as well.
    #[must_use]
    pub fn sharing(mut self, results: Option<Results>) -> Self {
        self.results = results;
        self
    }

    /// Whether other processes find the results of this one.
    #[must_use]
    pub fn shares_results(&self) -> bool {
        self.results.is_some()
    }

    /// Keeps an end where other processes find it.
    pub async fn share(&self, key: &HandleKey, end: &JobEnd) {
        let Some(results) = self.results.clone() else { return };
        let (key, end) = (key.clone(), end.clone());
        match spawn_blocking(move || results.put(&key, &end)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a result is kept in memory alone"),
            Err(error) => tracing::warn!(%error, "a result is kept in memory alone"),
        }
    }

    /// An end that another process kept.
    pub async fn shared(&self, key: &HandleKey) -> Option<JobEnd> {
        let (results, key) = (self.results.clone()?, key.clone());
        spawn_blocking(move || results.get(&key)).await.ok().flatten()
    }

    /// Drops the ends whose time is over.
    pub async fn sweep(&self) {
        self.handles.sweep();
        if let Some(results) = self.results.clone() {
            let _ = spawn_blocking(move || results.sweep()).await;
        }
    }

    /// The jobs in the background.
    #[must_use]
    pub fn handles(&self) -> &Handles {
        &self.handles
    }

    /// A place for the job that `plan` starts, to be had before the decision is recorded; `None` when it starts none.
    /// `most` is how many jobs `caller` may have at once, where that is bounded.
    ///
    /// # Errors
    /// [`Busy`] when no place came free in time, or `cancel` fired.
    pub async fn reserve(
        &self,
        plan: &Plan,
        caller: &str,
        most: Option<usize>,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: &CancellationToken,
    ) -> Result<Option<JobSlot>, Busy> {
        match plan {
            Plan::Job(_) => {
                let ticket = self.jobs.slots().enter(caller, most)?;
                if ticket.waits() {
                    progress(Progress::Queued);
                }
                ticket.slot(cancel).await.map(Some)
            }
            Plan::Kubectl(_) | Plan::Handle(_) => Ok(None),
        }
    }

    /// Carries an admitted plan out, and gives how it ended. `record` proves that the decision is durable, `slot` is
    /// what [`Executor::reserve`] gave for this plan.
    ///
    /// `progress` is called from within, in order and each step at most once; it must not block. When `cancel`
    /// fires, or the future is dropped, what was started is ended.
    pub async fn run(
        &self,
        permit: Permit,
        record: &OpenRecord,
        slot: Option<JobSlot>,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: CancellationToken,
    ) -> Outcome {
        let id = record.decision_id();
        match permit.plan() {
            Plan::Job(_) => Outcome::Job(match slot {
                Some(slot) => self.jobs.run_job(permit, record, slot, progress, cancel).await,
                None => {
                    JobOutcome::error(Reason::AdmissionDenied, "the job has no place, so nothing was run")
                }
            }),
            Plan::Kubectl(plan) if plan.id() == id => Outcome::Read(self.reads.run(plan, cancel).await),
            // Nothing runs for it: the gateway looks its job up by itself.
            Plan::Handle(_) => {
                Outcome::Handle(HandleOutcome { found: Found::Unknown, duration: Duration::ZERO })
            }
            Plan::Kubectl(plan) => {
                tracing::error!(decision_id = %id, plan = %plan.id(), "the audit record is that of another call");
                Outcome::Read(ReadOutcome {
                    end: Err(ReadFailure::of(ReadReason::Other)),
                    namespace: None,
                    exit_code: None,
                    duration: Duration::ZERO,
                })
            }
        }
    }

    /// Waits until what goes on in the background is done, at most `within`. For an orderly exit.
    pub async fn drain(&self, within: Duration) {
        self.jobs.drain(within).await;
    }
}
