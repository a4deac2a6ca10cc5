//! The plans of `fetch_job` and `cancel_job`: which job in the background, and what is wanted of it.

use std::time::Duration;

use crate::ids::{DecisionId, HandleKey};
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::ToolCall;

/// The longest that `fetch_job` waits: more is clamped, as by the reference server.
pub const MOST_WAIT: Duration = Duration::from_secs(120);

/// A look at a job in the background, or its end, that may be judged.
///
/// INVARIANT (plan): made in this module only, and never changed afterwards.
#[derive(Debug)]
pub struct HandlePlan {
    id: DecisionId,
    key: HandleKey,
    operation: Operation,
}

/// What is wanted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Its state, after waiting at most so long for its end.
    Fetch {
        /// At most [`MOST_WAIT`].
        wait: Duration,
    },
    /// Its end, now.
    Cancel,
}

impl HandlePlan {
    /// The decision that this plan belongs to.
    #[must_use]
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// Which job, and whose.
    #[must_use]
    pub fn key(&self) -> &HandleKey {
        &self.key
    }

    /// What is wanted of it.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }
}

impl Operation {
    /// The name in the policy's input and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fetch { .. } => "fetch",
            Self::Cancel => "cancel",
        }
    }

    /// How long the call waits, in whole seconds.
    #[must_use]
    pub fn wait_s(self) -> u64 {
        match self {
            Self::Fetch { wait } => wait.as_secs(),
            Self::Cancel => 0,
        }
    }
}

pub(super) fn fetch(call: &ToolCall, wait_s: u64) -> Result<HandlePlan, Refusal> {
    let wait = Duration::from_secs(wait_s).min(MOST_WAIT);
    Ok(HandlePlan { id: call.id(), key: key(call)?, operation: Operation::Fetch { wait } })
}

pub(super) fn cancel(call: &ToolCall) -> Result<HandlePlan, Refusal> {
    Ok(HandlePlan { id: call.id(), key: key(call)?, operation: Operation::Cancel })
}

/// A job in the background is somebody's: without a caller there is no plan.
pub(super) fn key(call: &ToolCall) -> Result<HandleKey, Refusal> {
    call.handle().ok_or_else(|| {
        let text = "the call does not say whose job it is about";
        Refusal::because(Stage::Plan, Reason::new("plan.owner", text, "", "report this: a call has a caller"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::ProcessId;
    use crate::schema::{Catalogue, Origin};

    fn call(tool: &str, arguments: serde_json::Value) -> ToolCall {
        Catalogue::load().unwrap().admit(DecisionId::mint(), tool, arguments).unwrap()
    }

    fn origin(owner: &str) -> Origin {
        Origin { owner: owner.to_owned(), process: ProcessId::mint() }
    }

    #[test]
    fn a_wait_is_clamped_and_a_key_is_its_callers() {
        let token = "job-0123456789abcdef0123456789abcdef";
        // The reference server: 0 by default, above 120 means 120.
        for (asked, held) in [(0, 0), (119, 119), (120, 120), (121, 120), (2_147_483_647, 120)] {
            let call = call("fetch_job", json!({ "job_token": token, "wait_s": asked })).from(origin("a"));
            assert_eq!(fetch(&call, asked).unwrap().operation().wait_s(), held);
        }
        let arguments = json!({ "job_token": token });
        assert_eq!(cancel(&call("cancel_job", arguments.clone())).unwrap_err().reasons[0].code, "plan.owner");
        let [a, b] = ["a", "b"].map(|owner| {
            cancel(&call("cancel_job", arguments.clone()).from(origin(owner))).unwrap().key().clone()
        });
        assert_eq!(a.token(), b.token());
        assert_ne!(a, b);
    }
}
