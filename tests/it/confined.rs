//! What a job in the embedded cluster can reach of the machine, seen through run_job itself. `sandbox.rs` looks
//! at the confinement closer by.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::session::Session;

fn session(home: &Path) -> Session {
    let mut session = Session::start(home, &["--embedded", "--log", "warn"]);
    session.initialize("2025-06-18");
    session
}

#[test]
fn the_machines_secrets_are_out_of_sight() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".ssh")).unwrap();
    std::fs::write(home.path().join(".ssh/id_ed25519"), "PRIVATE").unwrap();
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    std::fs::write(home.path().join(".kube/config"), "PRIVATE").unwrap();
    let mut session = session(home.path());
    let home_path = home.path().display();
    let pid = session.pid();
    for path in [
        format!("{home_path}/.ssh/id_ed25519"),
        format!("{home_path}/.kube/config"),
        format!("{home_path}/.local/state/kubepermit/audit"),
        "/etc/shadow".to_owned(),
        format!("/proc/{pid}/environ"),
        format!("/proc/{pid}/root/etc/shadow"),
        "/root".to_owned(),
        "/home".to_owned(),
        "/var".to_owned(),
    ] {
        let script = format!("cat '{path}' 2>/dev/null || ls '{path}'/* 2>/dev/null");
        let result = session.run_job(json!({ "image": "busybox", "command": ["sh", "-c", script] }));
        assert_eq!(result["stdout"], json!(""), "{path}: {result}");
        assert_ne!(result["exit_code"], json!(0), "{path}: {result}");
    }
    // The looking itself works.
    let result = session.run_job(json!({ "image": "busybox", "command": ["sh", "-c", "cat /etc/passwd"] }));
    assert_eq!(result["exit_code"], json!(0), "{result}");
}

#[test]
fn no_connection_can_be_opened() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut session = session(home.path());
    let script = format!(
        "import socket\nfor address in ('127.0.0.1', 'localhost'):\n    try:\n        \
         socket.create_connection((address, {port}), 2)\n        print('connected')\n    \
         except OSError as error:\n        print('refused')\n"
    );
    let result = session.run_job(json!({ "image": "python", "command": ["python3", "-c", script] }));
    assert_eq!(result["stdout"], json!("refused\nrefused\n"), "{result}");
    assert!(listener.accept().is_err(), "somebody connected");
}

#[test]
fn nothing_outlives_its_job() {
    let home = tempfile::tempdir().unwrap();
    let mut session = session(home.path());
    // A number of seconds that no other process sleeps for marks this job's leftovers.
    let mark = format!("{}.{}", 40_000 + std::process::id() % 10_000, session.pid());
    let script = format!(
        "setsid sleep {mark} & (sleep {mark} &) ; (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; true"
    );
    let result = session.run_job(json!({ "image": "busybox", "command": ["sh", "-c", script] }));
    assert_eq!(result["status"], json!("succeeded"), "{result}");
    let begun = Instant::now();
    while sleepers(&mark) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} processes live on", sleepers(&mark));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many processes of this machine have `mark` in their command line.
fn sleepers(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let command_lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    command_lines.filter(|line| String::from_utf8_lossy(line).split('\0').any(|word| word == mark)).count()
}
