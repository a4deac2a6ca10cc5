//! The pipeline: the only module that names all stages. [`Gateway::call`] reads as the product.

mod background;
mod janitor;
mod judge;
mod record;

pub use judge::{Judge, Preview};

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::{Audit, AuditError, Entry, OpenRecord};
use crate::caller::Caller;
use crate::executor::{Executor, JobSlot, Outcome, Progress};
use crate::ids::DecisionId;
use crate::plan::Plan;
use crate::policy::{Decision, Permit, Verdict};
use crate::refusal::{Reason, Refusal, Stage};
use crate::reply::Reply;
use crate::schema::ToolCall;
use record::{allowed, entry, image_of, refused, subject, summary};

/// How long deletions that the cluster did not accept at once may go on at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// Everything that a call passes through. One for a process, shared by every transport.
pub struct Gateway {
    judge: Judge,
    audit: Audit,
    executor: Executor,
    /// Calls.
    running: TaskTracker,
    /// Jobs that no call waits for.
    background: TaskTracker,
    /// No new call is taken.
    stopping: CancellationToken,
    /// Calls that wait are cancelled.
    cancelling: CancellationToken,
}

/// Hears how a job comes along. It is called from within the call and must not block.
pub type OnProgress = Box<dyn Fn(Progress) + Send + Sync>;

/// A call as a transport received it.
pub struct Request {
    /// Who calls, by authentication.
    pub caller: Caller,
    /// The tool's name, as sent.
    pub tool: String,
    /// The arguments, as sent.
    pub arguments: Value,
    /// A fault that the transport found in the raw message: the arguments' keys are not unique.
    pub fault: Option<Reason>,
}

impl Gateway {
    /// Joins the stages.
    #[must_use]
    pub fn new(judge: Judge, audit: Audit, executor: Executor) -> Self {
        Self {
            judge,
            audit,
            executor,
            running: TaskTracker::new(),
            background: TaskTracker::new(),
            stopping: CancellationToken::new(),
            cancelling: CancellationToken::new(),
        }
    }

