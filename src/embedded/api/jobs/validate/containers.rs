//! What is refused about containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ResourceRequirements, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::names::{LABEL, is_label};
use super::{Causes, seccomp};
use crate::embedded::quantity::millis;

/// Checks a list of containers; `names` are those seen so far, of both lists.
pub fn containers(
    causes: &mut Causes,
    field: &str,
    list: &[Container],
    volumes: &BTreeSet<&str>,
    names: &mut BTreeSet<String>,
) {
    for (index, container) in list.iter().enumerate() {
        let own = |name: &str| format!("{field}[{index}].{name}");
        if container.name.is_empty() {
            causes.required(&own("name"), "");
        } else if !is_label(&container.name) {
            causes.invalid(&own("name"), &container.name, LABEL);
        } else if !names.insert(container.name.clone()) {
            causes.duplicate(&own("name"), &container.name);
        }
        let image = container.image.as_deref().unwrap_or_default();
        if image.is_empty() {
            causes.required(&own("image"), "");
        } else if image.trim() != image {
            causes.invalid(&own("image"), image, "must not have leading or trailing whitespace");
        }
        let policies = ["Always", "IfNotPresent", "Never"];
        if let Some(policy) =
            container.image_pull_policy.as_deref().filter(|policy| !policies.contains(policy))
        {
            causes.unsupported(&own("imagePullPolicy"), policy, &policies);
        }
        if let Some(policy) = container.restart_policy.as_deref().filter(|policy| *policy != "Always") {
            causes.unsupported(&own("restartPolicy"), policy, &["Always"]);
        }
        environment(causes, &own("env"), container);
        mounts(causes, &own("volumeMounts"), container.volume_mounts.as_deref().unwrap_or_default(), volumes);
        if let Some(resources) = &container.resources {
            check_resources(causes, &own("resources"), resources);
        }
        if let Some(security) = &container.security_context {
            causes.id(&own("securityContext.runAsUser"), security.run_as_user);
            causes.id(&own("securityContext.runAsGroup"), security.run_as_group);
            if let Some(profile) = &security.seccomp_profile {
                seccomp(causes, &own("securityContext.seccompProfile"), &profile.type_);
            }
            if security.privileged == Some(true) && security.allow_privilege_escalation == Some(false) {
                let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
                causes.invalid(&own("securityContext"), "", why);
            }
        }
    }
}

fn environment(causes: &mut Causes, field: &str, container: &Container) {
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let own = format!("{field}[{index}].name");
        if variable.name.is_empty() {
            causes.required(&own, "");
        } else if !variable.name.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            causes.invalid(&own, &variable.name, why);
        }
        if variable.value.as_deref().is_some_and(|value| !value.is_empty()) && variable.value_from.is_some() {
            let why = "may not be specified when `value` is not empty";
            causes.invalid(&format!("{field}[{index}].valueFrom"), "", why);
        }
    }
}

fn mounts(causes: &mut Causes, field: &str, mounts: &[VolumeMount], volumes: &BTreeSet<&str>) {
    let mut paths = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let own = |name: &str| format!("{field}[{index}].{name}");
        if mount.name.is_empty() {
            causes.required(&own("name"), "");
        } else if !volumes.contains(mount.name.as_str()) {
            causes.not_found(&own("name"), &mount.name);
        }
        if mount.mount_path.is_empty() {
            causes.required(&own("mountPath"), "");
        } else if !paths.insert(&mount.mount_path) {
            causes.invalid(&own("mountPath"), &mount.mount_path, "must be unique");
        }
        if let Some(path) = mount.sub_path.as_deref() {
            if path.starts_with('/') {
                causes.invalid(&own("subPath"), path, "must be a relative path");
            }
            if path.split('/').any(|part| part == "..") {
                causes.invalid(&own("subPath"), path, "must not contain '..'");
            }
        }
    }
}

fn check_resources(causes: &mut Causes, field: &str, resources: &ResourceRequirements) {
    let none = BTreeMap::new();
    let limits = resources.limits.as_ref().unwrap_or(&none);
    let requests = resources.requests.as_ref().unwrap_or(&none);
    for (list, quantities) in [("limits", limits), ("requests", requests)] {
        for (name, quantity) in quantities {
            if !is_resource(name) {
                causes.invalid(
                    &format!("{field}.{list}[{name}]"),
                    name,
                    "must be a standard resource for containers",
                );
            }
            // A quantity of another form would not even be an object of that kind to the API server.
            if quantity.0.starts_with('-') {
                causes.invalid(
                    &format!("{field}.{list}[{name}]"),
                    &quantity.0,
                    "must be greater than or equal to 0",
                );
            } else if millis(&quantity.0).is_none() {
                causes.invalid(
                    &format!("{field}.{list}[{name}]"),
                    &quantity.0,
                    "quantities must match the regular \
                                expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                );
            }
        }
    }
    for (name, request) in requests {
        if let Some(limit) = limits.get(name)
            && exceeds(request, limit)
        {
            let why = format!("must be less than or equal to {name} limit of {}", limit.0);
            causes.invalid(&format!("{field}.requests"), &request.0, &why);
        }
    }
}

fn exceeds(request: &Quantity, limit: &Quantity) -> bool {
    matches!((millis(&request.0), millis(&limit.0)), (Some(request), Some(limit)) if request > limit)
}

fn is_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.contains('/')
}
