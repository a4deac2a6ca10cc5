//! Jobs in the background: submitted, looked up, ended.
//!
//! A submitted job goes on in a task of its own, which holds its record and tells its end once the outcome is
//! durable. What it ends with is what `run_job` would have answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::audit::OpenRecord;
use crate::executor::{
    EndStatus, Ending, Found, Handle, HandleOutcome, JobEnd, JobOutcome, JobSlot, Orphan, Outcome, Recovery,
    Status,
};
use crate::ids::DecisionId;
use crate::pipeline::record::summary;
use crate::pipeline::{Gateway, with_causes};
use crate::plan::{HandlePlan, JobPlan, Operation, RecoveredJob};
use crate::policy::Permit;
use crate::reply::{self, Reply};
use crate::schema::ToolCall;

/// How long a cancelled job may take to end: its deletion is sent at once, and its record takes a moment.
const CANCEL: Duration = Duration::from_secs(30);

/// How often a job that another process follows is asked for.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How long a shared result may take to appear once its job is gone.
const SETTLE: Duration = Duration::from_secs(2);

/// The job of a permit, when its call does not wait for it.
pub(super) fn job(permit: &Permit) -> Option<&JobPlan> {
    match permit.plan() {
        crate::plan::Plan::Job(job) if job.handle().is_some() => Some(job),
        _ => None,
    }
}

impl Gateway {
    /// Starts an admitted job and answers with its token.
    pub(super) async fn submit(
        self: &Arc<Self>,
        call: &ToolCall,
        permit: Permit,
        record: OpenRecord,
        slot: Option<JobSlot>,
        image: String,
    ) -> Reply {
        let began = Instant::now();
        let id = call.id();
        let key = job(&permit).and_then(JobPlan::handle).cloned();
        let begun = key.and_then(|key| self.executor.handles().begin(&key).ok());
        let (Some(token), Some(ending), Some(slot)) = (call.new_token(), begun, slot) else {
            let outcome = HandleOutcome { found: Found::NoRoom, duration: began.elapsed() };
            return self.conclude(id, record, Outcome::Handle(outcome), String::new()).await;
        };
        let gateway = Arc::clone(self);
        self.background.spawn(async move {
            let cancel = ending.cancel();
            let outcome = gateway.executor.jobs().run_in_background(permit, &record, slot, cancel).await;
            gateway.end(id, &image, outcome, record, ending).await;
        });
        Reply::Submitted { id, token: token.clone() }
    }

