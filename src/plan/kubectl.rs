//! A read's plan: the exact kubectl argv.

use crate::ids::DecisionId;
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::Arguments;

/// What the operator configured for every read.
#[derive(Debug, Clone)]
pub struct KubectlSettings {
    /// The context of the kubeconfig, on every command.
    pub context: String,
    /// kubectl's discovery cache: a private directory.
    pub cache_dir: String,
    /// `--request-timeout`, in seconds.
    pub request_timeout_s: u64,
}

/// A read that may be judged: the argv is byte for byte what runs.
///
/// INVARIANT (plan): made in this module only, and never changed afterwards.
#[derive(Debug)]
pub struct KubectlPlan {
    id: DecisionId,
    verb: Verb,
    resource: Option<&'static str>,
    group: &'static str,
    namespace: Option<String>,
    all_namespaces: bool,
    flags: Vec<String>,
    argv: Vec<String>,
    presentation: Presentation,
}

/// The verbs that exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `kubectl get`
    Get,
    /// `kubectl describe`
    Describe,
    /// `kubectl logs`
    Logs,
}

/// How a read's output becomes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// A list of pods in JSON becomes a table.
    Pods,
    /// A list of events in JSON becomes a table, newest first, cut at its end.
    Events,
    /// Lines; the newest are kept.
    Logs,
    /// Text; the Events at its end are kept.
    Describe,
}

impl KubectlPlan {
    /// The decision that this plan belongs to.
    #[must_use]
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// The verb.
    #[must_use]
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The resource's plural name, when the verb takes one.
    #[must_use]
    pub fn resource(&self) -> Option<&'static str> {
        self.resource
    }

    /// The resource's API group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The effective namespace; `None` for a read of all namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether every namespace is read.
    #[must_use]
    pub fn all_namespaces(&self) -> bool {
        self.all_namespaces
    }

    /// The flags in canonical form without their values (`--namespace`).
    #[must_use]
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// The argv behind the program's path: what is judged and what is executed.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// How the output becomes the result.
    #[must_use]
    pub fn presentation(&self) -> Presentation {
        self.presentation
    }
}

impl Verb {
    /// As kubectl spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Describe => "describe",
            Self::Logs => "logs",
        }
    }
}

/// Makes the plan of a read.
pub(super) fn plan(
    _id: DecisionId,
    _arguments: &Arguments,
    _settings: &KubectlSettings,
) -> Result<KubectlPlan, Refusal> {
    Err(Refusal::because(Stage::Plan, Reason::new("stub", "", "", "")))
}
