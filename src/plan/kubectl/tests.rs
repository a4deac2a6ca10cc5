//! The argv of each tool, whole, and what is refused with which words.

mod generated;

use serde_json::{Value, json};

use super::kind::Kind;
use super::*;
use crate::schema::{Catalogue, ToolCall};

pub(super) fn settings() -> KubectlSettings {
    KubectlSettings {
        context: "prod".to_owned(),
        cache_dir: "/private/cache".to_owned(),
        request_timeout_s: 20,
    }
}

fn call(tool: &str, arguments: Value) -> ToolCall {
    Catalogue::load().unwrap().admit(DecisionId::mint(), tool, arguments).unwrap()
}

fn planned(tool: &str, arguments: Value) -> Result<KubectlPlan, Refusal> {
    let call = call(tool, arguments);
    plan(call.id(), call.arguments(), &settings())
}

fn argv(tool: &str, arguments: Value) -> String {
    planned(tool, arguments).unwrap().argv().join(" ")
}

/// Code and field of each reason.
fn refused(tool: &str, arguments: Value) -> Vec<(String, String)> {
    let refusal = planned(tool, arguments).unwrap_err();
    assert_eq!(refusal.stage, Stage::Plan);
    refusal.reasons.into_iter().map(|reason| (reason.code, reason.field)).collect()
}

const COMMON: &str = "--request-timeout=20s --cache-dir=/private/cache";

