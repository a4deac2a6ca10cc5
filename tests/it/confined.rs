//! What a job in the embedded cluster can reach of the machine, seen through run_job itself. `sandbox.rs` looks
//! at the confinement closer by.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::session::{Session, kubepermit};

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

#[test]
fn a_killed_gateways_files_go_with_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    let begin = || {
        let mut command = kubepermit(home.path());
        command.args(["serve", "--embedded", "--log", "warn"]).env("TMPDIR", home.path());
        let mut session = Session::spawn(command);
        session.initialize("2025-06-18");
        session
    };
    let folders = || -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.join("lock").exists()).collect()
    };
    let mut living = begin();
    let of_living = folders();
    let mut killed = begin();
    killed.send(&json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": { "name": "run_job",
        "arguments": { "image": "busybox", "command": ["sh", "-c", "echo secret > file; sleep 30"] } } }));
    let left: Vec<PathBuf> = folders().difference(&of_living).cloned().collect();
    let [left] = left.as_slice() else { panic!("not one folder more: {left:?}") };
    let begun = Instant::now();
    while !std::fs::read_dir(left)
        .unwrap()
        .any(|entry| entry.unwrap().path().join("volumes/work/file").exists())
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "the job wrote nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = i32::try_from(killed.pid()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    drop(killed);
    assert!(left.exists());
    let next = begin();
    assert!(!left.exists());
    // The living one's folder was let alone.
    let result = living.run_job(json!({ "image": "busybox", "command": ["echo", "lives"] }));
    assert_eq!(result["stdout"], json!("lives\n"), "{result}");
    next.finish();
    living.finish();
    assert_eq!(folders(), BTreeSet::new());
}

#[test]
fn the_word_that_opens_reads_is_in_no_log_reply_or_record() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    // Every word of every library's log.
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" serve --embedded --log trace,kube_client=trace,hyper_util=trace,kubepermit=trace 2>\"$1\""]);
    shell.arg(kubepermit(home.path()).get_program()).arg(&log).current_dir(home.path());
    shell.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin").env("TMPDIR", home.path());
    let mut session = Session::spawn(shell);
    session.initialize("2025-06-18");
    let result = session.run_job(json!({ "image": "busybox", "command": ["echo", "seen"] }));
    assert_eq!(result["stdout"], json!("seen\n"));
    let file = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path().join("kubeconfig"));
    let file = file.into_iter().find(|path| path.exists()).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
    let (_, word) = server.rsplit_once('/').unwrap();
    assert!(word.starts_with("reader-"), "{server}");
    session.finish();
    let log = std::fs::read_to_string(log).unwrap();
    let requests = log.lines().filter(|line| line.contains("/apis/batch/v1/namespaces")).count();
    assert!(requests > 0, "the log does not show requests: {log}");
    assert!(!log.contains(word), "{}", log.lines().find(|line| line.contains(word)).unwrap_or_default());
    let mut records = String::new();
    for entry in std::fs::read_dir(home.path().join(".local/state/kubepermit/audit")).unwrap() {
        records += &std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
    }
    assert!(!records.is_empty() && !records.contains(word) && !result.to_string().contains(word));
}

/// How many processes of this machine have `mark` in their command line.
fn sleepers(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let command_lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    command_lines.filter(|line| String::from_utf8_lossy(line).split('\0').any(|word| word == mark)).count()
}
