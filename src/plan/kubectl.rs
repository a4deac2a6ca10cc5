//! A read's plan: the exact kubectl argv.
//!
//! ```text
//! get --context=prod --namespace=dev --request-timeout=20s --cache-dir=/… --output=json -- pods
//! ```

mod argv;
mod field_selector;
mod fields;
mod kind;
mod label_selector;
mod name;

pub use name::{DnsLabel, NameError};

use crate::ids::DecisionId;
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::{Arguments, DescribeResource, ListEvents, ListPods, PodLogs};
use argv::{Argv, Flag};
use field_selector::FieldSelector;
use fields::{
    CONTAINER, FIELD_SELECTOR, FOR_NAME, NAME, NAMESPACE, SELECTOR, known_kind, optional, parsed,
    unknown_kind, within,
};
use kind::Resource;
use label_selector::LabelSelector;
pub(in crate::plan) use name::DnsSubdomain;

/// How many lines of a log, when the caller does not say.
const DEFAULT_TAIL_LINES: u64 = 100;
/// The most lines that a caller may ask for.
const MAX_TAIL_LINES: u64 = 2000;
/// A year: the longest that a caller may look back.
const MAX_SINCE_SECONDS: u64 = 31_536_000;
/// The most that a kubelet may send for one log, in bytes. It cuts the newest lines off, which are the ones
/// that are wanted, so this is a bound for broken cases: 2000 lines of 32 KiB fit.
const LOG_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

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

/// Group (empty for core) and plural of each resource that `describe_resource` may show.
#[must_use]
pub fn describable_resources() -> Vec<(&'static str, &'static str)> {
    let resources = kind::Kind::ALL.into_iter().filter_map(kind::Kind::describable);
    resources.map(|resource| (resource.group, resource.plural)).collect()
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
    id: DecisionId,
    arguments: &Arguments,
    settings: &KubectlSettings,
) -> Result<KubectlPlan, Refusal> {
    let mut reasons = Vec::new();
    if settings.context.is_empty() {
        // Without one kubectl would take whatever its configuration says at that moment.
        reasons.push(Reason::new(
            "kubectl.context",
            "no context is set for reads, and an unnamed cluster is not read",
            "",
            "nothing in the call is at fault; the operator has to name a context of the kubeconfig",
        ));
    }
    let read = match arguments {
        Arguments::ListPods(read) => list_pods(read, settings, &mut reasons),
        Arguments::PodLogs(read) => pod_logs(read, settings, &mut reasons),
        Arguments::DescribeResource(read) => describe_resource(read, settings, &mut reasons),
        Arguments::ListEvents(read) => list_events(read, settings, &mut reasons),
        Arguments::RunJob(_) | Arguments::SubmitJob(_) | Arguments::FetchJob(_) | Arguments::CancelJob(_) => {
            reasons.push(Reason::new(
                "plan.not_a_read",
                "a job is not a read",
                "",
                "report this: it is a mix-up",
            ));
            None
        }
    };
    let (Some(read), true) = (read, reasons.is_empty()) else {
        return Err(Refusal { stage: Stage::Plan, reasons });
    };
    let Read { verb, resource, namespace, argv: (flags, argv), presentation } = read;
    Ok(KubectlPlan {
        id,
        verb,
        resource: Some(resource.plural),
        group: resource.group,
        all_namespaces: namespace.is_none(),
        namespace: namespace.map(|name| name.to_string()),
        flags,
        argv,
        presentation,
    })
}

/// What the four tools have in common.
struct Read {
    verb: Verb,
    resource: Resource,
    /// `None` for all of them.
    namespace: Option<DnsLabel>,
    argv: (Vec<String>, Vec<String>),
    presentation: Presentation,
}

fn list_pods(read: &ListPods, settings: &KubectlSettings, reasons: &mut Vec<Reason>) -> Option<Read> {
    let namespace: Option<Option<DnsLabel>> = optional(read.namespace.as_deref(), &NAMESPACE, reasons);
    let selector: Option<Option<LabelSelector>> = optional(read.selector.as_deref(), &SELECTOR, reasons);
    let field_selector: Option<Option<FieldSelector>> =
        optional(read.field_selector.as_deref(), &FIELD_SELECTOR, reasons);
    let (namespace, selector, field_selector) = (namespace?, selector?, field_selector?);
    let argv = Argv::new(Verb::Get, namespace.as_ref().map(DnsLabel::as_str), settings)
        .with(Flag::Output, "json")
        .with_some(Flag::Selector, selector.map(|selector| selector.to_string()).as_deref())
        .with_some(Flag::FieldSelector, field_selector.map(|selector| selector.to_string()).as_deref())
        .ending([Resource::PODS.word()]);
    let (verb, resource, presentation) = (Verb::Get, Resource::PODS, Presentation::Pods);
    Some(Read { verb, resource, namespace, argv, presentation })
}

