//! The hand-driven session of the lesson on a read-only kubectl server, line for line.

use serde_json::{Value, json};

use super::{Stage, text};
use crate::session::{Session, audit_records};

/// The fake of the lesson, and a line in a log for each start.
const FAKE: &str = "echo \"$*\" >>\"$LOG\"\necho \"fake-kubectl $*\"";

const LINES: [&str; 5] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list_pods","arguments":{"namespace":"dev"}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"list_pods","arguments":{"namespace":"prod"}}}"#,
];

#[test]
fn the_lessons_session_works_line_for_line() {
    let stage = Stage::new(FAKE);
    let audit = stage.home.path().join("audit.jsonl");
    let arguments = [
        "--allow-namespaces",
        "dev,staging",
        "--context",
        "kind-lab",
        "--max-output",
        "20000",
        "--audit",
        audit.to_str().unwrap(),
    ];
    let mut session = Session::spawn(stage.server(&arguments));
    for line in LINES {
        session.send_raw(format!("{line}\n").as_bytes());
    }
    let (status, answers) = session.finish();
    assert!(status.success());
    assert_eq!(answers.len(), 4, "a notification has no answer: {answers:?}");
    let by_id = |id: i64| answers.iter().find(|answer| answer["id"] == json!(id)).unwrap();
    assert_eq!(by_id(1)["result"]["protocolVersion"], json!("2025-06-18"));

    let tools = by_id(2)["result"]["tools"].as_array().unwrap();
    for name in ["list_pods", "pod_logs", "describe_resource", "list_events"] {
        let tool =
            tools.iter().find(|tool| tool["name"] == json!(name)).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(tool["annotations"]["readOnlyHint"], json!(true));
        assert!(tool["description"].as_str().unwrap().contains("dev, staging"), "{tool}");
    }

    let (is_error, output) = text(&by_id(3)["result"]);
    assert!(!is_error, "{output}");
    assert!(output.starts_with("fake-kubectl get "), "{output}");
    assert_eq!(by_id(3)["result"]["structuredContent"]["output"], json!(output));
    assert_eq!(by_id(3)["result"]["structuredContent"]["truncated"], json!(false));
    for token in ["--namespace=dev", "--context=kind-lab", "-- pods"] {
        assert!(output.contains(token), "{token} is not in: {output}");
    }

    let (is_error, refusal) = text(&by_id(4)["result"]);
    assert!(is_error && refusal.contains("dev") && refusal.contains("staging"), "{refusal}");
    let log = stage.log();
    assert_eq!(log.lines().count(), 1, "kubectl was started for a refused call: {log}");
    assert!(log.contains("--namespace=dev") && !log.contains("prod"));

    let records = audit_records(&audit);
    let decisions: Vec<&Value> =
        records.iter().filter(|record| record["kind"] == json!("decision")).collect();
    assert_eq!(decisions.len(), 2);
    // The calls are answered at once, in whichever order.
    let allowed = decisions.iter().find(|record| record["decision"]["allow"] == json!(true)).unwrap();
    assert_eq!(allowed["subject"]["argv"].as_array().unwrap().join(" "), log.trim_end());
    let outcome = records.iter().find(|record| record["kind"] == json!("outcome")).unwrap();
    assert_eq!(outcome["outcome"]["status"], json!("succeeded"));
    assert_eq!(outcome["outcome"]["exit_code"], json!(0));
    assert_eq!(outcome["outcome"]["output"]["len"], json!(output.len()));
}

trait Join {
    fn join(&self, separator: &str) -> String;
}

impl Join for Vec<Value> {
    fn join(&self, separator: &str) -> String {
        self.iter().map(|value| value.as_str().unwrap()).collect::<Vec<_>>().join(separator)
    }
}

#[test]
fn every_namespace_at_once_is_refused_unless_each_may_be_read() {
    let stage = Stage::new(FAKE);
    let mut session = stage.session(&["--allow-namespaces", "dev"]);
    let (is_error, _) = text(&session.call("list_pods", json!({})));
    assert!(is_error);
    assert_eq!(stage.log(), "");
    drop(session);
    let mut session = stage.session(&["--allow-namespaces", "*"]);
    let (is_error, output) = text(&session.call("list_pods", json!({})));
    assert!(!is_error && output.contains("--all-namespaces=true"), "{output}");
    assert!(session.call("list_pods", json!({}))["structuredContent"].get("namespace").is_none());
}

#[test]
fn output_is_cut_with_the_lessons_marker() {
    let stage = Stage::new("i=0; while [ $i -lt 100 ]; do echo \"line $i\"; i=$((i+1)); done");
    let mut session = stage.session(&["--allow-namespaces", "dev", "--max-output", "50"]);
    let result = session.call("pod_logs", json!({ "namespace": "dev", "name": "web" }));
    let (is_error, output) = text(&result);
    assert!(!is_error);
    // 100 lines are 790 characters; the last six lines are 48 of them.
    assert!(output.starts_with("… truncated (742 more characters); "), "{output}");
    assert!(output.ends_with("\nline 94\nline 95\nline 96\nline 97\nline 98\nline 99\n"), "{output}");
    assert_eq!(result["structuredContent"]["omitted_characters"], json!(742));
    assert_eq!(result["structuredContent"]["truncated"], json!(true));
}

#[test]
fn without_kubectl_the_tools_stay_and_say_what_is_missing() {
    let stage = Stage::new(FAKE);
    std::fs::remove_file(stage.bin().join("kubectl")).unwrap();
    // A relative entry leads into the working directory, where an agent's repository could hold anything.
    let planted = Stage::new(FAKE);
    let mut command = stage.server(&["--allow-namespaces", "dev"]);
    command.env("PATH", ".:bin::").current_dir(planted.home.path());
    let mut session = Session::spawn(command);
    session.initialize("2025-11-25");
    let tools = session.request("tools/list", json!({}));
    assert!(tools.to_string().contains("\"list_pods\""));
    let result = session.call("list_pods", json!({ "namespace": "dev" }));
    let (is_error, message) = text(&result);
    assert!(is_error, "{message}");
    for part in ["[kubectl.not_installed]", "KUBEPERMIT_KUBECTL", "--kubectl"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(
        result["_meta"]["kubepermit/error"]["error"]["reasons"][0]["code"],
        json!("kubectl.not_installed")
    );
    assert_eq!(planted.log(), "");
    let records = audit_records(&stage.audit());
    let outcome = records.iter().find(|record| record["kind"] == json!("outcome")).unwrap();
    assert_eq!(outcome["outcome"]["reason"], json!("kubectl.not_installed"));
    assert_eq!(outcome["outcome"]["status"], json!("error"));
}

#[test]
fn kubectl_may_be_named() {
    let stage = Stage::new("echo first");
    let other = stage.program("other", "echo other");
    let mut session = stage.session(&["--allow-namespaces", "dev", "--kubectl", other.to_str().unwrap()]);
    assert_eq!(text(&session.call("list_pods", json!({ "namespace": "dev" }))).1, "other\n");
}
