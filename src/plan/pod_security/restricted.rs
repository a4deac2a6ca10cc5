//! The controls that level "restricted" adds to "baseline".

use serde_json::Value;

use crate::plan::pod_security::baseline::is_confined;
use crate::plan::pod_security::{Control, Pod, absent_or, all_of};

pub(super) const CONTROLS: [Control; 6] = [
    Control {
        name: "restrictedVolumes",
        complies: |pod| pod.volumes.iter().all(|volume| is_allowed(volume)),
    },
    Control {
        name: "allowPrivilegeEscalation",
        complies: |pod| {
            pod.every_container(|container| {
                container.pointer("/securityContext/allowPrivilegeEscalation") == Some(&Value::Bool(false))
            })
        },
    },
    Control { name: "runAsNonRoot", complies: run_as_non_root },
    Control {
        name: "runAsUser",
        complies: |pod| {
            pod.every_context(|context| {
                absent_or(context.get("runAsUser"), |user| user.as_i64().is_some_and(|user| user > 0))
            })
        },
    },
    Control { name: "seccompProfile_restricted", complies: seccomp },
    Control { name: "capabilities_restricted", complies: |pod| pod.every_container(capabilities) },
];

/// Fields of a volume: its name, and the kinds of source that are allowed.
const VOLUME_FIELDS: [&str; 10] = [
    "name",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn is_allowed(volume: &Value) -> bool {
    volume.as_object().is_some_and(|fields| {
        fields.iter().all(|(name, source)| source.is_null() || VOLUME_FIELDS.contains(&name.as_str()))
    })
}

/// Required of the pod, or else of every container; and nobody may take it back.
fn run_as_non_root(pod: &Pod<'_>) -> bool {
    let by_pod = pod.spec.pointer("/securityContext/runAsNonRoot");
    inherited(by_pod, pod, "/securityContext/runAsNonRoot", |value| value == &Value::Bool(true))
}

fn seccomp(pod: &Pod<'_>) -> bool {
    let by_pod = pod.spec.pointer("/securityContext/seccompProfile");
    inherited(by_pod, pod, "/securityContext/seccompProfile", is_confined)
}

/// Whether the pod's own value passes, each container's passes, and a container without one has the pod's.
fn inherited(by_pod: Option<&Value>, pod: &Pod<'_>, field: &str, complies: fn(&Value) -> bool) -> bool {
    let by_pod = by_pod.filter(|value| !value.is_null());
    by_pod.is_none_or(complies)
        && pod.every_container(|container| match container.pointer(field) {
            None | Some(Value::Null) => by_pod.is_some(),
            Some(value) => complies(value),
        })
}

fn capabilities(container: &Value) -> bool {
    let drop = container.pointer("/securityContext/capabilities/drop").and_then(Value::as_array);
    drop.is_some_and(|dropped| dropped.iter().any(|capability| capability == "ALL"))
        && all_of(container.pointer("/securityContext/capabilities/add"), &["NET_BIND_SERVICE"])
}
