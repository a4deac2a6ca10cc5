//! What the API server refuses about a Job, in its words.

mod containers;
mod names;

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{PodSecurityContext, PodSpec, Volume};

use super::super::status::Cause;
use containers::containers;
use names::{annotations, is_label, is_subdomain, label_value, labels};

/// What is wrong with a Job whose defaults are filled in. Empty when nothing is.
#[must_use]
pub fn job(job: &Job) -> Vec<Cause> {
    let mut causes = Causes::default();
    let meta = &job.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        causes.required("metadata.name", "name or generateName is required");
    } else if !is_subdomain(name) {
        causes.invalid("metadata.name", name, names::SUBDOMAIN);
    }
    labels(&mut causes, "metadata.labels", meta.labels.as_ref());
    annotations(&mut causes, "metadata.annotations", meta.annotations.as_ref());
    if let Some(spec) = &job.spec {
        job_spec(&mut causes, spec, name);
        let template = spec.template.metadata.clone().unwrap_or_default();
        annotations(&mut causes, "spec.template.annotations", template.annotations.as_ref());
        // The Job's name becomes a label of its pods, so that this is how a long name is refused.
        labels(&mut causes, "spec.template.labels", template.labels.as_ref());
        pod_spec(&mut causes, &spec.template.spec.clone().unwrap_or_default());
    }
    causes.list
}

/// Collects what is wrong.
#[derive(Debug, Default)]
struct Causes {
    list: Vec<Cause>,
}

impl Causes {
    fn invalid(&mut self, field: &str, value: &str, why: &str) {
        self.push("FieldValueInvalid", field, format!("Invalid value: {value:?}: {why}"));
    }

    fn number(&mut self, field: &str, value: i64, why: &str) {
        self.push("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"));
    }

    fn required(&mut self, field: &str, why: &str) {
        let message =
            if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        self.push("FieldValueRequired", field, message);
    }

    fn unsupported(&mut self, field: &str, value: &str, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let message = format!("Unsupported value: {value:?}: supported values: {}", list.join(", "));
        self.push("FieldValueNotSupported", field, message);
    }

    fn duplicate(&mut self, field: &str, value: &str) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {value:?}"));
    }

    fn not_found(&mut self, field: &str, value: &str) {
        self.push("FieldValueNotFound", field, format!("Not found: {value:?}"));
    }

    fn not_negative(&mut self, field: &str, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.number(field, value, "must be greater than or equal to 0");
        }
    }

    /// A user or group id.
    fn id(&mut self, field: &str, value: Option<i64>) {
        if let Some(value) = value.filter(|value| !(0..=i64::from(i32::MAX)).contains(value)) {
            self.number(field, value, "must be between 0 and 2147483647, inclusive");
        }
    }

    fn push(&mut self, reason: &'static str, field: &str, message: String) {
        self.list.push(Cause { reason, field: field.to_owned(), message });
    }
}

fn job_spec(causes: &mut Causes, spec: &JobSpec, name: &str) {
    causes.not_negative("spec.parallelism", spec.parallelism.map(i64::from));
    causes.not_negative("spec.completions", spec.completions.map(i64::from));
    causes.not_negative("spec.backoffLimit", spec.backoff_limit.map(i64::from));
    causes.not_negative("spec.activeDeadlineSeconds", spec.active_deadline_seconds);
    causes.not_negative("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from));
    if let Some(policy) = spec.pod_replacement_policy.as_deref()
        && !["Failed", "TerminatingOrFailed"].contains(&policy)
    {
        causes.unsupported("spec.podReplacementPolicy", policy, &["Failed", "TerminatingOrFailed"]);
    }
    if let Some(mode) = spec.completion_mode.as_deref().filter(|mode| *mode != "NonIndexed") {
        causes.unsupported("spec.completionMode", mode, &["NonIndexed"]);
    }
    let own = spec.template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
    let wanted = spec.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
    let fits = wanted.is_some_and(|wanted| {
        wanted.iter().all(|(key, value)| own.is_some_and(|labels| labels.get(key) == Some(value)))
    });
    if spec.manual_selector == Some(false) && !fits {
        causes.invalid("spec.selector", name, "`selector` not auto-generated");
    } else if !fits {
        causes.invalid("spec.template.metadata.labels", name, "`selector` does not match template `labels`");
    }
}

fn pod_spec(causes: &mut Causes, spec: &PodSpec) {
    const PATH: &str = "spec.template.spec";
    let field = |name: &str| format!("{PATH}.{name}");
    match spec.restart_policy.as_deref() {
        // Restarting in place is left out: the gateway's Jobs never do.
        Some("Never") => {}
        other => {
            causes.unsupported(&field("restartPolicy"), other.unwrap_or_default(), &["OnFailure", "Never"])
        }
    }
    causes.not_negative(&field("terminationGracePeriodSeconds"), spec.termination_grace_period_seconds);
    if let Some(seconds) =
        spec.active_deadline_seconds.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds))
    {
        causes.number(
            &field("activeDeadlineSeconds"),
            seconds,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    if let Some(account) =
        spec.service_account_name.as_deref().filter(|name| !name.is_empty() && !is_subdomain(name))
    {
        causes.invalid(&field("serviceAccountName"), account, names::SUBDOMAIN);
    }
    for (key, value) in spec.node_selector.iter().flatten() {
        label_value(causes, &field("nodeSelector"), key, value);
    }
    if let Some(context) = &spec.security_context {
        security_context(causes, &field("securityContext"), context);
    }
    let volumes = volumes(causes, &field("volumes"), spec.volumes.as_deref().unwrap_or_default());
    if spec.containers.is_empty() {
        causes.required(&field("containers"), "");
    }
    let mut names = BTreeSet::new();
    containers(
        causes,
        &field("initContainers"),
        spec.init_containers.as_deref().unwrap_or_default(),
        &volumes,
        &mut names,
    );
    containers(causes, &field("containers"), &spec.containers, &volumes, &mut names);
}

fn security_context(causes: &mut Causes, field: &str, context: &PodSecurityContext) {
    causes.id(&format!("{field}.runAsUser"), context.run_as_user);
    causes.id(&format!("{field}.runAsGroup"), context.run_as_group);
    causes.id(&format!("{field}.fsGroup"), context.fs_group);
    let policies = ["OnRootMismatch", "Always"];
    if let Some(policy) =
        context.fs_group_change_policy.as_deref().filter(|policy| !policies.contains(policy))
    {
        causes.unsupported(&format!("{field}.fsGroupChangePolicy"), policy, &policies);
    }
    if let Some(profile) = &context.seccomp_profile {
        seccomp(causes, &format!("{field}.seccompProfile"), &profile.type_);
    }
}

fn seccomp(causes: &mut Causes, field: &str, kind: &str) {
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    if !kinds.contains(&kind) {
        causes.unsupported(&format!("{field}.type"), kind, &kinds);
    }
}

/// Returns the volumes' names.
fn volumes<'a>(causes: &mut Causes, field: &str, volumes: &'a [Volume]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let own = format!("{field}[{index}].name");
        if !is_label(&volume.name) {
            causes.invalid(&own, &volume.name, names::LABEL);
        } else if !names.insert(volume.name.as_str()) {
            causes.duplicate(&own, &volume.name);
        }
        let medium = volume.empty_dir.as_ref().and_then(|dir| dir.medium.as_deref()).unwrap_or_default();
        if !matches!(medium, "" | "Memory") && !medium.starts_with("HugePages") {
            causes.unsupported(&format!("{field}[{index}].emptyDir.medium"), medium, &["", "Memory"]);
        }
    }
    names
}
