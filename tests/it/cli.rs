//! The command line: exit codes, what goes to standard output, and every configuration fault at once.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::session::{audit_records, kubepermit};

fn run(home: &Path, arguments: &[&str]) -> (Output, Value) {
    let output = kubepermit(home).args(arguments).output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, document)
}

const HELLO: &str = r#"{"image":"busybox","command":["sh","-c","echo hello; echo data > out.txt"]}"#;

#[test]
fn a_call_and_a_refusal_are_both_recorded_and_chained() {
    let home = tempfile::tempdir().unwrap();
    let (output, result) = run(home.path(), &["call", "run_job", HELLO, "--embedded"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(result["status"], json!("succeeded"));
    assert_eq!(result["stdout"], json!("hello\n"));
    assert_eq!(result["artifacts"][0]["name"], json!("out.txt"));

    let (output, refusal) =
        run(home.path(), &["call", "run_job", r#"{"image":"evil","command":["true"]}"#, "--embedded"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(refusal["error"]["stage"], json!("policy"));
    assert_eq!(refusal["error"]["reasons"][0]["code"], json!("images.not_listed"));
    assert!(!refusal["error"]["reasons"][0]["hint"].as_str().unwrap().is_empty());

    let records = audit_records(&home.path().join(".local/state/kubepermit/audit"));
    let of = |id: &Value| -> Vec<&Value> {
        records.iter().filter(|record| record["decision_id"] == *id).collect()
    };
    let allowed = of(&result["decision_id"]);
    assert_eq!(allowed.len(), 2, "{records:?}");
    assert_eq!(allowed[0]["decision"]["allow"], json!(true));
    assert_eq!(allowed[1]["kind"], json!("outcome"));
    let denied = of(&refusal["decision_id"]);
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0]["decision"]["allow"], json!(false));
    assert_eq!(denied[0]["decision"]["reasons"][0]["code"], json!("images.not_listed"));
}

#[test]
fn exit_codes_tell_success_failure_and_refusal_apart() {
    let home = tempfile::tempdir().unwrap();
    let failing = r#"{"image":"busybox","command":["sh","-c","exit 7"]}"#;
    let (output, result) = run(home.path(), &["call", "run_job", failing, "--embedded"]);
    assert_eq!((output.status.code(), &result["exit_code"]), (Some(1), &json!(7)));
    let (output, refusal) = run(home.path(), &["call", "run_job", r#"{"image":"busybox"}"#, "--embedded"]);
    assert_eq!((output.status.code(), &refusal["error"]["stage"]), (Some(2), &json!("schema")));
    let (output, refusal) = run(home.path(), &["call", "no_such_tool", "{}", "--embedded"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(refusal["error"]["reasons"][0]["code"], json!("schema.unknown_tool"));
    let twice = r#"{"image":"evil","image":"busybox","command":["true"]}"#;
    let (output, refusal) = run(home.path(), &["call", "run_job", twice, "--embedded"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(refusal["error"]["reasons"][0]["code"], json!("schema.duplicate_key"));
    let (output, _) = run(home.path(), &["call", "run_job", "not json", "--embedded"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_dry_run_shows_the_manifest_and_runs_nothing() {
    let home = tempfile::tempdir().unwrap();
    // The reference server's own example, with all defaults.
    let call = r#"{"image":"python:3.12-slim","command":["python","gen.py"],
        "files":[{"path":"gen.py","content_b64":"cHJpbnQoMSk="}],
        "limits":{"cpu":"500m","memory":"256Mi"},"timeout_s":30}"#;
    let (output, preview) = run(
        home.path(),
        &[
            "call",
            "run_job",
            call,
            "--dry-run",
            "--allowed-images",
            "busybox:1.36,python:3.12-slim",
            "--kubeconfig",
            "/nonexistent",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(preview["allow"], json!(true));
    assert_eq!(preview["manifest"]["kind"], json!("Job"));
    let main = &preview["manifest"]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(main["image"], json!("docker.io/library/python:3.12-slim"));
    assert_eq!(main["resources"]["requests"]["cpu"], json!("500m"));
    assert_eq!(main["resources"]["requests"]["memory"], json!("256Mi"));
    assert_eq!(main["resources"]["limits"]["cpu"], json!("500m"));
    assert_eq!(main["resources"]["limits"]["memory"], json!("256Mi"));

    let (output, preview) = run(
        home.path(),
        &[
            "call",
            "run_job",
            r#"{"image":"evil","command":["true"]}"#,
            "--dry-run",
            "--kubeconfig",
            "/nonexistent",
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(preview["allow"], json!(false));
}

#[test]
fn arguments_may_come_from_a_file() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("call.json"), HELLO).unwrap();
    let (output, result) = run(home.path(), &["call", "run_job", "@call.json", "--embedded"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(result["stdout"], json!("hello\n"));
}

#[test]
fn a_dry_run_leaves_no_trace() {
    let home = tempfile::tempdir().unwrap();
    let (output, _) = run(home.path(), &["call", "run_job", HELLO, "--embedded", "--dry-run"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn empty_variables_are_unset_ones() {
    let home = tempfile::tempdir().unwrap();
    let output = kubepermit(home.path())
        .args(["call", "run_job", HELLO, "--embedded"])
        .envs(
            ["KUBEPERMIT_CONFIG", "KUBEPERMIT_LOG", "KUBEPERMIT_POLICIES", "KUBEPERMIT_AUDIT"]
                .map(|name| (name, "")),
        )
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output =
        kubepermit(home.path()).args(["policy", "test"]).env("KUBEPERMIT_POLICIES", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// An agent's repository may be the working directory: nothing in it is ever looked for.
#[test]
fn a_path_in_the_file_is_meant_from_the_file() {
    let home = tempfile::tempdir().unwrap();
    let (there, here) = (home.path().join("etc"), home.path().join("repository"));
    std::fs::create_dir(&there).unwrap();
    std::fs::create_dir(&here).unwrap();
    for place in [&there, &here] {
        let output =
            kubepermit(home.path()).args(["policy", "init"]).arg(place.join("rules")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    std::fs::write(here.join("rules/data.yaml"), "the wrong one").unwrap();
    std::fs::write(there.join("kubepermit.yaml"), "policies: rules\n").unwrap();
    let output = kubepermit(home.path())
        .current_dir(&here)
        .args(["tools", "--config"])
        .arg(there.join("kubepermit.yaml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_level_alone_is_a_log_filter() {
    let home = tempfile::tempdir().unwrap();
    let lines = |filter: &str| {
        let output =
            kubepermit(home.path()).args(["call", "run_job", HELLO, "--embedded", "--log", filter]).output();
        String::from_utf8(output.unwrap().stderr).unwrap().lines().count()
    };
    assert_eq!(lines("off"), 0);
    assert!(lines("info") >= 2);
    assert!(lines("debug") > lines("info"));
}

#[test]
fn a_misspelt_variable_is_told() {
    let home = tempfile::tempdir().unwrap();
    let mut command = kubepermit(home.path());
    command.args(["serve", "--embedded"]).env("MCP_K8S_TIMEOUT", "5").stdin(std::process::Stdio::null());
    let text = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(text.contains("MCP_K8S_TIMEOUT is set, but there is no such setting"), "{text}");
}

#[test]
fn every_configuration_fault_is_reported_at_once() {
    let home = tempfile::tempdir().unwrap();
    let output = kubepermit(home.path())
        .args(["serve", "--max-timeout-s", "soon"])
        .env("MCP_K8S_NAMESPACE", "No_Namespace")
        .env("MCP_K8S_DEFAULT_MEMORY", "1K")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty(), "standard output is the protocol's");
    let text = String::from_utf8(output.stderr).unwrap();
    for name in ["MCP_K8S_NAMESPACE", "MCP_K8S_DEFAULT_MEMORY", "MCP_K8S_MAX_TIMEOUT_S", "--max-timeout-s"] {
        assert!(text.contains(name), "{name} is not in: {text}");
    }
}

#[test]
fn tools_are_listed_without_a_cluster_or_an_audit_log() {
    let home = tempfile::tempdir().unwrap();
    let (output, list) =
        run(home.path(), &["tools", "--allowed-images", "busybox:1.36", "--allow-namespaces", "dev,staging"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let tool = |name: &str| {
        let tools = list["tools"].as_array().unwrap();
        let found = tools.iter().find(|tool| tool["name"] == json!(name));
        found.unwrap_or_else(|| panic!("no {name}"))["description"].as_str().unwrap()
    };
    assert!(tool("run_job").contains("busybox:1.36"));
    assert!(tool("list_pods").contains("dev, staging"));
    assert!(!home.path().join(".local").exists());
}

#[test]
fn a_policy_is_written_out_edited_and_used() {
    let home = tempfile::tempdir().unwrap();
    let (output, _) = run(home.path(), &["policy", "init", "my-policy"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (output, report) = run(home.path(), &["policy", "test", "--policies", "my-policy"]);
    assert_eq!(output.status.code(), Some(0), "{report}");

    let data = home.path().join("my-policy/data.yaml");
    let text = std::fs::read_to_string(&data).unwrap();
    std::fs::write(&data, text.replace("images: []", "images: [\"python:3.12-slim\"]")).unwrap();
    let call = r#"{"image":"python","command":["true"]}"#;
    let dry =
        ["call", "run_job", call, "--dry-run", "--policies", "my-policy", "--kubeconfig", "/nonexistent"];
    let (output, preview) = run(home.path(), &dry);
    assert_eq!(output.status.code(), Some(0), "{preview}");

    let (output, _) = run(home.path(), &["policy", "init", "my-policy"]);
    assert_eq!(output.status.code(), Some(2), "a directory that holds something is not written over");
}
