//! The fields that Kubernetes fills in when a Job is created.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::{Container, PodSecurityContext, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use uuid::Uuid;

use crate::embedded::names;

/// Fills in what the caller left out, and overwrites what is not the caller's to say.
pub fn fill(job: &mut Job) {
    let meta = &mut job.metadata;
    if meta.name.as_deref().unwrap_or_default().is_empty()
        && let Some(base) = meta.generate_name.as_deref().filter(|base| !base.is_empty())
    {
        meta.name = Some(names::generate(base));
    }
    let uid = Uuid::new_v4().to_string();
    meta.uid = Some(uid.clone());
    meta.generation = Some(1);
    meta.resource_version = None;
    meta.creation_timestamp = None;
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    let name = meta.name.clone().unwrap_or_default();
    job.status = Some(JobStatus::default());
    let spec = job.spec.get_or_insert_default();
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    spec.parallelism.get_or_insert(1);
    spec.backoff_limit.get_or_insert(6);
    spec.completion_mode.get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    spec.manual_selector.get_or_insert(false);
    spec.pod_replacement_policy.get_or_insert_with(|| "TerminatingOrFailed".to_owned());
    let template = spec.template.metadata.get_or_insert_default();
    if meta.labels.as_ref().is_none_or(BTreeMap::is_empty) && template.labels.is_some() {
        meta.labels.clone_from(&template.labels);
    }
    if spec.manual_selector == Some(false) {
        let labels = template.labels.get_or_insert_default();
        for (key, value) in [("controller-uid", &uid), ("job-name", &name)] {
            labels.insert(key.to_owned(), value.clone());
            labels.insert(format!("batch.kubernetes.io/{key}"), value.clone());
        }
        // A selector of the caller's stays for validation to refuse.
        spec.selector.get_or_insert_with(|| LabelSelector {
            match_labels: Some(BTreeMap::from([("batch.kubernetes.io/controller-uid".to_owned(), uid)])),
            match_expressions: None,
        });
    }
    fill_pod(spec.template.spec.get_or_insert_default());
}

fn fill_pod(spec: &mut PodSpec) {
    spec.restart_policy.get_or_insert_with(|| "Always".to_owned());
    spec.dns_policy.get_or_insert_with(|| "ClusterFirst".to_owned());
    spec.scheduler_name.get_or_insert_with(|| "default-scheduler".to_owned());
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.security_context.get_or_insert_with(PodSecurityContext::default);
    if let Some(account) = &spec.service_account_name {
        spec.service_account = Some(account.clone());
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        fill_container(container);
    }
}

fn fill_container(container: &mut Container) {
    container.termination_message_path.get_or_insert_with(|| "/dev/termination-log".to_owned());
    container.termination_message_policy.get_or_insert_with(|| "File".to_owned());
    container.resources.get_or_insert_with(ResourceRequirements::default);
    let image = container.image.as_deref().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let moving = !image.contains('@') && (!last.contains(':') || last.ends_with(":latest"));
    let policy = if moving { "Always" } else { "IfNotPresent" };
    container.image_pull_policy.get_or_insert_with(|| policy.to_owned());
}
