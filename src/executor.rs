//! [`Permit`] to Kubernetes to [`Outcome`]. What the policy judged is sent unchanged.
//!
//! A job goes through the API, a read through kubectl (in a module of its own). A job's way is
//!
//! ```text
//! create -> feed (watch, list) -> classify -> inject -> run -> logs, collect -> cleanup
//! ```
//!
//! A job's end is never an error of this module: whatever happens is an outcome with a reason, and the Job is
//! deleted on every path.

mod admission;
mod api;
mod archive;
mod claim;
mod classify;
mod cleanup;
mod clone;
mod cluster;
mod collect;
mod dispatch;
mod doctor;
mod exec;
mod fault;
mod feed;
mod handles;
mod inject;
mod kubectl;
mod listing;
mod logs;
mod orphans;
mod outcome;
mod ownership;
mod progress;
mod proxy;
mod remains;
mod results;
mod run;
mod slots;
mod suspicion;
mod text;

pub use claim::Claim;
/// Doors for tests/fuzz, in no ordinary build.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::executor::archive::{Choice, pack, unpack};
}

pub use cluster::{Cluster, ClusterError, ClusterSource};
pub use dispatch::{Executor, Found, HandleOutcome, Outcome};
pub use doctor::{JobExam, ReadExam, examine_jobs, examine_reads};
pub use handles::{EndStatus, Ending, Handle, Handles, JobEnd, NoRoom};
pub use kubectl::{
    Access, KubectlExecutor, PrivateHome, ReadFailure, ReadLimits, ReadOutcome, ReadReason, ReadSource,
    ReadText, ReadTools,
};
pub use orphans::{Orphan, Recovery, Scan};
pub use outcome::{Artifact, JobOutcome, Problem, Reason, Status, Truncated};
pub use progress::Progress;
pub use results::Results;
pub use slots::{Busy, JobSlot, JobSlots, Ticket};
pub use suspicion::Graces;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::OpenRecord;
use crate::ids::{HandleKey, ProcessId};
use crate::plan::{Budgets, JobPlan, Plan, RecoveredJob, WantedArtifacts};
use crate::policy::Permit;
use classify::Ended;
use cleanup::Cleanup;
use ownership::Ownership;
use progress::Steps;
use run::Run;

/// How long a reply waits for the API server to accept the deletion. Repetitions go on in the background.
const DELETE: Duration = Duration::from_secs(5);

/// The same when the command's wall clock ran out, so that the whole wind-up stays within 5 s.
const DELETE_AFTER_TIMEOUT: Duration = Duration::from_millis(1500);

/// How many jobs exist at once unless it is set: the default of `MCP_K8S_MAX_CONCURRENT`.
const AT_ONCE: usize = 10;

/// How long a call waits for its place among them: twice the wall clock of a job that names none.
const PLACE: Duration = Duration::from_secs(120);

/// How long giving up the Lease may take at the end.
const LEAVE: Duration = Duration::from_secs(5);

/// Bounds of every job.
#[derive(Debug, Clone)]
pub struct JobLimits {
    /// The most jobs that exist at once (`MCP_K8S_MAX_CONCURRENT`).
    pub at_once: usize,
    /// How long a call waits for a place among them.
    pub patience: Duration,
    /// The most bytes of output in a result (`MCP_K8S_MAX_OUTPUT_BYTES`).
    pub max_output_bytes: u64,
    /// The most bytes of all files in a result (`MCP_K8S_MAX_ARTIFACT_BYTES`).
    pub max_artifact_bytes: u64,
    /// How long each phase may take.
    pub budgets: Budgets,
    /// How long a cause that may pass is borne.
    pub graces: Graces,
}

impl JobLimits {
    /// The given caps, and the budgets from which the Job's own deadline was made.
    #[must_use]
    pub fn new(max_output_bytes: u64, max_artifact_bytes: u64) -> Self {
        Self {
            at_once: AT_ONCE,
            patience: PLACE,
            max_output_bytes,
            max_artifact_bytes,
            budgets: Budgets::JOB,
            graces: Graces::default(),
        }
    }
}

