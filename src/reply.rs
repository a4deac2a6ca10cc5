//! What a caller gets: one document for every transport and for the command line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::executor::{Found, JobEnd, JobOutcome, NoRoom, ReadOutcome, ReadText};
use crate::ids::{DecisionId, JobToken};
use crate::refusal::Refusal;

/// The end of a call.
#[derive(Debug)]
pub enum Reply {
    /// Admitted: whatever became of the job, this is a normal result.
    Job {
        /// The call's id.
        id: DecisionId,
        /// The image that was asked to run, in normal form.
        image: String,
        /// How the job ended.
        outcome: JobOutcome,
    },
    /// Admitted: what was read, or why nothing was, which is an error that the caller can act on.
    Read {
        /// The call's id.
        id: DecisionId,
        /// How the read ended.
        outcome: ReadOutcome,
    },
    /// Admitted: the job runs in the background.
    Submitted {
        /// The call's id, and the job's.
        id: DecisionId,
        /// What leads back to the job.
        token: JobToken,
    },
    /// Admitted: what became of a job in the background.
    Handle {
        /// The call's id.
        id: DecisionId,
        /// What the token led to.
        found: Found,
    },
    /// Not admitted: nothing ran.
    Refused {
        /// The call's id.
        id: DecisionId,
        /// Why.
        refusal: Refusal,
    },
    /// It ran, but its end could not be recorded, so its result is withheld.
    Unrecorded {
        /// The call's id.
        id: DecisionId,
        /// What the audit log said.
        cause: String,
    },
    /// The program failed in the middle of the call.
    Broken {
        /// The call's id.
        id: DecisionId,
    },
}

impl Reply {
    /// The result document of an admitted job or read (by its tool's output schema), or `None` when there is
    /// none.
    #[must_use]
    pub fn result(&self) -> Option<Value> {
        match self {
            Self::Job { id, image, outcome } => Some(job_result(*id, image, outcome)),
            Self::Read { id, outcome } => {
                outcome.end.as_ref().ok().map(|read| read_result(*id, outcome, read))
            }
            Self::Submitted { id, token } => {
                Some(json!({ "job_token": token.reveal(), "status": "submitted", "decision_id": id }))
            }
            Self::Handle { id, found: Found::Running } => {
                Some(json!({ "status": "running", "decision_id": id }))
            }
            Self::Handle { id, found: Found::Ended(end) } => Some(ended(*id, end)),
            Self::Handle { .. } | Self::Refused { .. } | Self::Unrecorded { .. } | Self::Broken { .. } => {
                None
            }
        }
    }

    /// The result as text, where it is one: what a model reads.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Read { outcome, .. } => outcome.end.as_ref().ok().map(|read| read.output.as_str()),
            Self::Job { .. }
            | Self::Submitted { .. }
            | Self::Handle { .. }
            | Self::Refused { .. }
            | Self::Unrecorded { .. }
            | Self::Broken { .. } => None,
        }
    }

    /// What to tell the caller when there is no result.
    #[must_use]
    pub fn error_text(&self) -> Option<String> {
        match self {
            Self::Job { .. } | Self::Submitted { .. } => None,
            Self::Handle { id, found } => not_found(found)
                .map(|(code, message, hint)| format!("{message}\n- {hint} [{code}]\n(decision {id})")),
            Self::Read { id, outcome } => outcome.end.as_ref().err().map(|failure| {
                let hint = if failure.hint.is_empty() {
                    String::new()
                } else {
                    format!("\n  hint: {}", failure.hint)
                };
                let (message, code) = (&failure.message, failure.reason.as_str());
                format!("the read failed\n- {message} [{code}]{hint}\n(decision {id})")
            }),
            Self::Refused { id, refusal } => Some(format!("{refusal}\n(decision {id})")),
            Self::Unrecorded { id, cause } => Some(format!(
                "the call ran, but its outcome could not be recorded, so its result is withheld: {cause}\n\
                 (decision {id}; the operator has to mend the audit log before calls can run again)"
            )),
            Self::Broken { id } => Some(format!(
                "the gateway failed inside this call; it was stopped and its job is being deleted\n\
                 (decision {id}; the server's log has the cause)"
            )),
        }
    }

    /// The same as a document: `{decision_id, error: {...}}`, for programs.
    #[must_use]
    pub fn error_document(&self) -> Option<Value> {
        match self {
            Self::Job { .. } | Self::Submitted { .. } => None,
            Self::Handle { id, found } => not_found(found).map(|(code, message, hint)| {
                let reason = json!({ "code": code, "msg": message, "field": "/job_token", "hint": hint });
                json!({ "decision_id": id, "error": { "stage": "executor", "reasons": [reason] } })
            }),
            Self::Read { id, outcome } => outcome.end.as_ref().err().map(|failure| {
                let reason = json!({
                    "code": failure.reason.as_str(),
                    "msg": failure.message,
                    "field": "",
                    "hint": failure.hint,
                });
                json!({ "decision_id": id, "error": { "stage": "executor", "executed": true, "reasons": [reason] } })
            }),
            Self::Refused { id, refusal } => Some(
                json!({ "decision_id": id, "error": { "stage": refusal.stage, "reasons": refusal.reasons } }),
            ),
            Self::Unrecorded { id, .. } => Some(
                json!({ "decision_id": id, "error": { "stage": "audit", "executed": true, "reasons": [] } }),
            ),
            Self::Broken { id } => {
                Some(json!({ "decision_id": id, "error": { "stage": "internal", "reasons": [] } }))
            }
        }
    }
}

