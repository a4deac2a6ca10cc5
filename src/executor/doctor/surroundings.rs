//! What should stand around the jobs: an existing namespace with Pod Security, a quota, limits, a closed network.
//!
//! The gateway's Role has no rights on most of these, which is as it should be: they are then not looked at, and
//! the finding says how to look.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicySpec};
use kube::{Api, Client};

use super::rights::Held;
use super::{Answer, JobExam, ask, list};
use crate::executor::text::shortened;
use crate::finding::Finding;
use crate::plan::PodProfile;

/// The label by which a namespace enforces a Pod Security Standard.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// How somebody with more rights gets an answer.
const ASK_AS_ANOTHER: &str =
    "this identity may not look, which is no fault; to look, run doctor once with a kubeconfig that may";

pub(super) async fn examine(client: &Client, exam: &JobExam<'_>, held: Held, findings: &mut Vec<Finding>) {
    let about = exam.namespace;
    let (namespace, ranges, quotas, policies) = futures::join!(
        namespace(client, exam, held),
        limit_range(client, about),
        quota(client, about),
        network(client, about)
    );
    for finding in namespace.into_iter().chain([ranges, quotas, policies]) {
        findings.push(finding.about(about));
    }
}

async fn namespace(client: &Client, exam: &JobExam<'_>, held: Held) -> Vec<Finding> {
    const EXISTS: &str = "namespace.exists";
    const SECURITY: &str = "namespace.pod_security";
    let api: Api<Namespace> = Api::all(client.clone());
    match ask("get the namespace", || api.get(exam.namespace)).await {
        Answer::Given(found) if found.metadata.deletion_timestamp.is_some() => vec![Finding::failed(
            EXISTS,
            "it is being deleted, so no job can be made in it",
            "wait until it is gone and make it again (deploy/kubernetes.yaml), or set MCP_K8S_NAMESPACE",
        )],
        Answer::Given(found) => {
            let labels = found.metadata.labels.unwrap_or_default();
            vec![
                Finding::ok(EXISTS, "it exists"),
                pod_security(SECURITY, exam.namespace, &labels, exam.profile),
            ]
        }
        Answer::NotFound(_) => vec![Finding::failed(
            EXISTS,
            "there is no such namespace",
            "apply deploy/kubernetes.yaml, or name an existing one with MCP_K8S_NAMESPACE or --namespace",
        )],
        Answer::Forbidden => {
            let exists = if held.here && !held.everywhere {
                // A RoleBinding lives in the namespace that it is about.
                Finding::ok(EXISTS, "it exists: the right to create jobs comes from a RoleBinding in it")
            } else {
                Finding::skipped(EXISTS, ASK_AS_ANOTHER)
            };
            vec![exists, Finding::skipped(SECURITY, ASK_AS_ANOTHER)]
        }
        Answer::Failed(why) => vec![Finding::skipped(EXISTS, format!("it could not be looked at: {why}"))],
    }
}

fn pod_security(
    check: &'static str,
    namespace: &str,
    labels: &BTreeMap<String, String>,
    profile: PodProfile,
) -> Finding {
    let label = |level: &str| format!("kubectl label --overwrite namespace {namespace} {ENFORCE}={level}");
    let level = labels.get(ENFORCE).map(String::as_str);
    match (level, profile) {
        (Some("restricted"), PodProfile::Restricted) | (Some("baseline"), PodProfile::Compat) => {
            Finding::ok(check, format!("enforces `{}`, as the pods are made", level.unwrap_or_default()))
        }
        (Some("restricted"), PodProfile::Compat) => Finding::failed(
            check,
            "it enforces `restricted`, so every pod of `pod.profile: compat` is refused",
            format!("set pod.profile in data.yaml to `restricted`, or run `{}`", label("baseline")),
        ),
        (Some("baseline" | "privileged") | None, _) => Finding::warning(
            check,
            match level {
                Some(level) => format!("it enforces only `{level}`, which is less than the pods keep to"),
                None => "it enforces no Pod Security Standard: pods of others may do anything".to_owned(),
            },
            format!(
                "run `{}`",
                label(if profile == PodProfile::Restricted { "restricted" } else { "baseline" })
            ),
        ),
        (Some(other), _) => Finding::warning(
            check,
            format!("its label {ENFORCE} has the value `{}`, which means nothing", shortened(other)),
            format!("run `{}`", label("restricted")),
        ),
    }
}

