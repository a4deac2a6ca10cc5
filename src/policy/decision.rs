//! The decision document: `data.kubepermit.decision`, shaped as `schemas/decision.json`.

use std::time::Duration;

use regorus::Value;
use serde::Deserialize;

use crate::policy::evaluate::Failure;
use crate::refusal::Reason;

/// What the policy said of one plan.
#[derive(Debug, Clone)]
pub struct Decision {
    /// True only when the policy's `allow` is exactly true and `deny` is empty.
    pub allow: bool,
    /// Why not; empty when allowed.
    pub deny: Vec<Reason>,
    /// What a reader should know although it is allowed.
    pub warn: Vec<Reason>,
    /// SHA-256 over the bundle that decided, in hexadecimal.
    pub revision: String,
    /// How long the evaluation took.
    pub took: Duration,
}

/// The value of the rule, exactly.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    allow: bool,
    deny: Vec<Reason>,
    warn: Vec<Reason>,
}

impl Decision {
    /// Reads an evaluation's end. Whatever is not an allowing decision of the right shape denies, and a
    /// decision that denies always says why.
    pub(in crate::policy) fn new(value: Result<Value, Failure>, revision: String, took: Duration) -> Self {
        match value.and_then(|value| document(&value)) {
            Ok(Document { allow, deny, warn }) => Self { allow, deny, warn, revision, took },
            Err(failure) => {
                Self { allow: false, deny: vec![failure.reason()], warn: Vec::new(), revision, took }
            }
        }
    }
}

fn document(value: &Value) -> Result<Document, Failure> {
    // A set reads as a list too; the decision's schema says list.
    for list in ["deny", "warn"] {
        let field = value.as_object().ok().and_then(|object| object.get(&Value::from(list)));
        if !matches!(field, Some(Value::Array(_))) {
            return Err(Failure::Shape(format!("`{list}` is not an array")));
        }
    }
    let json = serde_json::to_value(value).map_err(shape)?;
    let document: Document = serde_json::from_value(json).map_err(shape)?;
    if document.allow {
        // With an entry in `deny`, the entry counts.
        return Ok(Document { allow: document.deny.is_empty(), ..document });
    }
    if document.deny.is_empty() {
        return Err(Failure::Shape("it denies without a reason".to_owned()));
    }
    Ok(document)
}

fn shape(error: serde_json::Error) -> Failure {
    Failure::Shape(error.to_string())
}