#[test]
fn pods_are_listed() {
    let dev = format!("get --context=prod --namespace=dev {COMMON} --output=json");
    let cases = [
        (json!({ "namespace": "dev" }), format!("{dev} -- pods")),
        (json!({}), format!("get --context=prod --all-namespaces=true {COMMON} --output=json -- pods")),
        (
            json!({ "namespace": "dev", "selector": " app == web , tier != cache " }),
            format!("{dev} --selector=app=web,tier!=cache -- pods"),
        ),
        (
            json!({ "namespace": "dev", "field_selector": "status.phase!=Running", "selector": "!a" }),
            format!("{dev} --selector=!a --field-selector=status.phase!=Running -- pods"),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(argv("list_pods", arguments.clone()), expected, "{arguments}");
    }
}

#[test]
fn logs_are_read() {
    let web = format!("logs --context=prod --namespace=dev {COMMON}");
    let cases = [
        (
            json!({ "namespace": "dev", "name": "web-0" }),
            format!("{web} --tail=100 --limit-bytes=67108864 -- web-0"),
        ),
        (
            json!({ "namespace": "dev", "name": "web-0", "container": "main", "tail_lines": 2000,
                    "previous": true, "since_seconds": 3600 }),
            format!(
                "{web} --container=main --tail=2000 --limit-bytes=67108864 --previous=true --since=3600s -- web-0"
            ),
        ),
        // JSON Schema's integers include these; kubectl's do not.
        (
            json!({ "namespace": "dev", "name": "web-0", "tail_lines": 30.0, "since_seconds": 1e3 }),
            format!("{web} --tail=30 --limit-bytes=67108864 --since=1000s -- web-0"),
        ),
        (
            json!({ "namespace": "dev", "name": "web-0", "previous": false }),
            format!("{web} --tail=100 --limit-bytes=67108864 -- web-0"),
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(argv("pod_logs", arguments.clone()), expected, "{arguments}");
    }
}

#[test]
fn events_are_listed() {
    let dev = format!("get --context=prod --namespace=dev {COMMON} --output=json");
    let cases = [
        (json!({ "namespace": "dev" }), format!("{dev} -- events")),
        (json!({}), format!("get --context=prod --all-namespaces=true {COMMON} --output=json -- events")),
        (
            json!({ "namespace": "dev", "warnings_only": true, "for_kind": "pod", "for_name": "web-0" }),
            format!(
                "{dev} --field-selector=type=Warning,involvedObject.kind=Pod,involvedObject.name=web-0 -- events"
            ),
        ),
        (
            json!({ "namespace": "dev", "for_kind": "node" }),
            format!("{dev} --field-selector=involvedObject.kind=Node -- events"),
        ),
        (json!({ "namespace": "dev", "warnings_only": false }), format!("{dev} -- events")),
    ];
    for (arguments, expected) in cases {
        assert_eq!(argv("list_events", arguments.clone()), expected, "{arguments}");
    }
}

/// Kind, resource and group as `kubectl api-resources` prints them for Kubernetes 1.33.
const RESOURCES: [(&str, &str, &str, &str); 16] = [
    ("pod", "Pod", "pods", ""),
    ("deployment", "Deployment", "deployments", "apps"),
    ("replicaset", "ReplicaSet", "replicasets", "apps"),
    ("statefulset", "StatefulSet", "statefulsets", "apps"),
    ("daemonset", "DaemonSet", "daemonsets", "apps"),
    ("job", "Job", "jobs", "batch"),
    ("cronjob", "CronJob", "cronjobs", "batch"),
    ("horizontalpodautoscaler", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "autoscaling"),
    ("poddisruptionbudget", "PodDisruptionBudget", "poddisruptionbudgets", "policy"),
    ("service", "Service", "services", ""),
    ("endpointslice", "EndpointSlice", "endpointslices", "discovery.k8s.io"),
    ("ingress", "Ingress", "ingresses", "networking.k8s.io"),
    ("networkpolicy", "NetworkPolicy", "networkpolicies", "networking.k8s.io"),
    ("persistentvolumeclaim", "PersistentVolumeClaim", "persistentvolumeclaims", ""),
    ("resourcequota", "ResourceQuota", "resourcequotas", ""),
    ("limitrange", "LimitRange", "limitranges", ""),
];

#[test]
fn objects_are_described_by_their_resource_and_group() {
    for (kind, _, plural, group) in RESOURCES {
        let plan =
            planned("describe_resource", json!({ "namespace": "dev", "kind": kind, "name": "a.b" })).unwrap();
        let word = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        assert_eq!(
            plan.argv().join(" "),
            format!("describe --context=prod --namespace=dev {COMMON} --show-events=true -- {word} a.b")
        );
        assert_eq!((plan.resource(), plan.group()), (Some(plural), group));
    }
}

#[test]
fn the_schemas_kinds_are_those_of_the_plan() {
    let catalogue = Catalogue::load().unwrap();
    let kinds = |tool: &str, field: &str| -> Vec<String> {
        let tool = catalogue.definitions().find(|definition| definition.name == tool).unwrap();
        serde_json::from_value(tool.input_schema["properties"][field]["enum"].clone()).unwrap()
    };
    let known: Vec<&str> = RESOURCES.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(kinds("describe_resource", "kind"), known);
    assert_eq!(kinds("list_events", "for_kind"), [known.as_slice(), &["node"]].concat());
    for (word, kind, ..) in RESOURCES {
        assert_eq!(Kind::of(word).unwrap().as_str(), kind);
    }
    for word in ["secret", "secrets", "Secret", "configmap", "serviceaccount", "Pod", "pods", "po", ""] {
        assert_eq!(Kind::of(word), None, "{word}");
    }
}

#[test]
fn a_plan_carries_the_facts_of_its_argv() {
    let call = call("list_pods", json!({}));
    let plan = plan(call.id(), call.arguments(), &settings()).unwrap();
    assert_eq!(plan.id(), call.id());
    assert_eq!((plan.namespace(), plan.all_namespaces()), (None, true));
    assert_eq!((plan.verb(), plan.presentation()), (Verb::Get, Presentation::Pods));
    assert_eq!(
        plan.flags(),
        ["--context", "--all-namespaces", "--request-timeout", "--cache-dir", "--output"]
    );

    let object = json!({ "namespace": "dev", "name": "web-0" });
    let logs = planned("pod_logs", object.clone()).unwrap();
    assert_eq!((logs.namespace(), logs.all_namespaces()), (Some("dev"), false));
    assert_eq!((logs.verb(), logs.presentation()), (Verb::Logs, Presentation::Logs));
    let events = planned("list_events", json!({ "namespace": "dev" })).unwrap();
    assert_eq!((events.verb(), events.presentation()), (Verb::Get, Presentation::Events));
    let description =
        planned("describe_resource", json!({ "namespace": "dev", "name": "a", "kind": "job" })).unwrap();
    assert_eq!((description.verb(), description.presentation()), (Verb::Describe, Presentation::Describe));
}

#[test]
fn each_field_is_refused_by_its_own_code() {
    let cases = [
        ("list_pods", json!({ "namespace": "-A" }), "namespace.invalid", "/namespace"),
        ("list_pods", json!({ "selector": "a=b -A" }), "selector.invalid", "/selector"),
        ("list_pods", json!({ "field_selector": "a=b" }), "field_selector.invalid", "/field_selector"),
        ("list_events", json!({ "namespace": "a/../b" }), "namespace.invalid", "/namespace"),
        ("list_events", json!({ "for_name": "a,type=Normal" }), "name.invalid", "/for_name"),
        (
            "describe_resource",
            json!({ "namespace": "A", "kind": "pod", "name": "a" }),
            "namespace.invalid",
            "/namespace",
        ),
        (
            "describe_resource",
            json!({ "namespace": "a", "kind": "pod", "name": "secret/s1" }),
            "name.invalid",
            "/name",
        ),
        ("pod_logs", json!({ "namespace": "*", "name": "a" }), "namespace.invalid", "/namespace"),
        ("pod_logs", json!({ "namespace": "a", "name": "deploy/x" }), "name.invalid", "/name"),
        (
            "pod_logs",
            json!({ "namespace": "a", "name": "a", "container": "a.b" }),
            "container.invalid",
            "/container",
        ),
    ];
    for (tool, arguments, code, field) in cases {
        let expected = [(code.to_owned(), field.to_owned())];
        assert_eq!(refused(tool, arguments.clone()), expected, "{tool} {arguments}");
    }
}

#[test]
fn all_faults_are_named_at_once() {
    let arguments = json!({ "namespace": "A", "name": "B", "container": "C" });
    let codes: Vec<String> = refused("pod_logs", arguments).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["namespace.invalid", "name.invalid", "container.invalid"]);
    let arguments = json!({ "namespace": "A", "selector": "=", "field_selector": "=" });
    let codes: Vec<String> = refused("list_pods", arguments).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["namespace.invalid", "selector.invalid", "field_selector.invalid"]);
}

