//! The four reads, with the same rights.

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::Site;
use super::ends::runs;
use super::site::shell;
use crate::session::Session;

fn read(session: &mut Session, tool: &str, arguments: Value) -> String {
    let result = session.call(tool, arguments.clone());
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_ne!(result["isError"], json!(true), "{tool} {arguments}: {text}");
    text
}

#[test]
fn a_running_job_is_listed_described_and_heard() {
    let site = Site::new("reads");
    let mut session = site.session();
    session.send(&json!({
        "jsonrpc": "2.0", "id": "job", "method": "tools/call",
        "params": { "name": "run_job", "arguments": shell("echo one; echo two; sleep 300") },
    }));
    let pod = site.pod("the command to run", runs).name_any();
    let job = pod.rsplit_once('-').unwrap().0.to_owned();
    let namespace = site.namespace().to_owned();

    let listed = read(&mut session, "list_pods", json!({ "namespace": namespace }));
    let row = listed.lines().find(|line| line.contains(&pod)).unwrap_or_else(|| panic!("{listed}"));
    assert!(row.contains("Running"), "{row}");

    let main = json!({ "namespace": namespace, "name": pod, "container": "main" });
    site.until("the output", || {
        read(&mut session, "pod_logs", main.clone()).ends_with("one\ntwo\n").then_some(())
    });
    let mut last = main.clone();
    last["tail_lines"] = json!(1);
    let last = read(&mut session, "pod_logs", last);
    assert!(last.ends_with("two\n") && !last.contains("one"), "{last}");

    let described = read(
        &mut session,
        "describe_resource",
        json!({ "namespace": namespace, "kind": "pod", "name": pod }),
    );
    assert!(described.starts_with("Name:") && described.contains("busybox:1.36"), "{described}");
    assert!(described.contains("\nEvents:\n") && described.contains("Started"), "{described}");
    let described = read(
        &mut session,
        "describe_resource",
        json!({ "namespace": namespace, "kind": "job", "name": job }),
    );
    assert!(described.contains("SuccessfulCreate"), "{described}");

    let events = json!({ "namespace": namespace, "for_kind": "pod", "for_name": pod });
    let events = read(&mut session, "list_events", events);
    assert!(events.starts_with("LAST SEEN") && events.contains("Scheduled"), "{events}");
    assert!(!events.contains("SuccessfulCreate"), "that is the job's: {events}");

    for (tool, arguments, code) in [
        ("pod_logs", json!({ "namespace": namespace, "name": "absent" }), "kubectl.not_found"),
        (
            "pod_logs",
            json!({ "namespace": namespace, "name": pod, "container": "nobody" }),
            "kubectl.no_such_container",
        ),
        (
            "describe_resource",
            json!({ "namespace": namespace, "kind": "job", "name": "absent" }),
            "kubectl.not_found",
        ),
    ] {
        let result = session.call(tool, arguments);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(result["isError"] == json!(true) && text.contains(&format!("[{code}]")), "{text}");
    }
    session.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "job" },
    }));
    site.assert_clean();
}

#[test]
fn what_the_role_does_not_give_is_told_as_such() {
    let site = Site::new("forbidden");
    if !site.is_real() {
        eprintln!("skipped: the embedded cluster has no RBAC");
        return;
    }
    let mut session = site.session();
    let arguments = json!({ "namespace": site.namespace(), "kind": "deployment", "name": "web" });
    let result = session.call("describe_resource", arguments);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == json!(true) && text.contains("[kubectl.forbidden]"), "{text}");
}
