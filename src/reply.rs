//! What a caller gets: one document for every transport and for the command line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::executor::{JobOutcome, ReadOutcome, ReadText};
use crate::ids::DecisionId;
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
            Self::Refused { .. } | Self::Unrecorded { .. } | Self::Broken { .. } => None,
        }
    }

    /// The result as text, where it is one: what a model reads.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Read { outcome, .. } => outcome.end.as_ref().ok().map(|read| read.output.as_str()),
            Self::Job { .. } | Self::Refused { .. } | Self::Unrecorded { .. } | Self::Broken { .. } => None,
        }
    }

    /// What to tell the caller when there is no result.
    #[must_use]
    pub fn error_text(&self) -> Option<String> {
        match self {
            Self::Job { .. } => None,
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
            Self::Job { .. } => None,
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

fn job_result(id: DecisionId, image: &str, outcome: &JobOutcome) -> Value {
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