#[test]
fn a_refusal_says_what_and_how() {
    let refusal = planned("list_pods", json!({ "namespace": "kube_system" })).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the arguments cannot be carried out\n\
         - namespace `kube_system` has a character other than lower-case letters, digits and `-` [namespace.invalid]\n  \
         field: /namespace\n  \
         hint: write the name of one namespace, for example `default`"
    );
}

/// The schema says these first; the plan does not rely on it.
#[test]
fn the_plan_holds_without_the_schema() {
    let of = |arguments: Arguments| plan(DecisionId::mint(), &arguments, &settings()).unwrap_err().reasons;
    let logs =
        |log: PodLogs| of(Arguments::PodLogs(PodLogs { namespace: "a".into(), name: "a".into(), ..log }));
    for lines in [0, 2001, u64::MAX] {
        let reasons = logs(PodLogs { tail_lines: Some(lines), ..PodLogs::default() });
        assert_eq!(reasons[0].code, "tail_lines.invalid");
    }
    for seconds in [0, 31_536_001, u64::MAX] {
        let reasons = logs(PodLogs { since_seconds: Some(seconds), ..PodLogs::default() });
        assert_eq!(reasons[0].code, "since_seconds.invalid");
    }
    for kind in ["secret", "node", "Pod", ""] {
        let read = DescribeResource { namespace: "a".into(), kind: kind.into(), name: "a".into() };
        let reasons = of(Arguments::DescribeResource(read));
        assert_eq!((reasons[0].code.as_str(), reasons.len()), ("kind.invalid", 1), "{kind}");
    }
    let read = ListEvents { for_kind: Some("secret".into()), ..ListEvents::default() };
    assert_eq!(of(Arguments::ListEvents(read))[0].code, "kind.invalid");
    for empty in [
        ListPods { namespace: Some(String::new()), ..ListPods::default() },
        ListPods { selector: Some(String::new()), ..ListPods::default() },
    ] {
        assert_eq!(of(Arguments::ListPods(empty)).len(), 1);
    }
    let job = Arguments::RunJob(crate::schema::RunJob::default());
    assert_eq!(of(job)[0].code, "plan.not_a_read");
}

#[test]
fn without_a_context_nothing_is_read() {
    let call = call("list_pods", json!({ "namespace": "dev" }));
    let settings = KubectlSettings { context: String::new(), ..settings() };
    let refusal = plan(call.id(), call.arguments(), &settings).unwrap_err();
    assert_eq!(refusal.reasons[0].code, "kubectl.context");
}
