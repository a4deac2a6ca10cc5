//! Why a Job has no pod: its creation succeeds, and only an event on it tells that the pod was refused.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tokio::time::timeout;

use crate::executor::fault::Fault;
use crate::executor::outcome::Reason;
use crate::executor::suspicion::{Patience, Stuck};
use crate::executor::text::because;

/// How long one look at the events may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The Job controller's last `FailedCreate` event for the Job with UID `job_uid`. `None` when there is none, or
/// events may not be read: then the pod is simply waited for.
pub(crate) async fn refusal(events: &Api<Event>, job_uid: &str) -> Option<Stuck> {
    let params =
        ListParams::default().fields(&format!("involvedObject.uid={job_uid},reason=FailedCreate")).limit(50);
    let listed = timeout(DEADLINE, events.list(&params)).await.ok()?;
    let listed = listed
        .inspect_err(|error| tracing::debug!(error = %Fault::of(error), "events cannot be read"))
        .ok()?;
    listed
        .items
        .iter()
        .filter(|event| {
            event.reason.as_deref() == Some("FailedCreate")
                && event.involved_object.uid.as_deref() == Some(job_uid)
        })
        .max_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0))
        .and_then(|event| event.message.as_deref())
        .map(denied)
}

/// The words are those of Kubernetes' ResourceQuota admission.
pub(crate) fn refused_by(message: &str) -> Reason {
    if message.contains("exceeded quota: ") { Reason::QuotaExceeded } else { Reason::AdmissionDenied }
}

/// Quota, Pod Security and validation are the namespace's last word; a webhook that does not answer is not.
fn denied(message: &str) -> Stuck {
    let lower = message.to_ascii_lowercase();
    let reason = refused_by(message);
    let settled = ["forbidden", "denied", "is invalid", "not found"].iter().any(|word| lower.contains(word));
    Stuck {
        reason,
        patience: if settled { Patience::Settled } else { Patience::Passing },
        message: because("the namespace does not admit the pod", message),
    }
}

#[cfg(test)]
mod tests {
    use super::denied;
    use crate::executor::outcome::Reason;
    use crate::executor::suspicion::Patience;

    #[test]
    fn only_a_verdict_is_final() {
        // The texts of the Job controller's FailedCreate events.
        let table = [
            (
                "Error creating: pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4",
                Patience::Settled,
                Reason::QuotaExceeded,
            ),
            (
                "Error creating: pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
                Patience::Settled,
                Reason::AdmissionDenied,
            ),
            (
                "Error creating: admission webhook \"w\" denied the request: no",
                Patience::Settled,
                Reason::AdmissionDenied,
            ),
            (
                "Error creating: Internal error occurred: failed calling webhook \"w\": connection refused",
                Patience::Passing,
                Reason::AdmissionDenied,
            ),
        ];
        for (message, patience, reason) in table {
            let stuck = denied(message);
            assert_eq!((stuck.patience, stuck.reason), (patience, reason), "{message}");
            assert!(stuck.message.contains(message));
        }
    }
}
