//! Whether the node can take a pod.

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, Pod};

use super::node::{Machine, NODE_NAME};
use super::quantity;
use super::storage::Storage;

/// Whether the pod fits on the machine by itself. What other pods have requested is not counted: on one
/// machine it would only make jobs wait for each other.
///
/// # Errors
/// The scheduler's sentence, when it does not fit.
pub fn fit(machine: &Machine, storage: &Storage, pod: &Pod) -> Result<(), String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let claims = spec.volumes.iter().flatten().filter_map(|v| v.persistent_volume_claim.as_ref());
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let missing =
        |claim: &&PersistentVolumeClaimVolumeSource| storage.claim(namespace, &claim.claim_name).is_none();
    if let Some(claim) = claims.into_iter().find(missing) {
        return Err(format!(
            "0/1 nodes are available: persistentvolumeclaim {:?} not found. preemption: 0/1 nodes are available: 1 \
             Preemption is not helpful for scheduling.",
            claim.claim_name
        ));
    }
    let mut missing = Vec::new();
    for (resource, available) in [("cpu", machine.cpu_millis), ("memory", machine.memory_bytes)] {
        // Thousandths for both, so that neither is rounded.
        let available = u128::from(available) * if resource == "cpu" { 1 } else { 1000 };
        let main: u128 = spec.containers.iter().map(|c| request(c, resource)).sum();
        let init = spec.init_containers.iter().flatten();
        let (sidecars, others): (Vec<_>, Vec<_>) =
            init.partition(|c| c.restart_policy.as_deref() == Some("Always"));
        let sidecars: u128 = sidecars.into_iter().map(|c| request(c, resource)).sum();
        let highest = others.into_iter().map(|c| request(c, resource)).max().unwrap_or_default();
        if (main + sidecars).max(highest) > available {
            missing.push(format!("1 Insufficient {resource}"));
        }
    }
    let mismatch = spec.node_selector.iter().flatten().any(|(key, value)| {
        !matches!(
            (key.as_str(), value.as_str()),
            ("kubernetes.io/os", std::env::consts::OS) | ("kubernetes.io/hostname", NODE_NAME)
        )
    });
    if mismatch {
        missing.push("1 node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "0/1 nodes are available: {}. preemption: 0/1 nodes are available: 1 No preemption victims found for \
         incoming pod.",
        missing.join(", ")
    ))
}

/// What a container requests, in thousandths: its limit where it names no request.
fn request(container: &Container, resource: &str) -> u128 {
    let Some(resources) = &container.resources else {
        return 0;
    };
    let requested = resources.requests.as_ref().and_then(|r| r.get(resource));
    let quantity = requested.or_else(|| resources.limits.as_ref().and_then(|l| l.get(resource)));
    quantity.and_then(|q| quantity::millis(&q.0)).unwrap_or_default()
}
