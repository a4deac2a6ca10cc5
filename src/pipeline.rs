//! The pipeline: the only file that names all stages. [`Gateway::call`] reads as the product.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::{
    self, ArtifactSummary, Audit, AuditError, DecisionSummary, Entry, OutcomeStatus, OutcomeSummary,
    OutputSummary,
};
use crate::caller::Caller;
use crate::executor::{Executor, JobOutcome, Outcome, Progress, ReadOutcome, ReadReason, Status};
use crate::ids::DecisionId;
use crate::plan::{self, Plan, Settings};
use crate::policy::{Decision, Policy, Question, Verdict};
use crate::refusal::{Reason, Refusal, Stage};
use crate::reply::Reply;
use crate::schema::{Catalogue, ToolCall};

/// Everything that a call passes through. One for a process, shared by every transport.
pub struct Gateway {
    catalogue: Catalogue,
    settings: Settings,
    policy: Arc<Policy>,
    audit: Audit,
    executor: Executor,
    running: TaskTracker,
}

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
    /// Where to report how a job comes along; `None` when nobody looks.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Fires when the caller takes the call back.
    pub cancelled: CancellationToken,
}

/// What a call would do.
#[derive(Debug)]
pub struct Preview {
    /// The call's id, which the manifest holds.
    pub id: DecisionId,
    /// The plan that was judged, unless the call did not get so far.
    pub plan: Option<Plan>,
    /// The decision, unless the call did not get so far.
    pub decision: Option<Decision>,
    /// Why it would not run.
    pub refusal: Option<Refusal>,
}

impl Gateway {
    /// Joins the stages.
    #[must_use]
    pub fn new(
        catalogue: Catalogue,
        settings: Settings,
        policy: Arc<Policy>,
        audit: Audit,
        executor: Executor,
    ) -> Self {
        Self { catalogue, settings, policy, audit, executor, running: TaskTracker::new() }
    }

    /// The tools.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The images that a caller with these roles may use now, as a person would write them.
    #[must_use]
    pub fn images(&self, roles: &[String]) -> Vec<String> {
        self.policy.images_for(roles).listing()
    }

    /// The namespaces that a caller with these roles may read now; one star for every namespace.
    #[must_use]
    pub fn readable_namespaces(&self, roles: &[String]) -> Vec<String> {
        self.policy.readable_namespaces(roles)
    }

    /// Takes one call from its arguments to its reply.
    ///
    /// It runs in a task of its own: a caller that hangs up neither halves a write nor loses its record. A
    /// panic anywhere in it is one [`Reply::Broken`]; the record is closed as abandoned and the job deleted
    /// by the values that the task held.
    pub async fn call(self: &Arc<Self>, request: Request) -> Reply {
        let id = DecisionId::mint();
        let gateway = Arc::clone(self);
        let task = self.running.spawn(async move { gateway.carry_out(id, request).await });
        match task.await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(decision_id = %id, %error, "a call ended in the middle");
                Reply::Broken { id }
            }
        }
    }

    async fn carry_out(&self, id: DecisionId, request: Request) -> Reply {
        let call = match self.admit(id, &request) {
            Ok(call) => call,
            Err(refusal) => return self.refuse(id, &request, None, refusal).await,
        };
        let plan = match self.plan(&call, &request.caller) {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse(id, &request, Some(&call), refusal).await,
        };
        let image = image_of(&plan);
        let permit = match self.judge(&request.caller, &call, plan).await {
            Ok(Verdict::Allow(permit)) => permit,
            Ok(Verdict::Deny { plan, decision }) => {
                let subject = subject(&plan);
                let refusal = Refusal { stage: Stage::Policy, reasons: decision.deny.clone() };
                return self.refuse_judged(id, &request, &call, subject, &decision, refusal).await;
            }
            Err(refusal) => return self.refuse(id, &request, Some(&call), refusal).await,
        };
        let entry = entry(id, &request, Some(&call), subject(permit.plan()), allowed(permit.decision()));
        let record = match self.audit.admit(entry).await {
            Ok(record) => record,
            Err(error) => return unrecorded(id, &error),
        };
        let progress = move |step| {
            // Nobody waits for a reader of progress: one that is slow misses a step.
            if let Some(sender) = &request.progress {
                let _ = sender.try_send(step);
            }
        };
        let outcome = self.executor.run(permit, &record, &progress, request.cancelled).await;
        match record.close(&summary(&outcome)).await {
            Ok(()) => match outcome {
                Outcome::Job(outcome) => Reply::Job { id, image, outcome },
                Outcome::Read(outcome) => Reply::Read { id, outcome },
            },
            Err(error) => {
                tracing::error!(decision_id = %id, error = with_causes(&error), "an outcome could not be recorded");
                Reply::Unrecorded { id, cause: with_causes(&error) }
            }
        }
    }

    /// Judges a call without recording or running it.
    pub async fn preview(&self, request: Request) -> Preview {
        let id = DecisionId::mint();
        let refused = |refusal| Preview { id, plan: None, decision: None, refusal: Some(refusal) };
        let call = match self.admit(id, &request) {
            Ok(call) => call,
            Err(refusal) => return refused(refusal),
        };
        let plan = match self.plan(&call, &request.caller) {
            Ok(plan) => plan,
            Err(refusal) => return refused(refusal),
        };
        match self.judge(&request.caller, &call, plan).await {
            Ok(Verdict::Allow(permit)) => {
                let decision = permit.decision().clone();
                Preview { id, plan: Some(permit.into_plan()), decision: Some(decision), refusal: None }
            }
            Ok(Verdict::Deny { plan, decision }) => {
                let refusal = Refusal { stage: Stage::Policy, reasons: decision.deny.clone() };
                Preview { id, plan: Some(plan), decision: Some(decision), refusal: Some(refusal) }
            }
            Err(refusal) => refused(refusal),
        }
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

    /// Ends the gateway: waits for running calls to close their records, then closes the log.
    pub async fn finish(&self) {
        self.running.close();
        self.running.wait().await;
        if let Err(error) = self.audit.stop().await {
            tracing::error!(error = with_causes(&error), "the audit log could not be closed");
        }
    }

    fn admit(&self, id: DecisionId, request: &Request) -> Result<ToolCall, Refusal> {
        if let Some(fault) = &request.fault {
            return Err(Refusal::because(Stage::Schema, fault.clone()));
        }
        self.catalogue.admit(id, &request.tool, request.arguments.clone())
    }

    fn plan(&self, call: &ToolCall, caller: &Caller) -> Result<Plan, Refusal> {
        plan::plan(call, &self.settings, &self.policy.images_for(caller.roles()))
    }

    /// The evaluation is computation, so it runs off the reactor.
    async fn judge(&self, caller: &Caller, call: &ToolCall, plan: Plan) -> Result<Verdict, Refusal> {
        let policy = Arc::clone(&self.policy);
        let (caller, call) = (caller.clone(), call.clone());
        let judged = tokio::task::spawn_blocking(move || {
            policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::now() })
        });
        judged.await.map_err(|error| {
            tracing::error!(%error, "the policy stage ended in the middle");
            Refusal::because(
                Stage::Policy,
                Reason::new("policy.panic", "the policy stage failed", "", "the server's log has the cause"),
            )
        })
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

