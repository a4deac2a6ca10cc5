//! Why a call was not admitted: one shape for every stage, so that an agent can correct itself.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most characters of each part of a reason: it may quote what a caller sent, and must stay a reason.
const MOST_CHARS: usize = 1000;

/// One reason, in the shape of the policy's `deny` entries (`schemas/decision.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Stable and machine-readable, `concern.rule`: `images.not_listed`.
    pub code: String,
    /// What is wrong, for a reader.
    #[serde(rename = "msg")]
    pub message: String,
    /// A JSON pointer into the call's arguments (`/files/0/path`), or empty where no field is to blame.
    pub field: String,
    /// What to change; empty where nothing can be.
    pub hint: String,
}

impl Reason {
    /// A reason from its four parts.
    pub fn new(
        code: impl Into<String>,
        message: impl Into<String>,
        field: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let bounded = |text: String| match text.char_indices().nth(MOST_CHARS) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        };
        Self {
            code: code.into(),
            message: bounded(message.into()),
            field: bounded(field.into()),
            hint: bounded(hint.into()),
        }
    }
}

/// The stage that refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The arguments do not fit the tool's JSON Schema.
    Schema,
    /// The arguments fit the schema but cannot be made into a plan.
    Plan,
    /// The policy denied the plan.
    Policy,
    /// The policy allowed the plan, but no place came free for it.
    Limits,
    /// The call could not be recorded.
    Audit,
    /// The server takes no calls now.
    Server,
}

/// A call that was not admitted: nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The stage that refused.
    pub stage: Stage,
    /// At least one reason.
    pub reasons: Vec<Reason>,
}

impl Refusal {
    /// A refusal for one reason.
    #[must_use]
    pub fn because(stage: Stage, reason: Reason) -> Self {
        Self { stage, reasons: vec![reason] }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.stage {
            Stage::Schema => "the arguments are invalid",
            Stage::Plan => "the arguments cannot be carried out",
            Stage::Policy => "refused by policy",
            Stage::Limits => "too much is running",
            Stage::Audit => "not recorded, therefore not run",
            Stage::Server => "not now",
        };
        f.write_str(by)?;
        for reason in &self.reasons {
            write!(f, "\n- {} [{}]", reason.message, reason.code)?;
            if !reason.field.is_empty() {
                write!(f, "\n  field: {}", reason.field)?;
            }
            if !reason.hint.is_empty() {
                write!(f, "\n  hint: {}", reason.hint)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
