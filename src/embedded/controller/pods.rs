//! A Job's pods: made from its template, recognised by their owner.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::embedded::kubelet::status::qos_class;
use crate::embedded::names;

/// The priority classes that every cluster has.
const PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// The Job that a pod belongs to.
#[must_use]
pub fn owner(pod: &Pod) -> Option<&OwnerReference> {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == "Job" && owner.controller == Some(true))
}

/// A new pod of the Job.
///
/// # Errors
/// What admission says about a pod that it refuses.
pub fn from_template(job: &Job) -> Result<Pod, String> {
    let meta = &job.metadata;
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let base = format!("{}-", meta.name.as_deref().unwrap_or_default());
    let name = names::generate(&base);
    let mut spec = template.spec.unwrap_or_default();
    if let Some(class) = spec.priority_class_name.as_deref().filter(|class| !class.is_empty())
        && !PRIORITY_CLASSES.contains(&class)
    {
        return Err(format!("pods {name:?} is forbidden: no PriorityClass with name {class} was found"));
    }
    if let Some(class) = &spec.runtime_class_name {
        return Err(format!("pods {name:?} is forbidden: pod rejected: RuntimeClass {class:?} not found"));
    }
    spec.priority.get_or_insert(0);
    spec.preemption_policy.get_or_insert_with(|| "PreemptLowerPriority".to_owned());
    spec.enable_service_links.get_or_insert(true);
    spec.service_account_name.get_or_insert_with(|| "default".to_owned());
    spec.service_account.clone_from(&spec.service_account_name);
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()).for_each(request_limits);
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    let annotations = template.metadata.and_then(|meta| meta.annotations);
    let qos_class = Some(qos_class(&spec).to_owned());
    Ok(Pod {
        metadata: ObjectMeta {
            name: Some(name),
            generate_name: Some(base),
            namespace: meta.namespace.clone(),
            labels,
            annotations,
            owner_references: Some(vec![OwnerReference {
                api_version: "batch/v1".to_owned(),
                kind: "Job".to_owned(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: Some(PodStatus { phase: Some("Pending".to_owned()), qos_class, ..PodStatus::default() }),
    })
}

/// A container that limits a resource and requests none of it requests its limit.
fn request_limits(container: &mut Container) {
    let Some(resources) = &mut container.resources else {
        return;
    };
    let Some(limits) = resources.limits.clone() else {
        return;
    };
    let requests = resources.requests.get_or_insert_with(BTreeMap::new);
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}