/// Why a token, or a new job, led to nothing: code, message, what to do.
fn not_found(found: &Found) -> Option<(&'static str, String, &'static str)> {
    match found {
        Found::Running | Found::Ended(_) => None,
        Found::Unknown => Some((
            "handles.unknown",
            "there is no job of this token for you: it is wrong, or the 60 minutes after the job's end are over, \
             or the server that ran the job has ended"
                .to_owned(),
            "submit the job again with submit_job",
        )),
        Found::Elsewhere => Some((
            "handles.elsewhere",
            "the job has ended, and its result is with another server of this instance".to_owned(),
            "submit it again; the operator can let servers share results with --results",
        )),
        Found::Unreachable(cause) => Some((
            "handles.unreachable",
            format!("the token is not known here, and the cluster cannot be asked: {cause}"),
            "fetch again later; a job that runs goes on",
        )),
        Found::NoRoom => Some(("handles.no_room", NoRoom.to_string(), "or use run_job and wait")),
    }
}

fn ended(id: DecisionId, end: &JobEnd) -> Value {
    let mut document = json!(end);
    if let Value::Object(members) = &mut document {
        members.insert("decision_id".to_owned(), json!(id));
    }
    document
}

fn read_result(id: DecisionId, outcome: &ReadOutcome, read: &ReadText) -> Value {
    let mut result = json!({
        "output": read.output,
        "truncated": read.omitted_characters > 0,
        "omitted_characters": read.omitted_characters,
        "replaced_characters": read.replaced_characters,
        "decision_id": id,
        "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
    });
    if let (Some(namespace), Value::Object(result)) = (&outcome.namespace, &mut result) {
        result.insert("namespace".to_owned(), json!(namespace));
    }
    result
}

/// A job's result by `run_job`'s output schema.
#[must_use]
pub fn job_result(id: DecisionId, image: &str, outcome: &JobOutcome) -> Value {
    let artifacts: Vec<Value> = outcome
        .artifacts
        .iter()
        .map(|artifact| {
            json!({
                "name": artifact.name,
                "size": artifact.content.len(),
                "content_b64": STANDARD.encode(&artifact.content),
            })
        })
        .collect();
    json!({
        "exit_code": outcome.exit_code,
        "stdout": outcome.output,
        "stderr": "",
        "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        "status": outcome.status.as_str(),
        "reason": outcome.reason.map(|reason| reason.as_str()).unwrap_or_default(),
        "retryable": outcome.retryable,
        "message": outcome.message,
        "artifacts": artifacts,
        "truncated": { "stdout": outcome.truncated.output, "stderr": false, "artifacts": outcome.truncated.artifacts },
        "omitted_bytes": outcome.omitted_bytes,
        "problems": outcome.problems.iter().map(|problem| problem.as_str()).collect::<Vec<_>>(),
        "image": image,
        "decision_id": id,
    })
}