    /// Follows a job that another process started. Nothing happens when its outcome could not be recorded, or
    /// when it is followed already.
    pub(super) async fn adopt(self: &Arc<Self>, job: RecoveredJob) {
        let id = job.plan().id();
        let Some(key) = job.plan().handle() else { return };
        let Ok(ending) = self.executor.handles().begin(key) else { return };
        let record = match self.audit.take_up(id).await {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(decision_id = %id, error = with_causes(&error), "a job cannot be followed");
                return ending.withdraw();
            }
        };
        tracing::info!(decision_id = %id, "a job of a server that has ended is followed to its end");
        let gateway = Arc::clone(self);
        self.background.spawn(async move {
            let outcome = gateway.executor.jobs().follow(&job, &record, ending.cancel()).await;
            let image = job.plan().image().reference.key();
            gateway.end(id, &image, outcome, record, ending).await;
        });
    }

    /// Records how a job in the background ended, and only then tells it. A job that is left to another process
    /// ends there.
    async fn end(
        &self,
        id: DecisionId,
        image: &str,
        outcome: Option<JobOutcome>,
        record: OpenRecord,
        ending: Ending,
    ) {
        let Some(outcome) = outcome else {
            record.hand_over();
            return ending.withdraw();
        };
        let outcome = Outcome::Job(outcome);
        let recorded = record.close(&summary(&outcome)).await;
        let Outcome::Job(outcome) = outcome else { return };
        let end = match recorded {
            Ok(()) => job_end(id, image, &outcome),
            Err(error) => {
                tracing::error!(decision_id = %id, error = with_causes(&error), "an outcome could not be recorded");
                JobEnd {
                    status: EndStatus::Error,
                    reason: Some("unrecorded".to_owned()),
                    error: Some(format!(
                        "the job ran, but its outcome could not be recorded, so its result is withheld: {}",
                        with_causes(&error)
                    )),
                    result: None,
                }
            }
        };
        self.executor.share(ending.key(), &end).await;
        ending.tell(end);
    }

    /// Carries out `fetch_job` or `cancel_job`.
    pub(super) async fn look_up(
        self: &Arc<Self>,
        plan: &HandlePlan,
        cancelled: &CancellationToken,
    ) -> HandleOutcome {
        let began = Instant::now();
        let found = self.search(plan, cancelled).await;
        HandleOutcome { found, duration: began.elapsed() }
    }

    /// This process' own jobs first, then the stored results, then the cluster. A job that another process
    /// follows is asked for again until the wait is over.
    async fn search(self: &Arc<Self>, plan: &HandlePlan, cancelled: &CancellationToken) -> Found {
        let until = Instant::now() + Duration::from_secs(plan.operation().wait_s());
        let mut elsewhere = false;
        let mut gone: Option<Instant> = None;
        loop {
            if let Some(handle) = self.executor.handles().find(plan.key()) {
                return ask(handle, plan.operation(), until, cancelled).await;
            }
            if let Some(end) = self.executor.shared(plan.key()).await {
                return Found::Ended(Arc::new(end));
            }
            match self.executor.jobs().find(plan.key()).await {
                Recovery::Recovered(job) => {
                    self.adopt(*job).await;
                    if self.executor.handles().find(plan.key()).is_none() {
                        return Found::NoRoom;
                    }
                    continue;
                }
                Recovery::Elsewhere(job) => {
                    elsewhere = true;
                    if plan.operation() == Operation::Cancel {
                        return self.cancel_elsewhere(&job).await;
                    }
                }
                // Between the deletion of a job and its stored result lies its record.
                Recovery::Nothing
                    if self.executor.shares_results()
                        && gone.get_or_insert_with(Instant::now).elapsed() < SETTLE =>
                {
                    tokio::time::sleep(SETTLE / 8).await;
                    continue;
                }
                Recovery::Nothing if elsewhere => return Found::Elsewhere,
                Recovery::Nothing => return Found::Unknown,
                Recovery::Unreachable(cause) => return Found::Unreachable(cause),
            }
            let next = Instant::now() + ASK_AGAIN;
            if next > until {
                return Found::Running;
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = cancelled.cancelled() => return Found::Running,
            }
        }
    }

    /// Ends a job that another process follows: that one sees its Job go, and records it.
    async fn cancel_elsewhere(&self, job: &Orphan) -> Found {
        match self.executor.jobs().remove(job).await {
            Ok(_) => Found::Ended(Arc::new(JobEnd {
                status: EndStatus::Error,
                reason: Some("cancelled".to_owned()),
                error: Some("the job was cancelled; another server followed it".to_owned()),
                result: None,
            })),
            Err(cause) => Found::Unreachable(cause),
        }
    }
}

/// What a job that this process follows says.
async fn ask(
    mut handle: Handle,
    operation: Operation,
    until: Instant,
    cancelled: &CancellationToken,
) -> Found {
    let until = match operation {
        Operation::Fetch { .. } => until,
        Operation::Cancel => {
            if handle.end().is_none() {
                handle.cancel();
            }
            Instant::now() + CANCEL
        }
    };
    let end = tokio::select! {
        biased;
        end = tokio::time::timeout_at(until, handle.wait()) => end.ok().flatten(),
        // The caller no longer waits; the job goes on.
        () = cancelled.cancelled() => None,
    };
    end.or_else(|| handle.end()).map_or(Found::Running, Found::Ended)
}

/// What `fetch_job` says of an outcome: an error is what kept the command from its end, never its own failure.
fn job_end(id: DecisionId, image: &str, outcome: &JobOutcome) -> JobEnd {
    let (status, reason, error) = match outcome.status {
        Status::Succeeded | Status::Failed | Status::Timeout => (EndStatus::Done, None, None),
        Status::Error => {
            let reason = outcome.reason.map(|reason| reason.as_str().to_owned());
            (EndStatus::Error, reason, Some(outcome.message.clone()))
        }
    };
    JobEnd { status, reason, error, result: Some(reply::job_result(id, image, outcome)) }
}
