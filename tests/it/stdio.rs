//! run_job over stdio against the embedded cluster: what an agent gets, case by case.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use std::time::{Duration, Instant};

use crate::session::{Session, audit_records, kubepermit};

fn embedded(home: &std::path::Path, more: &[&str]) -> Session {
    let mut session = Session::start(home, &[&["--embedded"], more].concat());
    session.initialize("2025-06-18");
    session
}

fn artifacts(result: &Value) -> Vec<(String, Vec<u8>)> {
    result["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            let content = STANDARD.decode(file["content_b64"].as_str().unwrap()).unwrap();
            assert_eq!(file["size"], json!(content.len()));
            (file["name"].as_str().unwrap().to_owned(), content)
        })
        .collect()
}

#[test]
fn a_session_from_the_handshake_to_the_end_of_input() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::start(home.path(), &["--embedded"]);
    let server = session.initialize("2025-06-18");
    assert_eq!(server["protocolVersion"], json!("2025-06-18"));
    assert_eq!(server["serverInfo"]["name"], json!("kubepermit"));

    let tools = session.request("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "cancel_job",
            "describe_resource",
            "fetch_job",
            "list_events",
            "list_pods",
            "pod_logs",
            "run_job",
            "submit_job"
        ]
    );
    for tool in &tools[6..] {
        assert!(tool["description"].as_str().unwrap().contains("busybox:1.36"), "{tool}");
    }
    let writes = [&tools[0]["name"], &tools[6]["name"], &tools[7]["name"]];
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false));
        assert_eq!(tool["annotations"]["readOnlyHint"], json!(!writes.contains(&&tool["name"])), "{tool}");
        // What the descriptions leave open is filled in.
        assert!(!tool["description"].as_str().unwrap().contains(['{', '}']), "{tool}");
    }

    let result = session.run_job(json!({
        "image": "busybox", "command": ["sh", "-c", "echo hello; echo data > out.txt"],
    }));
    assert_eq!(result["status"], json!("succeeded"), "{result}");
    assert_eq!(result["exit_code"], json!(0));
    assert_eq!(result["stdout"], json!("hello\n"));
    assert_eq!(result["stderr"], json!(""));
    assert_eq!(result["truncated"], json!({ "stdout": false, "stderr": false, "artifacts": false }));
    assert_eq!(artifacts(&result), [("out.txt".to_owned(), b"data\n".to_vec())]);

    let (status, rest) = session.finish();
    assert!(status.success(), "{status}");
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn every_handshake_revision_is_spoken() {
    // The revisions of modelcontextprotocol.io that have a handshake.
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let home = tempfile::tempdir().unwrap();
        let mut session = Session::start(home.path(), &["--embedded"]);
        assert_eq!(session.initialize(version)["protocolVersion"], json!(version));
        assert!(session.request("tools/list", json!({}))["result"]["tools"].is_array());
    }
}

#[test]
fn the_revision_without_a_handshake_is_spoken() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::start(home.path(), &["--embedded"]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let answer = session.request("server/discover", json!({ "_meta": meta }));
    assert!(
        answer["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{answer}"
    );
    let answer = session.request(
        "tools/call",
        json!({ "_meta": meta, "name": "run_job", "arguments": { "image": "busybox", "command": ["echo", "hi"] } }),
    );
    assert_eq!(answer["result"]["structuredContent"]["stdout"], json!("hi\n"), "{answer}");
}

#[test]
fn an_input_file_comes_back_only_if_it_changed() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let file = |path: &str, content: &[u8]| json!({ "path": path, "content_b64": STANDARD.encode(content) });
    let result = session.run_job(json!({
        "image": "busybox",
        "command": ["sh", "-c", "cat same.txt deep/er/changed.txt; wc -c < empty; echo more >> deep/er/changed.txt"],
        "files": [file("same.txt", b"same\n"), file("deep/er/changed.txt", b"first\n"), file("empty", b"")],
    }));
    assert_eq!(result["status"], json!("succeeded"), "{result}");
    assert_eq!(result["stdout"], json!("same\nfirst\n0\n"));
    assert_eq!(artifacts(&result), [("deep/er/changed.txt".to_owned(), b"first\nmore\n".to_vec())]);
}

#[test]
fn modes_bytes_and_emptiness_survive_the_way_in_and_out() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let result = session.run_job(json!({
        "image": "busybox",
        "command": ["sh", "-c", "./copy.sh; : > empty.out"],
        "files": [
            { "path": "copy.sh", "content_b64": STANDARD.encode("#!/bin/sh\ncp in.bin out.bin\n"), "mode": "0755" },
            { "path": "in.bin", "content_b64": STANDARD.encode(&bytes) },
        ],
    }));
    assert_eq!(result["status"], json!("succeeded"), "{result}");
    assert_eq!(artifacts(&result), [("empty.out".to_owned(), vec![]), ("out.bin".to_owned(), bytes)]);
}

#[test]
fn a_non_zero_exit_is_a_result() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let result =
        session.run_job(json!({ "image": "busybox", "command": ["sh", "-c", "echo no >&2; exit 3"] }));
    assert_eq!(result["status"], json!("failed"));
    assert_eq!(result["exit_code"], json!(3));
    assert_eq!(result["stdout"], json!("no\n"), "standard error is part of the output");
}

