//! The stages that touch nothing: schema, plan and policy. A call that passes them may run.

use std::sync::Arc;

use jiff::Timestamp;

use crate::caller::Caller;
use crate::ids::{DecisionId, ProcessId};
use crate::pipeline::Request;
use crate::plan::{self, Plan, Settings};
use crate::policy::{Decision, Policy, Question, Verdict};
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::{Catalogue, Origin, ToolCall};

/// The schema, plan and policy stages.
pub struct Judge {
    catalogue: Catalogue,
    settings: Settings,
    policy: Arc<Policy>,
    process: ProcessId,
}

/// What a call would do.
#[derive(Debug)]
pub struct Preview {
    /// The call's id, which the manifest holds.
    pub id: DecisionId,
    /// The plan that was judged, unless the call did not get so far.
    pub plan: Option<Plan>,
    /// The decision, unless the call did not get so far.
    pub decision: Option<Decision>,
    /// Why it would not run.
    pub refusal: Option<Refusal>,
}

impl Judge {
    /// Joins the stages.
    #[must_use]
    pub fn new(catalogue: Catalogue, settings: Settings, policy: Arc<Policy>) -> Self {
        Self { catalogue, settings, policy, process: ProcessId::mint() }
    }

    /// The tools.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// This process, as its Jobs name it.
    #[must_use]
    pub fn process(&self) -> &ProcessId {
        &self.process
    }

    /// The images that a caller with these roles may use now, as a person would write them.
    #[must_use]
    pub fn images(&self, roles: &[String]) -> Vec<String> {
        self.policy.images_for(roles).listing()
    }

    /// The namespaces that a caller with these roles may read now; one star for every namespace.
    #[must_use]
    pub fn readable_namespaces(&self, roles: &[String]) -> Vec<String> {
        self.policy.readable_namespaces(roles)
    }

    /// How many jobs a caller with these roles may have at once, where the policy's data bounds it.
    #[must_use]
    pub fn jobs_per_caller(&self, roles: &[String]) -> Option<usize> {
        self.policy.jobs_per_caller(roles)
    }

    /// Judges a call without recording or running it.
    pub async fn preview(&self, request: &Request) -> Preview {
        let id = DecisionId::mint();
        let planned = self.admit(id, request).and_then(|call| {
            let plan = self.plan(&call, &request.caller)?;
            Ok((call, plan))
        });
        let judged = match planned {
            Ok((call, plan)) => self.judge(&request.caller, &call, plan).await,
            Err(refusal) => Err(refusal),
        };
        match judged {
            Ok(Verdict::Allow(permit)) => {
                let decision = permit.decision().clone();
                Preview { id, plan: Some(permit.into_plan()), decision: Some(decision), refusal: None }
            }
            Ok(Verdict::Deny { plan, decision }) => {
                let refusal = Refusal { stage: Stage::Policy, reasons: decision.deny.clone() };
                Preview { id, plan: Some(plan), decision: Some(decision), refusal: Some(refusal) }
            }
            Err(refusal) => Preview { id, plan: None, decision: None, refusal: Some(refusal) },
        }
    }

    pub(super) fn admit(&self, id: DecisionId, request: &Request) -> Result<ToolCall, Refusal> {
        if let Some(fault) = &request.fault {
            return Err(Refusal::because(Stage::Schema, fault.clone()));
        }
        let call = self.catalogue.admit(id, &request.tool, request.arguments.clone())?;
        Ok(call.from(Origin { owner: request.caller.digest(), process: self.process.clone() }))
    }

    pub(super) fn plan(&self, call: &ToolCall, caller: &Caller) -> Result<Plan, Refusal> {
        plan::plan(call, &self.settings, self.policy.rights_for(caller.roles()))
    }

    /// The evaluation is computation, so it runs off the reactor.
    pub(super) async fn judge(
        &self,
        caller: &Caller,
        call: &ToolCall,
        plan: Plan,
    ) -> Result<Verdict, Refusal> {
        let policy = Arc::clone(&self.policy);
        let (caller, call) = (caller.clone(), call.clone());
        let judged = tokio::task::spawn_blocking(move || {
            policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::now() })
        });
        judged.await.map_err(|error| {
            tracing::error!(%error, "the policy stage ended in the middle");
            Refusal::because(
                Stage::Policy,
                Reason::new("policy.panic", "the policy stage failed", "", "the server's log has the cause"),
            )
        })
    }
}