    /// The stages before the record.
    #[must_use]
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Takes one call from its arguments to its reply.
    ///
    /// It runs in a task of its own: a caller that hangs up neither halves a write nor loses its record. A
    /// panic anywhere in it is one [`Reply::Broken`]; the record is closed as abandoned and the job deleted
    /// by the values that the task held.
    pub async fn call(
        self: &Arc<Self>,
        request: Request,
        progress: OnProgress,
        cancelled: CancellationToken,
    ) -> Reply {
        let id = DecisionId::mint();
        let gateway = Arc::clone(self);
        let task = self.running.spawn(async move {
            let own = CancellationToken::new();
            let mut work = std::pin::pin!(gateway.carry_out(id, request, progress, own.clone()));
            loop {
                tokio::select! {
                    reply = &mut work => return reply,
                    () = cancelled.cancelled(), if !own.is_cancelled() => own.cancel(),
                    () = gateway.cancelling.cancelled(), if !own.is_cancelled() => own.cancel(),
                }
            }
        });
        match task.await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(decision_id = %id, %error, "a call ended in the middle");
                Reply::Broken { id }
            }
        }
    }

    async fn carry_out(
        self: &Arc<Self>,
        id: DecisionId,
        request: Request,
        progress: OnProgress,
        cancelled: CancellationToken,
    ) -> Reply {
        if self.stopping.is_cancelled() {
            let reason = Reason::new("server.stopping", "the server is about to end", "", "call again later");
            return self.refuse(id, &request, None, Refusal::because(Stage::Server, reason)).await;
        }
        let call = match self.judge.admit(id, &request) {
            Ok(call) => call,
            Err(refusal) => return self.refuse(id, &request, None, refusal).await,
        };
        let plan = match self.judge.plan(&call, &request.caller) {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse(id, &request, Some(&call), refusal).await,
        };
        let image = image_of(&plan);
        let permit = match self.judge.judge(&request.caller, &call, plan).await {
            Ok(Verdict::Allow(permit)) => permit,
            Ok(Verdict::Deny { plan, decision }) => {
                let subject = subject(&plan);
                let refusal = Refusal { stage: Stage::Policy, reasons: decision.deny.clone() };
                return self.refuse_judged(id, &request, &call, subject, &decision, refusal).await;
            }
            Err(refusal) => return self.refuse(id, &request, Some(&call), refusal).await,
        };
        let slot = match self.place(&request.caller, &permit, &progress, &cancelled).await {
            Ok(slot) => slot,
            Err(refusal) => {
                let (subject, decision) = (subject(permit.plan()), permit.decision());
                return self.refuse_judged(id, &request, &call, subject, decision, refusal).await;
            }
        };
        let entry = entry(id, &request, Some(&call), subject(permit.plan()), allowed(permit.decision()));
        let record = match self.audit.admit(entry).await {
            Ok(record) => record,
            Err(error) => return unrecorded(id, &error),
        };
        if background::job(&permit).is_some() {
            return self.submit(&call, permit, record, slot, image).await;
        }
        let outcome = match permit.plan() {
            Plan::Handle(plan) => Outcome::Handle(self.look_up(plan, &cancelled).await),
            Plan::Job(_) | Plan::Kubectl(_) => {
                self.executor.run(permit, &record, slot, &progress, cancelled).await
            }
        };
        self.conclude(id, record, outcome, image).await
    }

    /// Records how a call ended, and only then answers.
    async fn conclude(&self, id: DecisionId, record: OpenRecord, outcome: Outcome, image: String) -> Reply {
        match record.close(&summary(&outcome)).await {
            Ok(()) => match outcome {
                Outcome::Job(outcome) => Reply::Job { id, image, outcome },
                Outcome::Read(outcome) => Reply::Read { id, outcome },
                Outcome::Handle(outcome) => Reply::Handle { id, found: outcome.found },
            },
            Err(error) => {
                tracing::error!(decision_id = %id, error = with_causes(&error), "an outcome could not be recorded");
                Reply::Unrecorded { id, cause: with_causes(&error) }
            }
        }
    }

    /// A place among the jobs that may exist at once. It is had before the decision is recorded: that record says
    /// that the call will run.
    async fn place(
        &self,
        caller: &Caller,
        permit: &Permit,
        progress: &OnProgress,
        cancelled: &CancellationToken,
    ) -> Result<Option<JobSlot>, Refusal> {
        let most = self.judge.jobs_per_caller(caller.roles());
        let reserved = self.executor.reserve(permit.plan(), caller.name(), most, progress, cancelled).await;
        reserved.map_err(|busy| {
            Refusal::because(Stage::Limits, Reason::new(busy.code(), busy.to_string(), "", busy.hint()))
        })
    }

    /// Records something that never became a call: a message that is not one, or one for a tool that does
    /// not exist. Failing to record it is logged, since there is nothing left to refuse.
    pub async fn record_stray(&self, caller: Caller, tool: &str, arguments: Value, reason: Reason) {
        let entry = Entry {
            decision_id: DecisionId::mint(),
            caller,
            tool: tool.to_owned(),
            arguments,
            decision: refused(Stage::Schema, vec![reason], None),
            subject: Value::Null,
        };
        if let Err(error) = self.audit.refuse(entry).await {
            tracing::error!(error = with_causes(&error), "a malformed message could not be recorded");
        }
    }

    /// Takes no more calls, and gives those that run `grace` to end by themselves.
    pub async fn wind_down(&self, grace: Duration) {
        self.stopping.cancel();
        self.running.close();
        let _ = tokio::time::timeout(grace, self.running.wait()).await;
    }

    /// Ends the gateway: cancels the calls that wait, waits for their records, then closes the log. With
    /// `leave_jobs`, jobs in the background are left on the cluster, where the next process finds them; without,
    /// they are cancelled.
    pub async fn finish(&self, leave_jobs: bool) {
        self.stopping.cancel();
        self.cancelling.cancel();
        self.running.close();
        self.running.wait().await;
        if leave_jobs {
            self.executor.jobs().release();
        } else {
            self.executor.handles().cancel_all();
        }
        self.background.close();
        self.background.wait().await;
        self.executor.drain(DRAIN).await;
        if let Err(error) = self.audit.stop().await {
            tracing::error!(error = with_causes(&error), "the audit log could not be closed");
        }
    }

    async fn refuse(
        &self,
        id: DecisionId,
        request: &Request,
        call: Option<&ToolCall>,
        refusal: Refusal,
    ) -> Reply {
        let decision = refused(refusal.stage, refusal.reasons.clone(), None);
        self.record_refusal(entry(id, request, call, Value::Null, decision), refusal).await
    }

    async fn refuse_judged(
        &self,
        id: DecisionId,
        request: &Request,
        call: &ToolCall,
        subject: Value,
        decision: &Decision,
        refusal: Refusal,
    ) -> Reply {
        let summary = refused(refusal.stage, refusal.reasons.clone(), Some(decision));
        self.record_refusal(entry(id, request, Some(call), subject, summary), refusal).await
    }

    async fn record_refusal(&self, entry: Entry, refusal: Refusal) -> Reply {
        let id = entry.decision_id;
        match self.audit.refuse(entry).await {
            Ok(()) => Reply::Refused { id, refusal },
            Err(error) => unrecorded(id, &error),
        }
    }
}

/// Nothing runs that cannot be recorded; nor is anything else said, since saying it was the effect.
fn unrecorded(id: DecisionId, error: &AuditError) -> Reply {
    tracing::error!(decision_id = %id, error = with_causes(error), "a decision could not be recorded");
    let reason = Reason::new(
        "audit.unavailable",
        format!("the call could not be recorded, so it did not run: {}", with_causes(error)),
        "",
        "nothing in the call is at fault; the operator has to mend the audit log",
    );
    Reply::Refused { id, refusal: Refusal::because(Stage::Audit, reason) }
}

/// An error and what lies under it, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
