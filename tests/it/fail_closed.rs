//! A broken policy or audit log refuses every call, and nothing reaches the cluster.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::session::{Session, kubepermit};

/// A "cluster" that only tells whether anybody came.
struct Bystander {
    listener: TcpListener,
    kubeconfig: PathBuf,
}

impl Bystander {
    fn new(home: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let kubeconfig = home.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", listener.local_addr().unwrap()) } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        Self { listener, kubeconfig }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        [&["--kubeconfig", kubeconfig, "--allowed-images", "busybox:1.36"], more].concat()
    }

    fn session(&self, home: &Path, more: &[&str]) -> Session {
        let mut session = Session::start(home, &self.arguments(more));
        session.initialize("2025-06-18");
        session
    }

    /// Whether anybody came who wanted more than to look: a server looks for orphans when it starts.
    fn was_visited(&self) -> bool {
        while let Ok((mut visitor, _)) = self.listener.accept() {
            visitor.set_nonblocking(false).unwrap();
            visitor.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let mut method = [0; 4];
            // Who says nothing is counted.
            if visitor.read_exact(&mut method).is_err() || method != *b"GET " {
                return true;
            }
        }
        false
    }
}

fn call() -> serde_json::Value {
    json!({ "image": "busybox", "command": ["true"], "timeout_s": 1 })
}

#[test]
fn the_bystander_notices_a_visit() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Bystander::new(home.path());
    let mut session = cluster.session(home.path(), &[]);
    // Nobody answers, so do not wait for the result.
    session.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "run_job", "arguments": call() } }));
    let begun = std::time::Instant::now();
    while !cluster.was_visited() {
        assert!(begun.elapsed().as_secs() < 30, "an allowed call reaches the cluster");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_audit_log_that_cannot_be_written_refuses_calls() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Bystander::new(home.path());

    // No file of this process may have a byte, which its log meets as it would a full device.
    let mut command = std::process::Command::new("sh");
    let limit = r#"trap '' XFSZ; ulimit -f 0; exec "$0" "$@""#;
    command.args(["-c", limit, env!("CARGO_BIN_EXE_kubepermit"), "serve"]);
    let file = home.path().join("audit.jsonl");
    command
        .args(cluster.arguments(&["--audit", file.to_str().unwrap()]))
        .env_clear()
        .env("HOME", home.path());
    // Its messages may go to a file as well.
    command.stderr(std::process::Stdio::null());
    let mut session = Session::spawn(command);
    session.initialize("2025-06-18");
    assert_refused_unrecorded(&mut session, &cluster);

    // The directory goes away under a running server.
    let directory = home.path().join("logs");
    std::fs::create_dir(&directory).unwrap();
    let file = directory.join("audit.jsonl");
    let mut session = cluster.session(home.path(), &["--audit", file.to_str().unwrap()]);
    std::fs::remove_dir_all(&directory).unwrap();
    assert_refused_unrecorded(&mut session, &cluster);
}

#[test]
fn a_full_disk_refuses_calls_and_recovers() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not root: a small tmpfs cannot be mounted here");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let cluster = Bystander::new(home.path());
    let disk = SmallDisk::mount(&home.path().join("disk"));
    let file = disk.0.join("audit.jsonl");
    let mut session = cluster.session(home.path(), &["--audit", file.to_str().unwrap()]);
    disk.fill();
    // The last page of the log has room for a few more records.
    let evil = json!({ "image": "evil", "command": ["true"] });
    let full = (0..20).any(|_| session.refused(evil.clone()).contains("audit.unavailable"));
    assert!(full, "a full disk takes every record");
    assert_refused_unrecorded(&mut session, &cluster);
    disk.empty();
    let text = session.refused(evil);
    assert!(text.contains("images.not_listed"), "recorded again, so judged again: {text}");
    assert!(!cluster.was_visited());
}

#[test]
fn a_read_only_audit_place_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    if nix::unistd::geteuid().is_root() {
        let disk = SmallDisk::mount(&home.path().join("disk"));
        disk.read_only();
        assert_no_start(home.path(), &["--audit", disk.0.join("audit.jsonl").to_str().unwrap()], "audit");
    } else {
        let directory = home.path().join("locked");
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o500)).unwrap();
        assert_no_start(home.path(), &["--audit", directory.join("audit.jsonl").to_str().unwrap()], "audit");
    }
    assert_no_start(home.path(), &["--audit", "/no/such/place/audit.jsonl"], "audit");
    assert_no_start(home.path(), &["--audit", "/dev/null"], "regular file");
}

#[test]
fn a_policy_that_cannot_be_loaded_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    assert_no_start(home.path(), &["--policies", "/no/such/bundle"], "policy");
    for (file, text) in [
        ("main.rego", "package kubepermit\n\ndecision := {"),
        ("data.yaml", "config:\n  images: [a]\n  images: [b]\n"),
        ("data.yaml", "kubepermit:\n  decision: {allow: true, deny: [], warn: []}\n"),
        ("loop.rego", "package kubepermit.loop\n\na if b\n\nb if a\n"),
    ] {
        let bundle = home.path().join("bundle");
        let _ = std::fs::remove_dir_all(&bundle);
        write_bundle(home.path(), "bundle");
        std::fs::write(bundle.join(file), text).unwrap();
        assert_no_start(home.path(), &["--policies", bundle.to_str().unwrap()], file);
    }
}

#[test]
fn a_policy_that_fails_while_it_judges_refuses() {
    let home = tempfile::tempdir().unwrap();
    let cluster = Bystander::new(home.path());
    write_bundle(home.path(), "bundle");
    let bundle = home.path().join("bundle");
    // A builtin's error makes a rule undefined unless evaluation is strict: a denial would vanish.
    std::fs::write(
        bundle.join("site.rego"),
        "package site\n\ndeny contains {\"code\": \"site.x\", \"msg\": \"x\"} if to_number(input.tool) > 0\n",
    )
    .unwrap();
    let mut session = cluster.session(home.path(), &["--policies", bundle.to_str().unwrap()]);
    let text = session.refused(call());
    assert!(text.contains("policy.error"), "{text}");
    assert!(!cluster.was_visited());
}

fn assert_refused_unrecorded(session: &mut Session, cluster: &Bystander) {
    let text = session.refused(call());
    assert!(text.contains("audit.unavailable"), "{text}");
    // A call that the policy would refuse is not answered with the policy's reasons either.
    let text = session.refused(json!({ "image": "evil", "command": ["true"] }));
    assert!(text.contains("audit.unavailable"), "{text}");
    assert!(!cluster.was_visited(), "nothing may reach the cluster");
}

fn assert_no_start(home: &Path, arguments: &[&str], culprit: &str) {
    let output = kubepermit(home).arg("serve").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty());
    assert!(text.contains(culprit), "{culprit} is not in: {text}");
}

fn write_bundle(home: &Path, name: &str) {
    let output = kubepermit(home).args(["policy", "init", name]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A tmpfs of 64 KiB, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir(at).unwrap();
        let options = Some("size=64k");
        nix::mount::mount(Some("tmpfs"), at, Some("tmpfs"), nix::mount::MsFlags::empty(), options).unwrap();
        Self(at.to_owned())
    }

    fn read_only(&self) {
        let flags = nix::mount::MsFlags::MS_REMOUNT | nix::mount::MsFlags::MS_RDONLY;
        nix::mount::mount(None::<&str>, &self.0, None::<&str>, flags, None::<&str>).unwrap();
    }

    fn fill(&self) {
        let filler = std::fs::write(self.0.join("filler"), vec![0_u8; 1 << 20]);
        assert!(filler.is_err(), "the disk is not full");
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}