/// Runs admitted jobs in a cluster.
#[derive(Debug)]
pub struct JobExecutor {
    cluster: Arc<Cluster>,
    limits: JobLimits,
    slots: JobSlots,
    deletions: TaskTracker,
    ownership: Ownership,
    /// Fires when the jobs in the background are left to whichever process follows them next.
    released: CancellationToken,
}

impl JobExecutor {
    /// An executor for `cluster`. Nothing is connected yet.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, limits: JobLimits) -> Self {
        let slots = JobSlots::new(limits.at_once, limits.patience);
        Self {
            cluster,
            limits,
            slots,
            deletions: TaskTracker::new(),
            ownership: Ownership::none(),
            released: CancellationToken::new(),
        }
    }

    /// The same as one of several processes, which tell one another's jobs apart.
    #[must_use]
    pub fn as_process(mut self, process: ProcessId, instance: &str, namespace: &str) -> Self {
        self.ownership = Ownership::new(Arc::clone(&self.cluster), process, instance, namespace);
        self
    }

    /// The places for jobs. One is needed for each [`JobExecutor::run_job`].
    #[must_use]
    pub fn slots(&self) -> &JobSlots {
        &self.slots
    }

    /// Carries an admitted plan out, and gives how it ended. `record` proves that the decision is durable. `slot` is
    /// kept until the job's pod is gone, which may be after this has returned.
    ///
    /// `progress` is called from within, in order and each step at most once; it must not block. When `cancel`
    /// fires, or the future is dropped, the Job is deleted.
    pub async fn run_job(
        &self,
        permit: Permit,
        record: &OpenRecord,
        slot: JobSlot,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: CancellationToken,
    ) -> JobOutcome {
        let plan = match permit.into_plan() {
            Plan::Job(plan) => plan,
            Plan::Kubectl(_) | Plan::Handle(_) => {
                return JobOutcome::error(Reason::AdmissionDenied, "the plan is no job, so nothing was run");
            }
        };
        if record.decision_id() != plan.id() {
            return JobOutcome::error(
                Reason::AdmissionDenied,
                "the audit record is that of another call, so nothing was run",
            );
        }
        self.run_plan(&plan, None, slot, progress, cancel).await.unwrap_or_else(JobOutcome::left)
    }

    /// The same for a job that its call does not wait for. `None` when it is left to another process, by
    /// [`release`](Self::release): it lives on, and so does its record.
    pub async fn run_in_background(
        &self,
        permit: Permit,
        record: &OpenRecord,
        slot: JobSlot,
        cancel: CancellationToken,
    ) -> Option<JobOutcome> {
        match permit.into_plan() {
            Plan::Job(plan) if record.decision_id() == plan.id() => {
                self.run_plan(&plan, None, slot, &|_| {}, cancel).await
            }
            Plan::Job(_) | Plan::Kubectl(_) | Plan::Handle(_) => {
                let text = "the audit record is not that of a job, so nothing was run";
                Some(JobOutcome::error(Reason::AdmissionDenied, text))
            }
        }
    }

    /// Follows a job that another process started, to its end. `None` when it is left again.
    pub async fn follow(
        &self,
        job: &RecoveredJob,
        record: &OpenRecord,
        cancel: CancellationToken,
    ) -> Option<JobOutcome> {
        if record.decision_id() != job.plan().id() {
            let text = "the audit record is that of another call, so nothing was done";
            return Some(JobOutcome::error(Reason::AdmissionDenied, text));
        }
        // Its pod exists, whatever the cap says.
        let owner = job.plan().handle().map_or("", HandleKey::owner);
        let slot = self.slots.take(owner);
        let mut outcome = self.run_plan(job.plan(), Some(job.uid()), slot, &|_| {}, cancel).await?;
        if matches!(job.plan().artifacts(), WantedArtifacts::Changed) {
            outcome.artifacts.retain(|file| !job.is_input(&file.name, &file.content));
        }
        Some(outcome)
    }

    /// Leaves every job in the background as it is.
    pub fn release(&self) {
        self.released.cancel();
    }

    /// Who answers for which Jobs.
    pub(crate) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Waits until the deletions that go on in the background are done, at most `within`. For an orderly exit.
    pub async fn drain(&self, within: Duration) {
        self.deletions.close();
        if timeout(within, self.deletions.wait()).await.is_err() {
            tracing::error!("Jobs may be left behind; the cluster removes them after their deadline");
        }
        if timeout(LEAVE, self.ownership.leave()).await.is_err() {
            tracing::debug!("a lease is left behind");
        }
    }

    /// Creates the plan's Job, or follows the one with the UID `existing`, and deletes it at its end.
    async fn run_plan(
        &self,
        plan: &JobPlan,
        existing: Option<&str>,
        slot: JobSlot,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: CancellationToken,
    ) -> Option<JobOutcome> {
        let connecting = tokio::select! {
            biased;
            // One that exists has to be deleted, which needs the connection.
            () = cancel.cancelled(), if existing.is_none() => {
                return Some(JobOutcome::error(Reason::Cancelled, "the call was cancelled before it ran"));
            }
            connecting = self.cluster.client() => connecting,
        };
        let client = match connecting {
            Ok(client) => client,
            // Nothing is known of its end: whoever finds it next follows it.
            Err(error) if existing.is_some() => {
                tracing::warn!(decision_id = %plan.id(), %error, "a job that exists cannot be followed");
                return None;
            }
            Err(error) => return Some(JobOutcome::error(Reason::ApiserverUnavailable, error.to_string())),
        };
        // Held until the deletion is sent: what nobody holds is an orphan.
        let _held = self.ownership.hold(&client, plan.id()).await;
        // What another process can take up: the Job exists, and what only this one has is in place.
        let complete = CancellationToken::new();
        let enough = if plan.files().is_empty() { Progress::Created } else { Progress::Running };
        let tell = |step| {
            if step >= enough {
                complete.cancel();
            }
            progress(step);
        };
        let mut run = Run::new(&client, plan, &self.limits, Steps::new(&tell));
        let mut cleanup = Cleanup::new(&client, plan, slot, self.deletions.clone());
        if let Some(uid) = existing {
            cleanup.created(uid, true);
            complete.cancel();
        }
        let left = async {
            self.released.cancelled().await;
            complete.cancelled().await;
        };
        let running = async {
            match existing {
                Some(uid) => run.follow(uid).await,
                None => run.see_through(&mut cleanup).await,
            }
        };
        let finished = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            () = left, if plan.handle().is_some() => {
                cleanup.disarm();
                return None;
            }
            outcome = running => Some(outcome),
        };
        let outcome = finished.unwrap_or_else(|| run.cancelled());
        if outcome.reason == Some(Reason::ApiserverUnavailable) {
            // Perhaps its credentials are no longer good: read them again next time.
            self.cluster.forget().await;
        }
        let within = match outcome.status {
            Status::Timeout => DELETE_AFTER_TIMEOUT,
            Status::Succeeded | Status::Failed | Status::Error => DELETE,
        };
        cleanup.delete(within).await;
        run.reach(Progress::Done);
        Some(outcome)
    }
}

impl JobOutcome {
    /// A job that was left to another process although its call waits: only jobs in the background are.
    fn left() -> Self {
        Self::error(Reason::Cancelled, "the server ended")
    }

    /// A job that never came to be.
    fn error(reason: Reason, message: impl Into<String>) -> Self {
        let Ended { status, reason, exit_code, message, retryable } = Ended::error(reason, message);
        Self {
            status,
            reason,
            retryable,
            message,
            exit_code,
            output: String::new(),
            omitted_bytes: 0,
            artifacts: Vec::new(),
            truncated: Truncated::default(),
            problems: Vec::new(),
            duration: Duration::ZERO,
            job_uid: None,
            image_id: None,
        }
    }
}
