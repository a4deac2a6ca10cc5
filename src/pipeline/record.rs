//! What the audit log holds of a call: facts, digests and lengths, never content.

use serde_json::{Value, json};

use crate::audit::{
    self, ArtifactSummary, DecisionSummary, Entry, OutcomeStatus, OutcomeSummary, OutputSummary,
};
use crate::executor::{
    Found, HandleOutcome, JobOutcome, Orphan, Outcome, ReadOutcome, ReadReason, Reason as JobReason, Status,
};
use crate::ids::DecisionId;
use crate::pipeline::Request;
use crate::plan::Plan;
use crate::policy::Decision;
use crate::refusal::{Reason, Stage};
use crate::schema::ToolCall;

pub(super) fn entry(
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

pub(super) fn allowed(decision: &Decision) -> DecisionSummary {
    DecisionSummary {
        allow: true,
        stage: None,
        reasons: Vec::new(),
        warn: decision.warn.clone(),
        policy_revision: Some(decision.revision.clone()),
    }
}

pub(super) fn refused(stage: Stage, reasons: Vec<Reason>, judged: Option<&Decision>) -> DecisionSummary {
    DecisionSummary {
        allow: false,
        stage: Some(stage),
        reasons,
        warn: judged.map(|decision| decision.warn.clone()).unwrap_or_default(),
        policy_revision: judged.map(|decision| decision.revision.clone()),
    }
}

/// The facts of a plan that join a decision to what ran.
pub(super) fn subject(plan: &Plan) -> Value {
    match plan {
        Plan::Job(job) => json!({
            "kind": "Job",
            "namespace": job.namespace(),
            "name": job.job_name(),
            "image": job.image().reference.key(),
            "manifest_sha256": job.manifest_sha256(),
            "token_digest": job.handle().map(|key| key.token()),
        }),
        Plan::Kubectl(read) => json!({
            "kind": "kubectl",
            "namespace": read.namespace(),
            "argv": read.argv(),
        }),
        Plan::Handle(handle) => json!({
            "kind": "handle",
            "operation": handle.operation().as_str(),
            "token_digest": handle.key().token(),
        }),
    }
}

/// What an outcome's record holds: digests and lengths, never content.
pub(super) fn summary(outcome: &Outcome) -> OutcomeSummary {
    match outcome {
        Outcome::Job(outcome) => job_summary(outcome),
        Outcome::Read(outcome) => read_summary(outcome),
        Outcome::Handle(outcome) => handle_summary(outcome),
    }
}

/// That of the look, not of the job: the job's own outcome has the job's decision id.
fn handle_summary(outcome: &HandleOutcome) -> OutcomeSummary {
    let (status, reason) = match &outcome.found {
        Found::Running => (OutcomeStatus::Succeeded, Some("running")),
        Found::Ended(_) => (OutcomeStatus::Succeeded, Some("ended")),
        Found::Unknown => (OutcomeStatus::Failed, Some("unknown_token")),
        Found::Elsewhere => (OutcomeStatus::Failed, Some("elsewhere")),
        Found::Unreachable(_) => (OutcomeStatus::Error, Some("apiserver_unavailable")),
        Found::NoRoom => (OutcomeStatus::Failed, Some("no_room")),
    };
    OutcomeSummary {
        status,
        reason: reason.map(str::to_owned),
        exit_code: None,
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        output: None,
        artifacts: Vec::new(),
        job_uid: None,
        image_id: None,
        message: String::new(),
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
        message: recordable(outcome),
    }
}

/// The message of an outcome, where it cannot hold what the call brought: the words of a container runtime, an
/// admission webhook or a failed injection may quote the command, its environment or a file.
fn recordable(outcome: &JobOutcome) -> String {
    let quotes = match outcome.reason {
        None => !outcome.message.is_empty(),
        Some(
            JobReason::StartFailed
            | JobReason::CloneFailed
            | JobReason::InjectFailed
            | JobReason::AdmissionDenied
            | JobReason::QuotaExceeded
            | JobReason::ApiserverUnavailable,
        ) => true,
        Some(_) => false,
    };
    if quotes { String::new() } else { outcome.message.clone() }
}

pub(super) fn image_of(plan: &Plan) -> String {
    match plan {
        Plan::Job(job) => job.image().reference.key(),
        Plan::Kubectl(_) | Plan::Handle(_) => String::new(),
    }
}

/// What is recorded of a call whose process died, once its Job is deleted.
pub(super) fn orphaned(orphan: &Orphan) -> OutcomeSummary {
    OutcomeSummary {
        status: OutcomeStatus::Abandoned,
        reason: Some("orphaned".to_owned()),
        exit_code: None,
        duration_ms: 0,
        output: None,
        artifacts: Vec::new(),
        job_uid: Some(orphan.uid().to_owned()),
        image_id: None,
        message: "its server died; its job was deleted by another".to_owned(),
    }
}
