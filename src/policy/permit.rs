//! Evidence that the policy allowed a plan.

use crate::plan::Plan;
use crate::policy::Decision;

/// A plan that the policy allowed. The executor accepts nothing else.
///
/// INVARIANT (permit): fields are private, it is not `Clone`, and only policy/ makes one, from a decision
/// that allows. It holds the plan by value: what was judged is what runs.
#[derive(Debug)]
pub struct Permit {
    plan: Plan,
    decision: Decision,
}

/// The end of the policy stage.
#[derive(Debug)]
pub enum Verdict {
    /// The plan may run.
    Allow(Permit),
    /// The plan may not run. It is handed back for the record.
    Deny {
        /// What was judged.
        plan: Plan,
        /// The decision, with at least one entry in `deny`.
        decision: Decision,
    },
}

impl Permit {
    /// What may run.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The decision that allowed it.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Gives the plan up to be carried out, once.
    #[must_use]
    pub fn into_plan(self) -> Plan {
        self.plan
    }
}

impl Verdict {
    /// Pairs a plan with its decision.
    pub(in crate::policy) fn new(plan: Plan, decision: Decision) -> Self {
        if decision.allow && decision.deny.is_empty() {
            Self::Allow(Permit { plan, decision })
        } else {
            Self::Deny { plan, decision }
        }
    }
}
