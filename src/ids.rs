//! Identifiers that kubepermit mints.

use std::fmt;

use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Names one `tools/call` from its arrival to its reply: in the policy's input, in both audit records, in
/// the result, and in the Job's name and labels.
///
/// "Decision id" is OPA's term. A UUID of version 7, so that ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(Uuid);

impl DecisionId {
    /// A fresh id.
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id as 32 hexadecimal digits: fit for a Kubernetes object name.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DecisionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
