//! The checks that look at this machine, and the embedded cluster.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::{Stage, write};
use crate::session::kubepermit;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_passes() {
    let stage = Stage::new(33, Some(33));
    let report = stage.run(&["--embedded"]).await;
    report.passed();
    report.says("embedded.start", "", "ok", "stands in for one", "");
    report.says("cluster.reach", "jobs", "ok", "v1.33.0+kubepermit-embedded", "");
    report.says("cluster.identity", "jobs", "ok", "`kubepermit-embedded`", "");
    report.says("rights.needed", "jobs", "ok", "create pods/exec", "");
    report.says("policy.sample", "run_job", "ok", "would be allowed", "");
    assert_eq!(report.with("warning"), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_that_is_missing_or_no_kubectl_is_told() {
    let stage = Stage::with("echo nonsense; exit 3");
    let report = stage.run(&["--embedded"]).await;
    report.failed(&["kubectl.program"]);
    report.says("kubectl.program", "kubectl", "failed", "does not tell its version", "--kubectl");

    std::fs::remove_file(stage.kubectl()).unwrap();
    let report = stage.run(&["--embedded"]).await;
    report.failed(&["kubectl.program"]);
    report.says("kubectl.program", "kubectl", "failed", "could not be started", "--kubectl");

    let mut command = kubepermit(stage.home.path());
    command.env("PATH", "/nonexistent").args(["doctor", "--embedded", "--log", "error"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = super::Report { code: output.status.code().unwrap(), document };
    report.failed(&["kubectl.program"]);
    report.says("kubectl.program", "", "failed", "no kubectl on the PATH", "KUBEPERMIT_KUBECTL");

    // Who lists no namespace needs no kubectl.
    let report = stage.run(&["--embedded", "--allow-namespaces", ""]).await;
    report.passed();
    report.says("kubectl.program", "", "skipped", "not needed", "");
    report.says("policy.read_namespaces", "", "warning", "no namespace may be read", "--allow-namespaces");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_is_broken_and_one_whose_tests_fail_are_told_apart() {
    let stage = Stage::new(33, Some(33));
    let bundle = stage.home.path().join("policy");
    let made = kubepermit(stage.home.path()).args(["policy", "init"]).arg(&bundle).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let path = bundle.to_str().unwrap();

    let report = stage.run(&["--embedded", "--policies", path]).await;
    report.passed();
    report.says("policy.images", "", "warning", "no image may run", "MCP_K8S_ALLOWED_IMAGES");

    let wrong =
        "package main_test\n\nimport data.kubepermit\n\ntest_wrong if kubepermit.decision.allow == 7\n";
    std::fs::write(bundle.join("tests/site_test.rego"), wrong).unwrap();
    let report = stage.run(&["--embedded", "--policies", path]).await;
    report.failed(&["policy.tests"]);
    report.says("policy.tests", path, "failed", "tests fail", "kubepermit policy test");

    std::fs::write(bundle.join("site.rego"), "package site\n\ndeny contains {").unwrap();
    let report = stage.run(&["--embedded", "--policies", path]).await;
    report.failed(&["policy.bundle"]);
    report.says("policy.bundle", path, "failed", "site.rego", "policy init");
    // The rest was checked all the same.
    report.says("cluster.reach", "jobs", "ok", "v1.33.0", "");
    report.says("audit.place", "audit", "ok", "can be written", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_policy_would_refuse_is_told() {
    let stage = Stage::new(33, Some(33));
    let bundle = stage.home.path().join("policy");
    kubepermit(stage.home.path()).args(["policy", "init"]).arg(&bundle).output().unwrap();
    let data = std::fs::read_to_string(bundle.join("data.yaml")).unwrap();
    let data = data.replace("namespaces: [mcp-ephemeral]", "namespaces: [elsewhere]");
    std::fs::write(bundle.join("data.yaml"), data).unwrap();
    let path = bundle.to_str().unwrap();
    let report = stage.run(&["--embedded", "--policies", path, "--allowed-images", "busybox:1.36"]).await;
    report.says("policy.sample", "run_job", "failed", "[namespaces.not_listed]", "allowed: elsewhere");
    assert_eq!(report.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_log_that_cannot_be_written_or_continued_is_told() {
    let stage = Stage::new(33, Some(33));
    let home = stage.home.path();
    let place = async |path: &Path| {
        stage.run(&["--embedded", "--allow-namespaces", "", "--audit", path.to_str().unwrap()]).await
    };
    let blocked = home.join("file");
    write(&blocked, "");
    let report = place(&blocked.join("audit")).await;
    report.failed(&["audit.place"]);
    report.says("audit.place", "audit", "failed", "cannot open the audit file", "KUBEPERMIT_AUDIT");
    let report = place(Path::new(&format!("{}/", blocked.join("audit").display()))).await;
    report.says("audit.place", "audit", "failed", "cannot prepare the audit directory", "KUBEPERMIT_AUDIT");

    let torn = home.join("torn.jsonl");
    write(&torn, "{\"seq\":1");
    let report = place(&torn).await;
    report.says(
        "audit.place",
        "torn",
        "failed",
        "does not end in a newline",
        "without a record nothing runs",
    );
    std::fs::set_permissions(&torn, std::fs::Permissions::from_mode(0o666)).unwrap();
    let report = place(&torn).await;
    report.says("audit.place", "torn", "failed", "chmod 600", "without a record nothing runs");

    let open = home.join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let report = place(&open).await;
    report.says("audit.place", "open", "failed", "chmod go-w", "KUBEPERMIT_AUDIT");

    // In a directory, a torn log is evidence, and keeps nobody from recording.
    let logs = home.join("logs");
    std::fs::create_dir(&logs).unwrap();
    std::fs::set_permissions(&logs, std::fs::Permissions::from_mode(0o700)).unwrap();
    let before = kubepermit(home)
        .args(["call", "run_job", r#"{"image":"evil","command":["true"]}"#, "--embedded", "--audit"])
        .arg(&logs)
        .output()
        .unwrap();
    assert_eq!(before.status.code(), Some(2), "{before:?}");
    let report = place(&logs).await;
    report.passed();
    report.says("audit.place", "logs", "ok", "the ends of 1 logs were looked at", "");
    let good = std::fs::read_dir(&logs).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&good).unwrap();
    write(&logs.join("audit-torn.jsonl"), text.trim_end_matches('\n'));
    write(&logs.join("audit-changed.jsonl"), &text.replace("\"stop\"", "\"stup\""));
    let names = || std::fs::read_dir(&logs).unwrap().count();
    let report = place(&logs).await;
    report.passed();
    report.says("audit.tail", "audit-torn", "warning", "does not end in a newline", "keep it as evidence");
    report.says("audit.tail", "audit-changed", "warning", "its own hash", "keep it as evidence");
    assert_eq!(names(), 3, "doctor leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_a_server_holds_is_a_warning() {
    let stage = Stage::new(33, Some(33));
    let log = stage.home.path().join("log.jsonl");
    let path = log.to_str().unwrap();
    let mut session = crate::session::Session::start(stage.home.path(), &["--embedded", "--audit", path]);
    session.initialize("2025-11-25");
    let report = stage.run(&["--embedded", "--audit", path]).await;
    report.passed();
    report.says("audit.place", path, "warning", "another process writes it", "name a directory");
    drop(session);
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_nobody_reads_are_warned_of() {
    let stage = Stage::new(33, Some(33));
    let mut command = stage.command(&["--embedded"]);
    command.env("MCP_K8S_ALOWED_IMAGES", "busybox");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["checks"][0]["check"], json!("config.variables"));
    assert!(document["checks"][0]["found"].as_str().unwrap().contains("MCP_K8S_ALOWED_IMAGES"));
    assert_eq!(output.status.code(), Some(0));
}
