//! Reads through schema, plan and policy, and what the parts have to agree on.

use std::sync::LazyLock;

use super::*;
use crate::ids::ProcessId;
use crate::refusal::Refusal;
use crate::schema::Origin;

/// `dev` and `staging` may be read.
pub(super) static OVERLAY: LazyLock<Overlay> = LazyLock::new(|| reading(&["dev", "staging"]));

fn reading(namespaces: &[&str]) -> Overlay {
    Overlay {
        read_namespaces: Some(namespaces.iter().map(ToString::to_string).collect()),
        ..Overlay::default()
    }
}

/// The shipped rules, with time enough on a machine that does much else.
pub(super) fn rules(overlay: &Overlay) -> Policy {
    shipped(overlay).with_time_limit(Duration::from_secs(60))
}

fn codes(reasons: Vec<crate::refusal::Reason>) -> Vec<String> {
    reasons.into_iter().map(|reason| reason.code).collect()
}

/// A call that passed the schema, and its plan.
pub(in crate::policy) fn planned(tool: &str, arguments: Value) -> Result<(ToolCall, Plan), Refusal> {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load().unwrap());
    let call = CATALOGUE.admit(DecisionId::mint(), tool, arguments)?;
    let settings = crate::plan::Settings {
        jobs: settings(),
        kubectl: crate::plan::KubectlSettings {
            context: "test".to_owned(),
            cache_dir: "/private/cache".to_owned(),
            request_timeout_s: 20,
        },
    };
    let origin = Origin { owner: Caller::over_stdio(None).digest(), process: ProcessId::mint() };
    let call = call.from(origin);
    let plan = plan(&call, &settings, &AllowedImages::default())?;
    Ok((call, plan))
}

/// The argv of a call that every stage lets pass, or the codes of the stage that refused it.
pub(super) fn judged(policy: &Policy, tool: &str, arguments: Value) -> Result<Vec<String>, Vec<String>> {
    let (call, plan) = planned(tool, arguments).map_err(|refusal| codes(refusal.reasons))?;
    let caller = Caller::over_stdio(None);
    match policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::UNIX_EPOCH }) {
        Verdict::Allow(permit) => match permit.into_plan() {
            Plan::Kubectl(read) => Ok(read.argv().to_vec()),
            Plan::Job(_) | Plan::Handle(_) => panic!("no read came of {tool}"),
        },
        Verdict::Deny { decision, .. } => Err(codes(decision.deny)),
    }
}

/// The rules' input for a read.
pub(crate) fn document(tool: &str, arguments: Value) -> Value {
    let (call, plan) = planned(tool, arguments).unwrap();
    input::document(&Caller::over_stdio(None), &call, &plan, Timestamp::UNIX_EPOCH)
}

#[test]
fn the_shipped_bundle_reads_nothing() {
    let policy = rules(&Overlay::default());
    let everything = [
        ("list_pods", json!({ "namespace": "default" }), "reads.namespace"),
        ("list_pods", json!({}), "reads.all_namespaces"),
        ("list_events", json!({}), "reads.all_namespaces"),
        ("pod_logs", json!({ "namespace": "default", "name": "a" }), "reads.namespace"),
        (
            "describe_resource",
            json!({ "namespace": "default", "kind": "pod", "name": "a" }),
            "reads.namespace",
        ),
    ];
    for (tool, arguments, code) in everything {
        assert_eq!(judged(&policy, tool, arguments).unwrap_err(), [code], "{tool}");
    }
    assert_eq!(policy.readable_namespaces(&[]), Vec::<String>::new());
}

#[test]
fn a_refused_namespace_names_the_allowed_ones() {
    let policy = rules(&OVERLAY);
    let (call, plan) = planned("list_pods", json!({ "namespace": "prod" })).unwrap();
    let caller = Caller::over_stdio(None);
    let Verdict::Deny { decision, .. } =
        policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::UNIX_EPOCH })
    else {
        panic!("allowed")
    };
    let [reason] = decision.deny.as_slice() else { panic!("{:?}", decision.deny) };
    assert_eq!(reason.message, "namespace `prod` may not be read; allowed: dev, staging");
    assert_eq!(reason.field, "/namespace");
}

#[test]
fn readable_namespaces_are_those_of_the_rules() {
    let shipped = std::str::from_utf8(DATA).unwrap();
    let data = shipped.replacen("    namespaces: []", "    namespaces: [dev]", 1).replacen(
        "roles: {}",
        "roles: {builder: {read_namespaces: [build, dev]}, admin: {read_namespaces: [\"*\"]}}",
        1,
    );
    let rules = b"package kubepermit\ndecision := 1\n".as_slice();
    let bundle = Bundle::from_files([("main.rego", rules), ("data.yaml", data.as_bytes())]).unwrap();
    let policy = Policy::from_bundle(&bundle, &Overlay::default()).unwrap();
    let of = |roles: &[&str]| {
        policy.readable_namespaces(&roles.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(of(&[]), ["dev"]);
    assert_eq!(of(&["reader"]), ["dev"]);
    assert_eq!(of(&["builder"]), ["build", "dev"]);
    assert_eq!(of(&["builder", "admin"]), ["*"]);
}

/// The two locks are written twice, in Rust and in Rego: what one makes, the other must take.
#[test]
fn the_rules_take_every_argv_that_the_plan_makes() {
    let policy = rules(&reading(&["*"]));
    let namespaces = [None, Some("dev"), Some("a"), Some("0-9")];
    let names = ["a", "web-0", "a.b-c.1", "1", "secret", "secrets", "logs"];
    let selectors = [
        None,
        Some("a"),
        Some("!a"),
        Some("a=b"),
        Some("a="),
        Some("a!=b,c"),
        Some("a in (b,c),d notin ()"),
        Some("x.y/z=A_b.c-d"),
        Some("a=x--y"),
    ];
    let field_selectors = [
        None,
        Some("status.phase=Running"),
        Some("spec.nodeName!=,metadata.name=a.b"),
        Some("status.podIP=fd00::1"),
        Some("spec.restartPolicy!=Never"),
        Some("spec.serviceAccountName=a"),
    ];
    let mut calls = Vec::new();
    for namespace in namespaces {
        for selector in selectors {
            for field_selector in field_selectors {
                calls.push((
                    "list_pods",
                    json!({ "namespace": namespace, "selector": selector,
                    "field_selector": field_selector }),
                ));
            }
        }
        for kind in [None, Some("pod"), Some("node"), Some("persistentvolumeclaim")] {
            for name in [None, Some("a.b-c.1")] {
                for warnings_only in [true, false] {
                    calls.push((
                        "list_events",
                        json!({ "namespace": namespace, "for_kind": kind,
                        "for_name": name, "warnings_only": warnings_only }),
                    ));
                }
            }
        }
    }
    for name in names {
        for container in [None, Some("c"), Some("c-1")] {
            for previous in [true, false] {
                for (tail_lines, since_seconds) in
                    [(None, None), (Some(1), Some(31_536_000)), (Some(2000), Some(1))]
                {
                    calls.push((
                        "pod_logs",
                        json!({ "namespace": "dev", "name": name, "container": container,
                        "previous": previous, "tail_lines": tail_lines, "since_seconds": since_seconds }),
                    ));
                }
            }
        }
        calls.push(("describe_resource", json!({ "namespace": "dev", "kind": "ingress", "name": name })));
    }
    for (tool, mut arguments) in calls {
        arguments.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let argv = judged(&policy, tool, arguments.clone());
        assert!(argv.is_ok(), "{tool} {arguments}: {argv:?}");
    }
}
