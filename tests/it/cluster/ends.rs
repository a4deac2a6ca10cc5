//! Jobs that end badly: each says why, and leaves nothing behind.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use super::Site;
use super::site::{artifacts, end, shell};

/// Manifests without the documents of a kind.
pub(super) fn without(kinds: &[&str], manifests: &str) -> String {
    let kept = manifests
        .split("\n---\n")
        .filter(|document| !kinds.iter().any(|kind| document.contains(&format!("\nkind: {kind}\n"))));
    kept.collect::<Vec<_>>().join("\n---\n")
}

pub(super) fn runs(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses
        .filter(|status| status.name == "main")
        .any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

#[test]
fn a_time_out_brings_output_and_files_so_far() {
    let site = Site::new("timeout");
    let mut session = site.session();
    let mut call = shell("echo begun; echo part > part.txt; sleep 300; echo never");
    call["timeout_s"] = json!(3);
    let result = session.run_job(call);
    assert_eq!(end(&result), ("timeout", "timeout", -1), "{result}");
    assert_eq!(result["stdout"], json!("begun\n"));
    assert_eq!(artifacts(&result), [("part.txt".to_owned(), b"part\n".to_vec())]);
    site.assert_clean();
}

#[test]
fn an_image_that_no_registry_has() {
    let site = Site::new("image");
    let mut session = site.session();
    let result = session.run_job(json!({ "image": "absent:1", "command": ["true"] }));
    assert_eq!(end(&result), ("error", "image_pull_failed", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("absent:1"), "{result}");
    site.assert_clean();
}

#[test]
fn a_program_that_the_image_does_not_have() {
    let site = Site::new("program");
    let mut session = site.session();
    let result = session.run_job(json!({ "image": "busybox:1.36", "command": ["/no/such/program"] }));
    assert_eq!(end(&result), ("error", "start_failed", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("/no/such/program"), "{result}");
    site.assert_clean();
}

#[test]
fn more_memory_than_the_limit() {
    let site = Site::new("memory");
    let mut session = site.session();
    let call = json!({
        // Keeps what it has read until a line ends, which is never.
        "image": "busybox:1.36", "command": ["tail", "/dev/zero"], "limits": { "memory": "48Mi" },
    });
    let result = session.run_job(call);
    assert_eq!(end(&result), ("failed", "oom_killed", 137), "{result}");
    site.assert_clean();
}

#[test]
fn a_quota_that_is_used_up() {
    let site = Site::with("quota", |deployed| deployed.replace(r#"pods: "20""#, r#"pods: "0""#));
    if !site.is_real() {
        eprintln!("skipped: the embedded cluster has no quotas");
        return;
    }
    let mut session = site.session();
    let result = session.run_job(shell("true"));
    assert_eq!(end(&result), ("error", "quota_exceeded", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("exceeded quota: jobs"), "{result}");
    site.assert_clean();
}

#[test]
fn a_request_that_no_node_can_meet() {
    let site = Site::with("node", |deployed| without(&["ResourceQuota", "LimitRange"], &deployed));
    let mut command = site.server("4000");
    command.arg("--policies").arg(site.policies(|data| {
        assert!(data.contains("max_cpu: \"4\""), "{data}");
        data.replace("max_cpu: \"4\"", "max_cpu: \"9000\"")
    }));
    let mut session = site.session_of(command);
    let result = session.run_job(shell("true"));
    assert_eq!(end(&result), ("error", "unschedulable", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("cpu"), "{result}");
    site.assert_clean();
}

#[test]
fn a_pod_that_somebody_else_deletes() {
    let site = Site::new("deleted");
    let mut session = site.session();
    session.send(&json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": { "name": "run_job", "arguments": shell("echo here; sleep 300") },
    }));
    let pod = site.pod("the command to run", runs);
    site.wait(site.pods().delete(&pod.name_any(), &DeleteParams::default())).unwrap();
    let answer = session.receive();
    assert_eq!(answer["id"], json!(7));
    let result = &answer["result"]["structuredContent"];
    assert_eq!(end(result), ("error", "deleted_externally", -1), "{result}");
    site.assert_clean();
}

#[test]
fn a_call_that_is_taken_back() {
    let site = Site::new("cancelled");
    let mut session = site.session();
    session.send(&json!({
        "jsonrpc": "2.0", "id": "taken-back", "method": "tools/call",
        "params": { "name": "run_job", "arguments": shell("sleep 300") },
    }));
    site.pod("the command to run", runs);
    session.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "taken-back" },
    }));
    site.until("the outcome's record", || {
        let records = site.records();
        records.iter().any(|record| record["outcome"]["reason"] == json!("cancelled")).then_some(())
    });
    site.assert_clean();
    std::thread::sleep(Duration::from_millis(100));
    session.expect_silence();
}