async fn limit_range(client: &Client, namespace: &str) -> Finding {
    const CHECK: &str = "namespace.limit_range";
    match list::<LimitRange>("list its LimitRanges", client, namespace).await {
        Answer::Given(ranges) => {
            let items = ranges.iter().flat_map(|range| &range.spec).flat_map(|spec| &spec.limits);
            let limits_memory = items
                .filter(|item| item.type_ == "Container")
                .flat_map(|item| &item.default)
                .any(|default| default.contains_key("memory"));
            if limits_memory {
                Finding::ok(CHECK, "a job that names no limits gets some")
            } else {
                Finding::warning(
                    CHECK,
                    "there is no LimitRange with a default memory limit: a job that names none may fill its node",
                    "apply the LimitRange of deploy/kubernetes.yaml, or set jobs.require_limits in data.yaml",
                )
            }
        }
        answer => not_seen(CHECK, answer),
    }
}

async fn quota(client: &Client, namespace: &str) -> Finding {
    const CHECK: &str = "namespace.quota";
    match list::<ResourceQuota>("list its ResourceQuotas", client, namespace).await {
        Answer::Given(quotas) if quotas.is_empty() => Finding::warning(
            CHECK,
            "there is no ResourceQuota: nothing but the gateway bounds all jobs together",
            "apply the ResourceQuota of deploy/kubernetes.yaml",
        ),
        Answer::Given(quotas) => match quotas.iter().find_map(used_up) {
            Some(what) => Finding::warning(
                CHECK,
                format!("`{what}` is used up, so the next job waits or is refused"),
                "look what fills the namespace (kubectl describe quota), or raise the quota",
            ),
            None => Finding::ok(CHECK, "there is one, and it has room"),
        },
        answer => not_seen(CHECK, answer),
    }
}

/// The first resource of which nothing is left. Equal amounts are written in the same form by the controller.
fn used_up(quota: &ResourceQuota) -> Option<String> {
    let status = quota.status.as_ref()?;
    let (hard, used) = (status.hard.as_ref()?, status.used.as_ref()?);
    hard.iter().find(|(name, amount)| used.get(*name) == Some(amount)).map(|(name, _)| shortened(name))
}

async fn network(client: &Client, namespace: &str) -> Finding {
    const CHECK: &str = "namespace.network";
    match list::<NetworkPolicy>("list its NetworkPolicies", client, namespace).await {
        Answer::Given(policies) if is_closed(&policies) => Finding::ok(
            CHECK,
            "a NetworkPolicy closes every pod's egress; that it is enforced is up to the cluster's network",
        ),
        Answer::Given(_) => Finding::warning(
            CHECK,
            "no NetworkPolicy closes the egress of all pods: jobs reach the whole network, cloud metadata and the \
             API server included",
            "apply the NetworkPolicy of deploy/kubernetes.yaml, and allow what jobs need in another one",
        ),
        answer => not_seen(CHECK, answer),
    }
}

/// Whether the egress of every pod is closed but for what some rule opens. Policies add up: what one of them
/// opens wide is open.
fn is_closed(policies: &[NetworkPolicy]) -> bool {
    let of_everyone = policies.iter().filter_map(|policy| policy.spec.as_ref()).filter(|spec| {
        spec.pod_selector.as_ref().is_none_or(|selector| {
            selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
                && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
        })
    });
    // Said by `policyTypes`, or else implied by egress rules.
    let about_egress = |spec: &NetworkPolicySpec| match &spec.policy_types {
        Some(types) => types.iter().any(|kind| kind == "Egress"),
        None => spec.egress.is_some(),
    };
    // A rule without `to` and `ports` allows everything.
    let open = |spec: &NetworkPolicySpec| {
        spec.egress.iter().flatten().any(|rule| {
            rule.to.as_ref().is_none_or(Vec::is_empty) && rule.ports.as_ref().is_none_or(Vec::is_empty)
        })
    };
    let specs: Vec<_> = of_everyone.filter(|spec| about_egress(spec)).collect();
    !specs.is_empty() && !specs.into_iter().any(open)
}

fn not_seen<T>(check: &'static str, answer: Answer<T>) -> Finding {
    match answer {
        Answer::Failed(why) => Finding::skipped(check, format!("it could not be looked at: {why}")),
        Answer::Forbidden | Answer::Given(_) => Finding::skipped(check, ASK_AS_ANOTHER),
        Answer::NotFound(_) => Finding::skipped(check, "this API server has no such kind of object"),
    }
}

#[cfg(test)]
mod tests;
