//! The containers of a job's pod.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Capabilities, Container, EnvVar, ResourceRequirements, SecurityContext};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::plan::PodProfile;
use crate::plan::manifest::{DONE_FILE, HELPER, INJECT, MAIN, Parts, READY_FILE, cloner, volumes};
use crate::plan::process::literal;
use crate::plan::quantity::{cpu_quantity, memory_quantity};

/// What the helper containers ask of the node: a waiting shell.
const HELPER_REQUESTS: [(&str, &str); 3] = [("cpu", "10m"), ("memory", "16Mi"), ("ephemeral-storage", "1Mi")];
/// What they may use: tar and sha256sum stream, so memory does not grow with the files; the cpu is what
/// moving 10 MiB within a second takes.
const HELPER_LIMITS: [(&str, &str); 3] = [("cpu", "500m"), ("memory", "64Mi"), ("ephemeral-storage", "64Mi")];

/// The caller's command.
pub(super) fn main(parts: &Parts<'_>) -> Container {
    Container {
        name: MAIN.to_owned(),
        image: Some(parts.image.key()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(parts.command.iter().map(|argument| literal(argument)).collect()),
        working_dir: Some(parts.workdir.to_owned()),
        env: Some(env(parts)),
        resources: Some(main_resources(parts)),
        security_context: Some(security_context(match parts.settings.profile {
            PodProfile::Restricted => Some(true),
            PodProfile::Compat => None,
        })),
        volume_mounts: Some(volumes::main_mounts(parts)),
        ..Container::default()
    }
}

/// Waits until the input files are in place.
pub(super) fn inject(parts: &Parts<'_>) -> Container {
    waiting(parts, INJECT, READY_FILE)
}

/// Waits until the artifacts are read.
pub(super) fn helper(parts: &Parts<'_>) -> Container {
    waiting(parts, HELPER, DONE_FILE)
}

fn waiting(parts: &Parts<'_>, name: &str, signal: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(parts.helper_image.key()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec!["sh".to_owned(), "-c".to_owned(), wait_for(signal)]),
        working_dir: Some(parts.workdir.to_owned()),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(&HELPER_REQUESTS)),
            limits: Some(amounts(&HELPER_LIMITS)),
            claims: None,
        }),
        security_context: Some(security_context(Some(true))),
        volume_mounts: Some(volumes::helper_mounts(parts.workdir)),
        ..Container::default()
    }
}

/// A shell as process 1 ignores SIGTERM unless it is told otherwise, and would hold the pod for its whole
/// grace period. 143 is a failure: an init container that is stopped early must not let the command start.
/// A `sleep` that takes no fractions falls back to whole seconds.
fn wait_for(file: &str) -> String {
    format!("trap 'exit 143' TERM; until [ -e {file} ]; do sleep 0.1 || sleep 1; done")
}

/// The caller's variables in order of their names, over the operator's for every job, over a HOME that can be
/// written to. Names that a caller may not set are the policy's.
fn env(parts: &Parts<'_>) -> Vec<EnvVar> {
    let home = ("HOME".to_owned(), "/tmp".to_owned());
    let mut all = BTreeMap::from([home]);
    all.extend(parts.clone.into_iter().flat_map(|clone| cloner::environment(parts.workdir, clone)));
    let given = parts.settings.extras.env.iter().chain(parts.env);
    all.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    all.into_iter()
        .map(|(name, value)| EnvVar { name, value: Some(literal(&value)), value_from: None })
        .collect()
}

fn main_resources(parts: &Parts<'_>) -> ResourceRequirements {
    let wanted = parts.resources;
    let mut requests = amounts(&[("ephemeral-storage", volumes::MAIN_STORAGE_REQUEST)]);
    requests.insert("cpu".to_owned(), cpu_quantity(wanted.cpu_request_millis));
    requests.insert("memory".to_owned(), memory_quantity(wanted.memory_request_bytes));
    let mut limits = amounts(&[("ephemeral-storage", volumes::MAIN_STORAGE_LIMIT)]);
    limits.extend(wanted.cpu_limit_millis.map(|millis| ("cpu".to_owned(), cpu_quantity(millis))));
    limits.extend(wanted.memory_limit_bytes.map(|bytes| ("memory".to_owned(), memory_quantity(bytes))));
    ResourceRequirements { requests: Some(requests), limits: Some(limits), claims: None }
}

pub(super) fn amounts(amounts: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    amounts.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect()
}

pub(super) fn security_context(read_only_root: Option<bool>) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: read_only_root,
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}
