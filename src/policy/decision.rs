//! The decision document: `data.kubepermit.decision`, shaped as `schemas/decision.json`.

use std::time::Duration;

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
