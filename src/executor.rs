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
mod classify;
mod cleanup;
mod cluster;
mod collect;
mod dispatch;
mod doctor;
mod exec;
mod fault;
mod feed;
mod inject;
mod kubectl;
mod logs;
mod outcome;
mod progress;
mod proxy;
mod remains;
mod run;
mod suspicion;
mod text;

/// Doors for tests/fuzz, in no ordinary build.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::executor::archive::{pack, unpack};
}

pub use cluster::{Cluster, ClusterError, ClusterSource};
pub use dispatch::{Executor, Outcome};
pub use doctor::{JobExam, ReadExam, examine_jobs, examine_reads};
pub use kubectl::{
    Access, KubectlExecutor, PrivateHome, ReadFailure, ReadLimits, ReadOutcome, ReadReason, ReadSource,
    ReadText, ReadTools,
};
pub use outcome::{Artifact, JobOutcome, Reason, Status, Truncated};
pub use progress::Progress;
pub use suspicion::Graces;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::OpenRecord;
use crate::plan::{Budgets, JobPlan, Plan};
use crate::policy::Permit;
use classify::Ended;
use cleanup::Cleanup;
use progress::Steps;
use run::Run;

/// How long a reply waits for the API server to accept the deletion. Repetitions go on in the background.
const DELETE: Duration = Duration::from_secs(5);

/// The same when the command's wall clock ran out, so that the whole wind-up stays within 5 s.
const DELETE_AFTER_TIMEOUT: Duration = Duration::from_millis(1500);

/// Bounds of every job.
#[derive(Debug, Clone)]
pub struct JobLimits {
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
        Self { max_output_bytes, max_artifact_bytes, budgets: Budgets::JOB, graces: Graces::default() }
    }
}

/// Runs admitted jobs in a cluster.
#[derive(Debug)]
pub struct JobExecutor {
    cluster: Arc<Cluster>,
    limits: JobLimits,
    deletions: TaskTracker,
}

impl JobExecutor {
    /// An executor for `cluster`. Nothing is connected yet.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, limits: JobLimits) -> Self {
        Self { cluster, limits, deletions: TaskTracker::new() }
    }

    /// Carries an admitted plan out, and gives how it ended. `record` proves that the decision is durable.
    ///
    /// `progress` is called from within, in order and each step at most once; it must not block. When `cancel`
    /// fires, or the future is dropped, the Job is deleted.
    pub async fn run_job(
        &self,
        permit: Permit,
        record: &OpenRecord,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: CancellationToken,
    ) -> JobOutcome {
        let plan = match permit.into_plan() {
            Plan::Job(plan) => plan,
            Plan::Kubectl(_) => {
                return JobOutcome::error(Reason::AdmissionDenied, "a read is not a job, so nothing was run");
            }
        };
        if record.decision_id() != plan.id() {
            return JobOutcome::error(
                Reason::AdmissionDenied,
                "the audit record is that of another call, so nothing was run",
            );
        }
        self.run_plan(&plan, progress, cancel).await
    }

    /// Waits until the deletions that go on in the background are done, at most `within`. For an orderly exit.
    pub async fn drain(&self, within: Duration) {
        self.deletions.close();
        if timeout(within, self.deletions.wait()).await.is_err() {
            tracing::error!("Jobs may be left behind; the cluster removes them after their deadline");
        }
    }

    async fn run_plan(
        &self,
        plan: &JobPlan,
        progress: &(dyn Fn(Progress) + Send + Sync),
        cancel: CancellationToken,
    ) -> JobOutcome {
        let connecting = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return JobOutcome::error(Reason::Cancelled, "the call was cancelled before it ran");
            }
            connecting = self.cluster.client() => connecting,
        };
        let client = match connecting {
            Ok(client) => client,
            Err(error) => return JobOutcome::error(Reason::ApiserverUnavailable, error.to_string()),
        };
        let mut run = Run::new(&client, plan, &self.limits, Steps::new(progress));
        let mut cleanup = Cleanup::new(
            kube::Api::namespaced(client.clone(), plan.namespace()),
            plan.job_name(),
            &plan.id().to_string(),
            self.deletions.clone(),
        );
        let finished = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            outcome = run.see_through(&mut cleanup) => Some(outcome),
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
        outcome
    }
}

impl JobOutcome {
    /// A job that never came to be.
    fn error(reason: Reason, message: impl Into<String>) -> Self {
        let Ended { status, reason, exit_code, message } = Ended::error(reason, message);
        Self {
            status,
            reason,
            message,
            exit_code,
            output: String::new(),
            omitted_bytes: 0,
            artifacts: Vec::new(),
            truncated: Truncated::default(),
            duration: Duration::ZERO,
            job_uid: None,
            image_id: None,
        }
    }
}