#[test]
fn a_time_out_brings_what_there_is() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let result = session.run_job(json!({
        "image": "busybox", "timeout_s": 1,
        "command": ["sh", "-c", "echo begun; echo half > half.txt; sleep 30; echo never"],
    }));
    assert_eq!(result["status"], json!("timeout"), "{result}");
    assert_eq!(result["reason"], json!("timeout"));
    assert_eq!(result["exit_code"], json!(-1));
    assert_eq!(result["stdout"], json!("begun\n"));
    assert_eq!(artifacts(&result), [("half.txt".to_owned(), b"half\n".to_vec())]);
}

#[test]
fn a_listed_image_that_does_not_exist_says_so() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &["--allowed-images", "busybox:1.36,ghost:1"]);
    let result = session.run_job(json!({ "image": "ghost:1", "command": ["true"] }));
    assert_eq!(result["status"], json!("error"), "{result}");
    assert_eq!(result["reason"], json!("image_pull_failed"));
    assert_eq!(result["exit_code"], json!(-1));
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("ghost:1") && message.contains("not found"), "{message}");
}

#[test]
fn output_over_the_cap_keeps_its_tail() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &["--max-output-bytes", "1000"]);
    // 10,000 characters of three bytes each, and a last line: the cut must not fall inside one.
    let script = "i=0; while [ $i -lt 1000 ]; do printf '€€€€€€€€€€'; i=$((i+1)); done; echo; echo the end";
    let result = session.run_job(json!({ "image": "busybox", "command": ["sh", "-c", script] }));
    let output = result["stdout"].as_str().unwrap();
    assert!(output.ends_with("€\nthe end\n"), "{output}");
    assert!(output.starts_with('€') && !output.contains('\u{fffd}'));
    assert!(output.len() <= 1000 && output.len() > 990, "{}", output.len());
    assert_eq!(result["truncated"]["stdout"], json!(true));
    let total = 30_000 + 1 + "the end\n".len();
    assert_eq!(result["omitted_bytes"], json!(total - output.len()));
}

#[test]
fn a_refusal_says_which_rule_and_what_to_change() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let text = session.refused(json!({ "image": "evil", "command": ["true"] }));
    for part in ["images.not_listed", "/image", "busybox:1.36"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let text = session.refused(json!({ "image": "busybox" }));
    assert!(text.contains("schema.required") && text.contains("`command`"), "{text}");
    let text = session.refused(json!({ "image": "busybox", "command": ["true"], "limits": { "cpu": "1K" } }));
    assert!(text.contains("/limits/cpu"), "{text}");
    let text = session.refused(json!({ "image": "busybox", "command": ["true"], "timeout_s": 86400 }));
    assert!(text.contains("/timeout_s") && text.contains("600"), "{text}");
}

#[test]
fn repeated_keys_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    session.send_raw(
        b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/call\",\"params\":{\"name\":\"run_job\",\
          \"arguments\":{\"image\":\"evil\",\"image\":\"busybox\",\"command\":[\"true\"]}}}\n",
    );
    let answer = session.receive();
    assert_eq!(answer["id"], json!("x"));
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("schema.duplicate_key") && text.contains("/image"), "{text}");
}

#[test]
fn protocol_faults_are_protocol_errors() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    // JSON-RPC 2.0, section 5.1, and MCP's "Unknown tool: -32602".
    assert_eq!(
        code(&session.request("tools/call", json!({ "name": "rm_rf", "arguments": {} }))),
        Some(-32602)
    );
    assert_eq!(code(&session.request("tools/call", json!({ "arguments": {} }))), Some(-32602));
    assert_eq!(code(&session.request("tools/call", json!({ "name": 7 }))), Some(-32602));
    assert_eq!(
        code(&session.request("tools/call", json!({ "name": "run_job", "arguments": [1] }))),
        Some(-32602)
    );
    assert_eq!(code(&session.request("no/such/method", json!({}))), Some(-32601));
    session.send_raw(b"this is not json\n");
    assert_eq!(code(&session.receive()), Some(-32700));
    session.send_raw(b"[]\n");
    assert_eq!(code(&session.receive()), Some(-32600));
    session.send_raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard/of\"}\n");
    session.expect_silence();
    // The session lives on.
    assert!(session.request("ping", json!({}))["result"].is_object());
}

#[test]
fn a_notification_before_the_handshake_is_no_end() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::start(home.path(), &["--embedded"]);
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(session.initialize("2025-06-18")["serverInfo"]["name"], json!("kubepermit"));
}