fn list_events(read: &ListEvents, settings: &KubectlSettings, reasons: &mut Vec<Reason>) -> Option<Read> {
    let namespace: Option<Option<DnsLabel>> = optional(read.namespace.as_deref(), &NAMESPACE, reasons);
    let for_kind = read.for_kind.as_deref().map(|kind| known_kind(kind, "/for_kind", reasons));
    let for_name: Option<Option<DnsSubdomain>> = optional(read.for_name.as_deref(), &FOR_NAME, reasons);
    let (namespace, for_name) = (namespace?, for_name?);
    let mut terms = Vec::new();
    if read.warnings_only {
        terms.push("type=Warning".to_owned());
    }
    if let Some(kind) = for_kind {
        terms.push(format!("involvedObject.kind={}", kind?.as_str()));
    }
    if let Some(name) = for_name {
        terms.push(format!("involvedObject.name={name}"));
    }
    let terms = (!terms.is_empty()).then(|| terms.join(","));
    let argv = Argv::new(Verb::Get, namespace.as_ref().map(DnsLabel::as_str), settings)
        .with(Flag::Output, "json")
        .with_some(Flag::FieldSelector, terms.as_deref())
        .ending([Resource::EVENTS.word()]);
    let (verb, resource, presentation) = (Verb::Get, Resource::EVENTS, Presentation::Events);
    Some(Read { verb, resource, namespace, argv, presentation })
}

fn describe_resource(
    read: &DescribeResource,
    settings: &KubectlSettings,
    reasons: &mut Vec<Reason>,
) -> Option<Read> {
    let namespace: Option<DnsLabel> = parsed(&read.namespace, &NAMESPACE, reasons);
    let name: Option<DnsSubdomain> = parsed(&read.name, &NAME, reasons);
    let resource = known_kind(&read.kind, "/kind", reasons).and_then(|kind| {
        let resource = kind.describable();
        if resource.is_none() {
            reasons.push(unknown_kind(&read.kind, "/kind"));
        }
        resource
    });
    let (namespace, name, resource) = (namespace?, name?, resource?);
    let argv = Argv::new(Verb::Describe, Some(namespace.as_str()), settings)
        .with(Flag::ShowEvents, "true")
        .ending([resource.word(), name.to_string()]);
    let (verb, presentation) = (Verb::Describe, Presentation::Describe);
    Some(Read { verb, resource, namespace: Some(namespace), argv, presentation })
}

fn pod_logs(read: &PodLogs, settings: &KubectlSettings, reasons: &mut Vec<Reason>) -> Option<Read> {
    let namespace: Option<DnsLabel> = parsed(&read.namespace, &NAMESPACE, reasons);
    let name: Option<DnsSubdomain> = parsed(&read.name, &NAME, reasons);
    let container: Option<Option<DnsLabel>> = optional(read.container.as_deref(), &CONTAINER, reasons);
    let tail = read.tail_lines.unwrap_or(DEFAULT_TAIL_LINES);
    within(tail, MAX_TAIL_LINES, "tail_lines", reasons);
    if let Some(seconds) = read.since_seconds {
        within(seconds, MAX_SINCE_SECONDS, "since_seconds", reasons);
    }
    let (namespace, name, container) = (namespace?, name?, container?);
    let argv = Argv::new(Verb::Logs, Some(namespace.as_str()), settings)
        .with_some(Flag::Container, container.as_ref().map(DnsLabel::as_str))
        .with(Flag::Tail, &tail.to_string())
        .with(Flag::LimitBytes, &LOG_LIMIT_BYTES.to_string())
        .with_some(Flag::Previous, read.previous.then_some("true"))
        .with_some(Flag::Since, read.since_seconds.map(|seconds| format!("{seconds}s")).as_deref())
        .ending([name.to_string()]);
    let (verb, resource, presentation) = (Verb::Logs, Resource::PODS, Presentation::Logs);
    Some(Read { verb, resource, namespace: Some(namespace), argv, presentation })
}

#[cfg(test)]
mod tests;