fn entry(
    id: DecisionId,
    request: &Request,
    call: Option<&ToolCall>,
    subject: Value,
    decision: DecisionSummary,
) -> Entry {
    let arguments = match call {
        Some(call) => call.redacted(),
        // Arguments that did not pass the schema may hold anything anywhere.
        None => audit::unparsed(request.arguments.to_string().as_bytes()),
    };
    Entry {
        decision_id: id,
        caller: request.caller.clone(),
        tool: request.tool.clone(),
        arguments,
        decision,
        subject,
    }
}

fn allowed(decision: &Decision) -> DecisionSummary {
    DecisionSummary {
        allow: true,
        stage: None,
        reasons: Vec::new(),
        warn: decision.warn.clone(),
        policy_revision: Some(decision.revision.clone()),
    }
}

fn refused(stage: Stage, reasons: Vec<Reason>, judged: Option<&Decision>) -> DecisionSummary {
    DecisionSummary {
        allow: false,
        stage: Some(stage),
        reasons,
        warn: judged.map(|decision| decision.warn.clone()).unwrap_or_default(),
        policy_revision: judged.map(|decision| decision.revision.clone()),
    }
}

/// The facts of a plan that join a decision to what ran.
fn subject(plan: &Plan) -> Value {
    match plan {
        Plan::Job(job) => json!({
            "kind": "Job",
            "namespace": job.namespace(),
            "name": job.job_name(),
            "image": job.image().reference.key(),
            "manifest_sha256": job.manifest_sha256(),
        }),
        Plan::Kubectl(read) => json!({
            "kind": "kubectl",
            "namespace": read.namespace(),
            "argv": read.argv(),
        }),
    }
}

/// What an outcome's record holds: digests and lengths, never content.
fn summary(outcome: &Outcome) -> OutcomeSummary {
    match outcome {
        Outcome::Job(outcome) => job_summary(outcome),
        Outcome::Read(outcome) => read_summary(outcome),
    }
}

fn read_summary(outcome: &ReadOutcome) -> OutcomeSummary {
    let (status, reason, output, message) = match &outcome.end {
        Ok(read) => {
            let output = OutputSummary::of(read.output.as_bytes(), read.omitted_characters);
            (OutcomeStatus::Succeeded, None, Some(output), String::new())
        }
        Err(failure) => {
            let status = if failure.reason == ReadReason::Timeout {
                OutcomeStatus::Timeout
            } else if outcome.exit_code.is_some() {
                OutcomeStatus::Failed
            } else {
                OutcomeStatus::Error
            };
            (status, Some(failure.reason.as_str().to_owned()), None, failure.message.clone())
        }
    };
    OutcomeSummary {
        status,
        reason,
        exit_code: outcome.exit_code,
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        output,
        artifacts: Vec::new(),
        job_uid: None,
        image_id: None,
        message,
    }
}

fn job_summary(outcome: &JobOutcome) -> OutcomeSummary {
    OutcomeSummary {
        status: match outcome.status {
            Status::Succeeded => OutcomeStatus::Succeeded,
            Status::Failed => OutcomeStatus::Failed,
            Status::Timeout => OutcomeStatus::Timeout,
            Status::Error => OutcomeStatus::Error,
        },
        reason: outcome.reason.map(|reason| reason.as_str().to_owned()),
        exit_code: Some(outcome.exit_code),
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        output: Some(OutputSummary::of(outcome.output.as_bytes(), outcome.omitted_bytes)),
        artifacts: outcome
            .artifacts
            .iter()
            .map(|artifact| ArtifactSummary::of(&artifact.name, &artifact.content))
            .collect(),
        job_uid: outcome.job_uid.clone(),
        image_id: outcome.image_id.clone(),
        message: outcome.message.clone(),
    }
}

/// An error and what lies under it, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn image_of(plan: &Plan) -> String {
    match plan {
        Plan::Job(job) => job.image().reference.key(),
        Plan::Kubectl(_) => String::new(),
    }
}
