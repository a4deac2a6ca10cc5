//! Each rule of the Role in `deploy/kubernetes.yaml` is needed: without it, a job goes wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Site;
use super::site::{end, shell};
use crate::session::Session;

/// A job that uses everything, in a namespace where the rule about `resources` is gone.
fn without_rule(name: &str, resources: &str, change: impl FnOnce(String) -> String) -> Option<Value> {
    let (_site, mut session) = deployed_without(name, resources, change)?;
    let mut call = shell("cat in.txt; echo out > out.txt");
    call["files"] = json!([{ "path": "in.txt", "content_b64": STANDARD.encode("in\n") }]);
    call["timeout_s"] = json!(10);
    Some(session.run_job(call))
}

/// A server in a namespace where the rule about `resources` is gone.
fn deployed_without(
    name: &str,
    resources: &str,
    change: impl FnOnce(String) -> String,
) -> Option<(Site, Session)> {
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
    let session = site.session();
    Some((site, session))
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
fn without_leases_a_job_in_the_background_is_not_found_again() {
    let Some((site, mut session)) = deployed_without("leases", "leases", |deployed| deployed) else { return };
    let token = session.submit_job(shell("sleep 20"));
    site.pod("the command to run", super::ends::runs);
    session.kill_9();
    let fetched = site.session().call("fetch_job", json!({ "job_token": token, "wait_s": 60 }));
    assert_ne!(fetched["structuredContent"]["status"], json!("done"), "{fetched}");
}

#[test]
fn without_claims_a_cache_that_is_missing_is_not_seen_at_start() {
    // With the right, a missing claim keeps the server from starting.
    for (rule, starts) in [("persistentvolumeclaims", true), ("nothing-else", false)] {
        let site = Site::with(&format!("role-claims-{starts}"), |deployed| {
            deployed.replace(&format!("    resources: [{rule}]\n"), "    resources: [nothing]\n")
        });
        if !site.is_real() {
            eprintln!("skipped: the embedded cluster has no RBAC");
            return;
        }
        let mut command = site.server("50m");
        command.args(["--cache-pvc", "absent", "--cache-mount-path", "/cache"]);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        assert_eq!(command.status().unwrap().success(), starts, "without the rule about {rule}");
    }
}

#[test]
fn without_events_a_quota_is_not_told() {
    let no_pods = |deployed: String| deployed.replace(r#"pods: "20""#, r#"pods: "0""#);
    let Some(result) = without_rule("events", "events", no_pods) else { return };
    assert_eq!(end(&result), ("error", "unschedulable", -1), "{result}");
}
