//! The real kubectl on the embedded cluster: what a person who tries it out sees.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::text;
use crate::session::{Session, audit_records, kubepermit};

/// The kubectl of this machine.
pub(super) fn installed() -> Option<PathBuf> {
    ["/usr/local/bin/kubectl", "/usr/bin/kubectl"].map(PathBuf::from).into_iter().find(|path| path.exists())
}

/// The kubectl that `tests/clients/newer_kubectl.sh` put beside the build's output.
pub(super) fn newer() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_kubepermit")).parent()?.parent()?;
    let entries = std::fs::read_dir(target).ok()?.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"kubectl-")))
        .map(|path| path.join("kubectl"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found.pop()
}

fn reads_on_the_embedded_cluster(kubectl: &Path) {
    let home = tempfile::tempdir().unwrap();
    let mut command = kubepermit(home.path());
    command.args(["serve", "--embedded", "--kubectl", kubectl.to_str().unwrap()]);
    let mut session = Session::spawn(command);
    session.initialize("2025-11-25");
    let namespace = json!({ "namespace": "mcp-ephemeral" });
    assert_eq!(text(&session.call("list_pods", namespace.clone())), (false, "No pods found.\n".to_owned()));

    // A job that runs while it is looked at.
    session
        .send(&json!({ "jsonrpc": "2.0", "id": "job", "method": "tools/call", "params": { "name": "run_job",
        "arguments": { "image": "busybox", "command": ["sh", "-c", "echo one; echo two; sleep 60"] } } }));
    let started = Instant::now();
    let row = loop {
        let (is_error, output) = text(&session.call("list_pods", namespace.clone()));
        assert!(!is_error, "{output}");
        if let Some(row) = output.lines().find(|line| line.contains(" Running ")) {
            break row.to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "{output}");
    };
    let pod = row.split_whitespace().next().unwrap();
    let with = |more: Value| {
        let mut arguments = json!({ "namespace": "mcp-ephemeral", "name": pod });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let read = |session: &mut Session, tool: &str, arguments: Value| {
        let (is_error, output) = text(&session.call(tool, arguments.clone()));
        assert!(!is_error, "{tool} {arguments}: {output}");
        output
    };
    let logs = read(&mut session, "pod_logs", with(json!({ "container": "main" })));
    assert!(logs.ends_with("one\ntwo\n"), "{logs}");
    let last = read(&mut session, "pod_logs", with(json!({ "container": "main", "tail_lines": 1 })));
    assert!(last.ends_with("two\n") && !last.contains("one"), "{last}");
    let described = read(&mut session, "describe_resource", with(json!({ "kind": "pod" })));
    assert!(described.starts_with("Name:") && described.contains(pod), "{described}");
    assert!(described.contains("\nEvents:\n") && described.contains("Started"), "{described}");
    let job = pod.rsplit_once('-').unwrap().0;
    let described = read(
        &mut session,
        "describe_resource",
        json!({ "namespace": "mcp-ephemeral", "kind": "job", "name": job }),
    );
    assert!(described.contains("SuccessfulCreate"), "{described}");
    let events = read(
        &mut session,
        "list_events",
        json!({ "namespace": "mcp-ephemeral", "for_kind": "pod", "for_name": pod }),
    );
    assert!(events.starts_with("LAST SEEN   TYPE") && events.contains("Started container main"), "{events}");
    assert!(!events.contains("SuccessfulCreate"), "that is the job's: {events}");

    for (tool, arguments, code) in [
        ("pod_logs", json!({ "namespace": "default", "name": "absent" }), "kubectl.not_found"),
        ("pod_logs", with(json!({ "container": "nobody" })), "kubectl.no_such_container"),
        ("pod_logs", with(json!({ "container": "main", "previous": true })), "kubectl.no_previous"),
        (
            "describe_resource",
            json!({ "namespace": "default", "kind": "job", "name": "absent" }),
            "kubectl.not_found",
        ),
    ] {
        let (is_error, message) = text(&session.call(tool, arguments.clone()));
        assert!(is_error && message.contains(&format!("[{code}]")), "{tool} {arguments}: {message}");
    }
    assert!(text(&session.call("list_pods", json!({ "namespace": "kube-system" }))).0);
    let records = audit_records(&home.path().join(".local/state/kubepermit/audit"));
    let reads = records.iter().filter(|record| record["subject"]["kind"] == json!("kubectl")).count();
    assert!(reads >= 10, "{reads}");
    session.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "job" } }),
    );
}

#[test]
fn the_installed_kubectl_reads_the_embedded_cluster() {
    match installed() {
        Some(kubectl) => reads_on_the_embedded_cluster(&kubectl),
        None => eprintln!("skipped: no kubectl is installed"),
    }
}

#[test]
fn a_newer_kubectl_reads_the_embedded_cluster() {
    match newer() {
        Some(kubectl) => reads_on_the_embedded_cluster(&kubectl),
        None => eprintln!("skipped: tests/clients/newer_kubectl.sh has not been run"),
    }
}

/// What each kubectl says of a cluster that it cannot use.
fn fails_with_a_code(kubectl: &Path) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("kubeconfig");
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: aws}}";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    for (server, user, code) in [
        ("http://127.0.0.1:1", "{}", "kubectl.unreachable"),
        (silent.as_str(), "{}", "kubectl.unreachable"),
        ("https://127.0.0.1:1", exec, "kubectl.credential_plugin"),
        ("https://127.0.0.1:1", "{auth-provider: {name: gcp}}", "kubectl.credential_plugin"),
        ("https://127.0.0.1:1", "{tokenFile: /nonexistent}", "kubectl."),
    ] {
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        std::fs::write(&path, config).unwrap();
        let mut command = kubepermit(home.path());
        command.args(["serve", "--allow-namespaces", "dev", "--kubectl", kubectl.to_str().unwrap()]);
        command.args(["--read-kubeconfig", path.to_str().unwrap(), "--read-timeout-s", "3"]);
        let mut session = Session::spawn(command);
        session.initialize("2025-11-25");
        let (is_error, message) = text(&session.call("list_pods", json!({ "namespace": "dev" })));
        assert!(
            is_error && (message.contains(&format!("[{code}")) || message.contains("[kubectl.timeout]")),
            "{user}: {message}"
        );
        assert!(!message.contains("127.0.0.1") && !message.contains("memcache"), "{message}");
    }
}

#[test]
fn real_failures_have_codes() {
    for kubectl in installed().into_iter().chain(newer()) {
        fails_with_a_code(&kubectl);
    }
}
