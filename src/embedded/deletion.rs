//! How a pod goes: at once, or after a grace in which its containers end.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::store::Store;

/// The grace of a pod that names none.
const DEFAULT_GRACE: i64 = 30;

/// What became of a pod that was to be deleted.
#[derive(Debug)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// It ends, and goes then.
    Ending(Box<Pod>),
}

/// Deletes a pod, with the grace in seconds that the caller gave or the pod's own.
pub fn delete_pod(store: &Store, pod: &Pod, grace: Option<i64>) -> Deleted {
    let meta = &pod.metadata;
    let (namespace, name, uid) = (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    );
    let mut at_once = false;
    let updated = store.pods.update(namespace, name, uid, |pod| {
        let spec = pod.spec.as_ref();
        let own = spec.and_then(|s| s.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let finished = matches!(phase, Some("Succeeded" | "Failed"));
        let scheduled = spec.is_some_and(|s| s.node_name.is_some());
        // Nothing has to end for a pod that has ended or never came to a node.
        let seconds = if finished || !scheduled { 0 } else { grace.unwrap_or(own) };
        if seconds == 0 {
            at_once = true;
            return false;
        }
        let meta = &mut pod.metadata;
        // A second deletion may only shorten the grace.
        if meta.deletion_grace_period_seconds.is_some_and(|known| known <= seconds) {
            return false;
        }
        let now = Timestamp::now();
        let ends = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        meta.deletion_timestamp = Some(Time(ends));
        meta.deletion_grace_period_seconds = Some(seconds);
        true
    });
    match updated {
        Some(pod) if !at_once => Deleted::Ending(Box::new(Pod::clone(&pod))),
        _ => {
            store.pods.remove(namespace, name, uid);
            Deleted::Gone
        }
    }
}
