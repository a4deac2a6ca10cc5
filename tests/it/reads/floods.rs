//! A kubectl that hangs, floods or leaves children behind.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Stage, text};
use crate::session::Session;

/// Waits until no process has this pid; a zombie still has it.
fn gone(pid: &str) -> bool {
    let path = format!("/proc/{}", pid.trim());
    let started = Instant::now();
    while std::path::Path::new(&path).exists() {
        if started.elapsed() > Duration::from_secs(3) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

fn peak_memory(session: &Session) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn a_hang_ends_at_the_deadline_with_everything_that_it_started() {
    let stage = Stage::new("/bin/sleep 300 & echo $! >>\"$LOG\"; echo $$ >>\"$LOG\"; trap '' TERM; wait");
    let mut session = stage.session(&["--allow-namespaces", "dev", "--read-timeout-s", "1"]);
    let started = Instant::now();
    let (is_error, message) = text(&session.call("list_pods", json!({ "namespace": "dev" })));
    let took = started.elapsed();
    assert!(is_error && message.contains("[kubectl.timeout]"), "{message}");
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(2), "{took:?}");
    let log = stage.log();
    assert_eq!(log.lines().count(), 2);
    for pid in log.lines() {
        assert!(gone(pid), "{pid} is still there");
    }
}

#[test]
fn what_kubectl_leaves_behind_is_ended_and_its_output_kept() {
    let stage = Stage::new("/bin/sleep 300 & echo $! >>\"$LOG\"; echo done");
    let mut session = stage.session(&["--allow-namespaces", "dev"]);
    let started = Instant::now();
    let (is_error, output) = text(&session.call("list_pods", json!({ "namespace": "dev" })));
    assert!(!is_error && output == "done\n", "{output}");
    assert!(started.elapsed() < Duration::from_secs(5), "it waited for a child that holds the pipe");
    assert!(gone(&stage.log()));
}

#[test]
fn a_caller_that_leaves_ends_kubectl() {
    let stage = Stage::new("echo $$ >>\"$LOG\"; exec /bin/sleep 300");
    let mut session = stage.session(&["--allow-namespaces", "dev"]);
    session.send(&json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params":
        { "name": "list_pods", "arguments": { "namespace": "dev" } } }));
    let started = Instant::now();
    while stage.log().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    session.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "x" } }),
    );
    assert!(gone(&stage.log()));
}

#[test]
fn floods_are_read_to_their_end_in_bounded_memory() {
    let stage = Stage::new(
        r#"case "$*" in
*name-stream*|*=stream*) /usr/bin/head -c 50000000 /dev/zero | /usr/bin/tr '\0' 'y'; echo; echo last;;
*=line*) /usr/bin/head -c 5000000 /dev/zero | /usr/bin/tr '\0' 'z'; echo; echo last;;
*=bytes*) /usr/bin/head -c 3000000 /dev/zero | /usr/bin/tr '\0' '\377'; echo; echo last;;
*=errors*) /usr/bin/head -c 50000000 /dev/zero | /usr/bin/tr '\0' 'e' >&2; echo >&2; echo 'Error from server (NotFound): pods "a" not found' >&2; exit 1;;
esac"#,
    );
    let mut session = stage.session(&["--allow-namespaces", "*", "--max-output", "10000"]);
    session.call("pod_logs", json!({ "namespace": "warm-up", "name": "web" }));
    let before = peak_memory(&session);
    for (namespace, characters) in [("stream", 50_000_006_u64), ("line", 5_000_006), ("bytes", 3_000_006)] {
        let started = Instant::now();
        let result = session.call("pod_logs", json!({ "namespace": namespace, "name": "web" }));
        let (is_error, output) = text(&result);
        assert!(!is_error, "{output:.200}");
        assert!(output.ends_with("\nlast\n"), "{namespace}");
        assert!(output.chars().count() <= 10_000 + 200);
        let omitted = result["structuredContent"]["omitted_characters"].as_u64().unwrap();
        let kept = output.lines().skip(1).map(|line| line.chars().count() as u64 + 1).sum::<u64>();
        assert_eq!(omitted + kept, characters, "{namespace}");
        assert!(started.elapsed() < Duration::from_secs(25));
        // The same without a tail: the first part of what is no list.
        let (_, output) = text(&session.call("list_pods", json!({ "namespace": namespace })));
        assert!(output.contains("… truncated ("), "{output:.100}");
        assert!(output.chars().count() <= 10_000 + 200);
    }
    let (is_error, message) =
        text(&session.call("pod_logs", json!({ "namespace": "errors", "name": "web" })));
    assert!(is_error && message.contains("[kubectl.not_found]") && message.len() < 1000, "{message:.200}");
    let grown = peak_memory(&session) - before;
    eprintln!("floods took {grown} kB more than a first read");
    assert!(grown < 64 * 1024, "{grown} kB");
}

#[test]
fn more_reads_than_places_wait_and_too_many_are_told() {
    let stage = Stage::new("echo start >>\"$LOG\"; /bin/sleep 0.4; echo end >>\"$LOG\"");
    let mut session = stage.session(&["--allow-namespaces", "dev", "--max-reads", "1"]);
    for id in 100..112 {
        session.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params":
            { "name": "list_pods", "arguments": { "namespace": "dev" } } }));
    }
    let answers: Vec<_> = (0..12).map(|_| session.receive()).collect();
    let busy = answers.iter().filter(|answer| answer.to_string().contains("[kubectl.busy]")).count();
    assert_eq!(busy, 3, "one runs, eight wait: {answers:?}");
    let log = stage.log();
    assert_eq!(log, "start\nend\n".repeat(9), "two ran at once");
}
