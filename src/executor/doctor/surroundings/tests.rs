//! What a namespace's objects say about it.

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::json;

use super::{is_closed, pod_security, used_up};
use crate::finding::Verdict;
use crate::plan::PodProfile;

fn policy(spec: serde_json::Value) -> NetworkPolicy {
    serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec })).unwrap()
}

/// By the NetworkPolicy API: an empty selector is every pod, `policyTypes` defaults to Ingress, and Egress when there
/// are egress rules; policies add up.
#[test]
fn a_network_is_closed_when_a_policy_closes_all_egress_and_none_opens_it() {
    let closed = || policy(json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] }));
    let dns =
        json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": [{ "ports": [{ "port": 53 }] }] });
    let open = json!({ "podSelector": {}, "policyTypes": ["Egress"], "egress": [{}] });
    let some = json!({ "podSelector": { "matchLabels": { "a": "b" } }, "policyTypes": ["Egress"] });
    let others = json!({ "podSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
        "policyTypes": ["Egress"] });
    let ingress = json!({ "podSelector": {}, "policyTypes": ["Ingress"] });
    let silent = json!({ "podSelector": {} });
    let implied =
        json!({ "podSelector": {}, "egress": [{ "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] }] });
    assert!(!is_closed(&[]));
    assert!(is_closed(&[closed()]));
    for (more, with_it, alone) in [
        (dns, true, true),
        (open, false, false),
        (some, true, false),
        (others, true, false),
        (ingress, true, false),
        (silent, true, false),
        (implied, true, true),
    ] {
        assert_eq!(is_closed(&[closed(), policy(more.clone())]), with_it, "{more}");
        assert_eq!(is_closed(&[policy(more.clone())]), alone, "{more}");
    }
}

#[test]
fn a_level_has_to_fit_the_pods() {
    use PodProfile::{Compat, Restricted};
    for (level, profile, expected, remedy) in [
        (Some("restricted"), Restricted, Verdict::Ok, ""),
        (Some("baseline"), Compat, Verdict::Ok, ""),
        (Some("restricted"), Compat, Verdict::Failed, "enforce=baseline"),
        (Some("baseline"), Restricted, Verdict::Warning, "enforce=restricted"),
        (Some("privileged"), Compat, Verdict::Warning, "enforce=baseline"),
        (None, Restricted, Verdict::Warning, "enforce=restricted"),
        (Some("strict"), Restricted, Verdict::Warning, "enforce=restricted"),
    ] {
        let label = level.map(|level| ("pod-security.kubernetes.io/enforce".to_owned(), level.to_owned()));
        let finding = pod_security("check", "jobs", &label.into_iter().collect(), profile);
        assert_eq!(finding.verdict, expected, "{level:?} {profile:?}");
        assert!(finding.remedy.contains(remedy), "{finding:?}");
    }
}

#[test]
fn a_quota_without_room_is_named() {
    let quota = |used: &str| -> ResourceQuota {
        let status = json!({ "hard": { "pods": "20", "requests.cpu": "16" },
            "used": { "pods": used, "requests.cpu": "1" } });
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "status": status })).unwrap()
    };
    assert_eq!(used_up(&quota("20")), Some("pods".to_owned()));
    assert_eq!(used_up(&quota("19")), None);
}
