//! Each rule of the Role in `deploy/kubernetes.yaml` is needed: without it, a job goes wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Site;
use super::site::{end, shell};

/// A job that uses everything, in a namespace where the rule about `resources` is gone.
fn without_rule(name: &str, resources: &str, change: impl FnOnce(String) -> String) -> Option<Value> {
    let site = Site::with(&format!("role-{name}"), |deployed| {
        let rule = format!("    resources: [{resources}]\n");
        assert!(deployed.contains(&rule), "deploy/kubernetes.yaml has no rule about {resources}");
        // A resource that does not exist: the rule is there and gives nothing.
        change(deployed.replace(&rule, "    resources: [nothing]\n"))
    });
    if !site.is_real() {
        eprintln!("skipped: the embedded cluster has no RBAC");
        return None;
    }
    let mut session = site.session();
    let mut call = shell("cat in.txt; echo out > out.txt");
    call["files"] = json!([{ "path": "in.txt", "content_b64": STANDARD.encode("in\n") }]);
    call["timeout_s"] = json!(10);
    Some(session.run_job(call))
}

#[test]
fn without_jobs_nothing_is_created() {
    let Some(result) = without_rule("jobs", "jobs", |deployed| deployed) else { return };
    assert_eq!(end(&result), ("error", "admission_denied", -1), "{result}");
    assert!(result["message"].as_str().unwrap().contains("jobs"), "{result}");
}

#[test]
fn without_pods_nothing_is_seen() {
    let Some(result) = without_rule("pods", "pods", |deployed| deployed) else { return };
    assert_eq!(end(&result).0, "error", "{result}");
    assert!(result["message"].as_str().unwrap().contains("pods"), "{result}");
}

#[test]
fn without_logs_the_output_is_missing_and_said_to_be() {
    let Some(result) = without_rule("log", "pods/log", |deployed| deployed) else { return };
    assert_eq!(end(&result), ("succeeded", "", 0), "{result}");
    assert_eq!(result["stdout"], json!(""));
    assert!(result["message"].as_str().unwrap().contains("output"), "{result}");
}

#[test]
fn without_exec_no_file_goes_in() {
    let Some(result) = without_rule("exec", "pods/exec", |deployed| deployed) else { return };
    assert_eq!(end(&result), ("error", "inject_failed", -1), "{result}");
}

#[test]
fn without_events_a_quota_is_not_told() {
    let no_pods = |deployed: String| deployed.replace(r#"pods: "20""#, r#"pods: "0""#);
    let Some(result) = without_rule("events", "events", no_pods) else { return };
    assert_eq!(end(&result), ("error", "unschedulable", -1), "{result}");
}