#[test]
fn before_the_handshake_a_call_is_refused_and_recorded() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::start(home.path(), &["--embedded"]);
    let answer = session.request("tools/call", json!({ "name": "run_job", "arguments": {} }));
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("initialize"), "{answer}");
    // A ping is answered, and what follows it does not end the session.
    assert!(session.request("ping", json!({}))["result"].is_object());
    session.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    session.send(&json!({ "jsonrpc": "2.0", "id": 77, "result": {} }));
    assert_eq!(session.initialize("2025-06-18")["serverInfo"]["name"], json!("kubepermit"));
    drop(session);
    let records = audit_records(&home.path().join(".local/state/kubepermit/audit"));
    let codes: Vec<&Value> = records.iter().map(|record| &record["decision"]["reasons"][0]["code"]).collect();
    assert!(codes.contains(&&json!("message.out_of_turn")), "{records:?}");
}

#[test]
fn an_id_in_use_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    let call = |command: &str| {
        json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {
            "name": "run_job", "arguments": { "image": "busybox", "command": ["sh", "-c", command] },
        } })
    };
    session.send(&call("sleep 1; echo first"));
    session.send(&call("echo second"));
    let answer = session.receive();
    assert_eq!(answer["error"]["code"], json!(-32600), "{answer}");
    let answer = session.receive();
    assert_eq!(answer["result"]["structuredContent"]["stdout"], json!("first\n"), "{answer}");
    session.send(&call("echo third"));
    let answer = session.receive();
    assert_eq!(answer["result"]["structuredContent"]["stdout"], json!("third\n"), "{answer}");
}

/// A model's usual slip is JSON inside of a string. It may hold a secret, so nothing of it is repeated, neither
/// to the client nor in the log.
#[test]
fn params_of_another_form_are_never_quoted() {
    let home = tempfile::tempdir().unwrap();
    let mut command = kubepermit(home.path());
    let log = home.path().join("log");
    command.args(["serve", "--embedded", "--log", "trace"]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut session = Session::spawn(command);
    session.initialize("2025-06-18");
    let params = json!({ "name": "run_job", "arguments": "{\"env\":{\"TOKEN\":\"CANARY\"}}" });
    let answer = session.request("tools/call", params);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("`arguments` has to be an object, and is a string"), "{text}");
    let (_, rest) = session.finish();
    assert!(!format!("{answer}{rest:?}").contains("CANARY"));
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("audit records go to"), "the log is there: {log}");
    assert!(!log.contains("CANARY"), "{log}");
}

#[test]
fn a_client_that_closed_standard_error_gets_its_answers() {
    let home = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = kubepermit(home.path());
    command.args(["serve", "--embedded"]).stderr(writer);
    let mut session = Session::spawn(command);
    drop(reader);
    session.initialize("2025-06-18");
    // Each of these logs a line.
    let answer = session.request("tools/call", json!({ "name": "no_such_tool", "arguments": {} }));
    assert_eq!(answer["error"]["code"], json!(-32602), "{answer}");
    assert_eq!(
        session.run_job(json!({ "image": "busybox", "command": ["echo", "hi"] }))["stdout"],
        json!("hi\n")
    );
}

#[test]
fn a_hang_up_ends_the_job_and_closes_its_record() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    session.send(&json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "run_job", "arguments": { "image": "busybox", "command": ["sleep", "300"] },
    } }));
    let audit = home.path().join(".local/state/kubepermit/audit");
    let begun = Instant::now();
    while !audit_records(&audit).iter().any(|record| record["decision"]["allow"] == json!(true)) {
        assert!(begun.elapsed().as_secs() < 30, "the call is not recorded");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = nix::unistd::Pid::from_raw(session.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    let (status, _) = session.finish();
    assert!(status.success(), "{status}");
    let records = audit_records(&audit);
    let outcome = records.iter().find(|record| record["kind"] == json!("outcome")).unwrap();
    assert_eq!(outcome["outcome"]["reason"], json!("cancelled"));
    assert_eq!(records.last().unwrap()["kind"], json!("stop"));
}

#[test]
fn without_a_cluster_the_handshake_works_and_a_call_says_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("no-such-kubeconfig");
    let arguments = ["--allowed-images", "busybox:1.36", "--kubeconfig", missing.to_str().unwrap()];
    let mut session = Session::start(home.path(), &arguments);
    session.initialize("2025-06-18");
    assert!(session.request("tools/list", json!({})).to_string().contains("\"run_job\""));
    let result = session.run_job(json!({ "image": "busybox", "command": ["true"] }));
    assert_eq!(result["status"], json!("error"), "{result}");
    assert_eq!(result["reason"], json!("apiserver_unavailable"));
    assert!(result["message"].as_str().unwrap().contains("no-such-kubeconfig"), "{result}");
}

#[test]
fn an_end_of_input_lets_a_short_call_finish() {
    let home = tempfile::tempdir().unwrap();
    let mut session = embedded(home.path(), &[]);
    session.send(&json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
        "name": "run_job", "arguments": { "image": "busybox", "command": ["sh", "-c", "sleep 1; echo done"] },
    } }));
    // No newline after the last message either, as printf leaves it.
    session.send_raw(br#"{"jsonrpc":"2.0","id":10,"method":"ping"}"#);
    let (status, rest) = session.finish();
    assert!(status.success());
    let answered: Vec<&Value> = rest.iter().map(|message| &message["id"]).collect();
    assert!(answered.contains(&&json!(9)) && answered.contains(&&json!(10)), "{rest:?}");
}
