//! The log as its callers see it. `tests/faults.rs` makes it fail.

mod faults;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::audit::chain::{Head, verify_lines};
use crate::caller::Caller;
use crate::refusal::{Reason, Stage};

/// Every record of a log, after its chain and each record's shape were checked.
fn records(path: &Path) -> Vec<Value> {
    checked(&fs::read(path).unwrap())
}

fn checked(lines: &[u8]) -> Vec<Value> {
    let head = verify_lines(Head::genesis(), lines).unwrap();
    let records: Vec<Value> = lines
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(head.seq, records.len() as u64);
    let validator = validator();
    for record in &records {
        let errors: Vec<String> =
            validator.iter_errors(record).map(|error| format!("{error}: {record}")).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
    records
}

fn validator() -> jsonschema::Validator {
    let schema = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/audit-record.json"));
    jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["kind"].as_str().unwrap()).collect()
}

fn options() -> AuditOptions {
    AuditOptions { instance: "test".to_owned(), ..AuditOptions::default() }
}

fn allowed() -> Entry {
    Entry {
        decision_id: DecisionId::mint(),
        caller: Caller::over_stdio(Some("inspector".to_owned())),
        tool: "run_job".to_owned(),
        arguments: json!({ "image": "busybox", "command": ["echo", "hello"], "files": [], "env": {} }),
        decision: DecisionSummary {
            allow: true,
            policy_revision: Some("f".repeat(64)),
            ..DecisionSummary::default()
        },
        subject: json!({ "image": "docker.io/library/busybox", "namespace": "jobs" }),
    }
}

fn refused(stage: Stage) -> Entry {
    let reason = Reason::new("images.not_listed", "`evil` is not listed", "/image", "use busybox");
    Entry {
        decision: DecisionSummary { stage: Some(stage), reasons: vec![reason], ..DecisionSummary::default() },
        subject: Value::Null,
        ..allowed()
    }
}

fn succeeded() -> OutcomeSummary {
    OutcomeSummary {
        status: OutcomeStatus::Succeeded,
        reason: None,
        exit_code: Some(0),
        duration_ms: 12,
        output: Some(OutputSummary::of(b"hello\n", 0)),
        artifacts: vec![ArtifactSummary::of("out.txt", b"data\n")],
        job_uid: Some("uid".to_owned()),
        image_id: None,
        message: String::new(),
    }
}

/// Each failure of a call as the caller of the log would print it.
fn chained(error: &AuditError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn a_call_leaves_a_decision_and_an_outcome_in_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    assert_eq!(kinds(&records(&path)), ["start"]);

    let entry = allowed();
    let id = entry.decision_id;
    let open = audit.admit(entry).await.unwrap();
    assert_eq!(open.decision_id(), id);
    assert_eq!(kinds(&records(&path)), ["start", "decision"]);
    let message = format!("one\ntwo{}", "x".repeat(5000));
    open.close(&OutcomeSummary { message, ..succeeded() }).await.unwrap();
    for stage in [Stage::Schema, Stage::Plan, Stage::Policy, Stage::Audit] {
        audit.refuse(refused(stage)).await.unwrap();
    }
    audit.stop().await.unwrap();
    assert!(matches!(audit.refuse(refused(Stage::Plan)).await, Err(AuditError::Stopped { .. })));

    let records = records(&path);
    assert_eq!(
        kinds(&records),
        ["start", "decision", "outcome", "decision", "decision", "decision", "decision", "stop"]
    );
    assert_eq!(records[1]["decision_id"], id.to_string());
    assert_eq!(records[1]["caller"]["client"], "inspector");
    assert_eq!(records[1]["decision"]["allow"], true);
    assert_eq!(records[2]["decision_id"], id.to_string());
    // printf 'hello\n' | sha256sum
    let hello = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
    assert_eq!(records[2]["outcome"]["output"], json!({ "sha256": hello, "len": 6, "omitted": 0 }));
    let message = records[2]["outcome"]["message"].as_str().unwrap();
    assert!(message.starts_with("one twox") && message.chars().count() == 1001, "{message}");
    assert_eq!(records[5]["decision"]["reasons"][0]["msg"], "`evil` is not listed");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[tokio::test]
async fn a_dropped_call_is_recorded_as_abandoned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    drop(audit.admit(allowed()).await.unwrap());
    let open = audit.admit(allowed()).await.unwrap();
    // A close that is never polled closes nothing.
    drop(open.close(&succeeded()));
    audit.stop().await.unwrap();
    let records = records(&path);
    assert_eq!(kinds(&records), ["start", "decision", "outcome", "decision", "outcome", "stop"]);
    for (decision, outcome) in [(1, 2), (3, 4)] {
        assert_eq!(records[decision]["decision_id"], records[outcome]["decision_id"]);
        assert_eq!(records[outcome]["outcome"]["status"], "abandoned");
    }
}

#[test]
fn two_servers_and_many_threads_share_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let parent = folder.path().join("state");
    let path = parent.join("audit");
    let audits: Vec<Audit> =
        (0..2).map(|_| Audit::start(AuditTarget::Directory(path.clone()), options()).unwrap()).collect();
    std::thread::scope(|scope| {
        for index in 0..8 {
            let audit = audits[index % 2].clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..5 {
                        audit.admit(allowed()).await.unwrap().close(&succeeded()).await.unwrap();
                    }
                });
            });
        }
    });
    for directory in [&parent, &path] {
        assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o7777, 0o700);
    }
    let files: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        assert_eq!(records(&file).len(), 1 + 4 * 5 * 2);
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            name.starts_with("audit-20") && name.ends_with(&format!("Z-{}-test.jsonl", std::process::id())),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_file_has_one_writer_and_is_continued_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let link = folder.path().join("other-name");
    std::os::unix::fs::symlink(&path, &link).unwrap();

    let first = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    for name in [&path, &link] {
        let error = Audit::start(AuditTarget::File(name.clone()), options()).unwrap_err();
        assert!(
            matches!(error, AuditError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    }
    first.refuse(refused(Stage::Policy)).await.unwrap();
    first.stop().await.unwrap();

    let second = Audit::start(AuditTarget::File(link), options()).unwrap();
    second.stop().await.unwrap();
    assert_eq!(kinds(&records(&path)), ["start", "decision", "stop", "start", "stop"]);
}

#[tokio::test]
async fn a_file_that_does_not_end_in_a_whole_record_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    // A last line of nearly the greatest length.
    audit
        .admit(Entry { tool: "x".repeat(65_000), ..allowed() })
        .await
        .unwrap()
        .close(&succeeded())
        .await
        .unwrap();
    audit.refuse(Entry { tool: "x".repeat(64_000), ..refused(Stage::Policy) }).await.unwrap();
    drop(audit);
    let whole = fs::read(&path).unwrap();
    let mut number = 0;
    let mut start_over = |bytes: &[u8]| {
        number += 1;
        let other = folder.path().join(format!("other{number}.jsonl"));
        fs::write(&other, bytes).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).unwrap();
        let started = Audit::start(AuditTarget::File(other.clone()), options()).map(|_| ());
        // A refused file is left as it is.
        started.map_err(|error| {
            assert_eq!(fs::read(&other).unwrap(), bytes);
            assert!(error.to_string().contains(&*other.display().to_string()), "{error}");
            error.to_string()
        })
    };
    assert_eq!(start_over(&whole[..whole.len() - 1]).unwrap_err().matches("newline").count(), 1);
    assert!(start_over(&whole[..whole.len() - 9000]).unwrap_err().contains("newline"));
    assert!(start_over(b"not a record\n").unwrap_err().contains("not an audit record"));
    assert!(start_over(b"\n").unwrap_err().contains("not an audit record"));
    assert!(start_over(&vec![b'x'; 200_000]).unwrap_err().contains("not an audit record"));
    let mut changed = whole.clone();
    let index = changed.len() - 200;
    changed[index] ^= 1;
    assert!(start_over(&changed).is_err());
    assert!(start_over(&whole).is_ok());
    assert!(start_over(b"").is_ok());
}

#[test]
fn a_file_that_others_may_touch_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, good) in
        [(0o600, true), (0o640, true), (0o660, false), (0o644, false), (0o602, false), (0o700, false)]
    {
        let path = folder.path().join(format!("{mode:o}.jsonl"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        match Audit::start(AuditTarget::File(path), options()) {
            Ok(_) => assert!(good, "{mode:o}"),
            Err(AuditError::Mode { mode: found, .. }) => assert!(!good && found == mode, "{mode:o}"),
            Err(other) => panic!("{mode:o}: {other}"),
        }
    }
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let missing = folder.path().join("missing").join("audit.jsonl");
    assert!(matches!(Audit::start(AuditTarget::File(missing), options()), Err(AuditError::Open { .. })));
    let directory = folder.path().to_owned();
    assert!(matches!(
        Audit::start(AuditTarget::File(directory), options()),
        Err(AuditError::NotAFile { .. })
    ));
    assert!(matches!(
        Audit::start(AuditTarget::Directory(path), options()),
        Err(AuditError::Directory { .. })
    ));
}

#[test]
fn only_a_regular_file_with_one_name_holds_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let start = |path: &Path| Audit::start(AuditTarget::File(path.to_owned()), options()).map(|_| ());
    for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/stderr", "/dev/tty"] {
        // Where standard error is a file it is one like any other, so not here.
        if device == "/dev/stderr" && fs::metadata(device).is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        let error = start(Path::new(device)).unwrap_err();
        assert!(matches!(error, AuditError::NotAFile { .. }), "{device}: {error}");
        assert!(!Path::new(&format!("{device}.lock")).exists());
    }
    let link = folder.path().join("null");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    assert!(matches!(start(&link), Err(AuditError::NotAFile { .. })));
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(matches!(start(&socket), Err(AuditError::NotAFile { .. })));

    let path = folder.path().join("audit.jsonl");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let second = folder.path().join("second.jsonl");
    fs::hard_link(&path, &second).unwrap();
    for name in [&path, &second] {
        let error = start(name).unwrap_err();
        assert!(error.to_string().contains("hard link"), "{error}");
    }
    fs::remove_file(second).unwrap();
    start(&path).unwrap();
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("logs");
    fs::create_dir(&directory).unwrap();
    let targets =
        |name: &str| [AuditTarget::Directory(directory.clone()), AuditTarget::File(directory.join(name))];
    for (mode, good) in [
        (0o700, true),
        (0o755, true),
        (0o2750, true),
        (0o775, false),
        (0o777, false),
        (0o2777, false),
        (0o722, false),
        (0o1777, true),
        (0o1770, true),
    ] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        for target in targets(&format!("{mode:o}.jsonl")) {
            match Audit::start(target, options()) {
                Ok(_) => assert!(good, "{mode:o}"),
                Err(error @ AuditError::Exposed { .. }) => {
                    assert!(!good, "{mode:o}");
                    assert!(error.to_string().contains("chmod go-w"), "{error}");
                }
                Err(other) => panic!("{mode:o}: {other}"),
            }
        }
    }
    if nix::unistd::geteuid().is_root() {
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let file = directory.join("700.jsonl");
        std::os::unix::fs::chown(&file, Some(65532), None).unwrap();
        assert!(matches!(
            Audit::start(AuditTarget::File(file), options()),
            Err(AuditError::Exposed { problem, .. }) if problem.contains("another user")
        ));
        std::os::unix::fs::chown(&directory, Some(65532), None).unwrap();
        for target in targets("new.jsonl") {
            assert!(matches!(Audit::start(target, options()), Err(AuditError::Exposed { .. })));
        }
    }
}

#[test]
fn a_volume_is_taken_as_it_was_mounted() {
    // Nobody else may mount.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    fs::create_dir(&volume).unwrap();
    // As Kubernetes makes an emptyDir, without and with an fsGroup.
    for mode in ["mode=0777", "mode=2777"] {
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(Some("tmpfs"), &volume, Some("tmpfs"), flags, Some(mode)).unwrap();
        let started = [AuditTarget::Directory(volume.clone()), AuditTarget::File(volume.join("log"))]
            .map(|target| Audit::start(target, options()).map(|_| ()));
        nix::mount::umount2(&volume, nix::mount::MntFlags::MNT_DETACH).unwrap();
        for started in started {
            started.unwrap();
        }
    }
}

#[tokio::test]
async fn nothing_of_a_call_that_must_stay_out_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    let slip = json!({
        "image": "busybox",
        "command": ["sh", "-c", "canary"],
        "env": { "TOKEN": "canary" },
        "files": [{ "path": "a", "mode": "0644", "content_b64": "canary" }],
        "stdin": "canary",
    });
    let manifest = json!({ "manifest": { "containers": [{ "args": ["canary"], "env": [{ "name": "A", "value": "canary" }] }] } });
    audit
        .refuse(Entry { arguments: slip.clone(), subject: manifest, ..refused(Stage::Policy) })
        .await
        .unwrap();
    // The message of a validator quotes the value; the arguments of such a call have no known meaning.
    let mut invalid = refused(Stage::Schema);
    invalid.arguments = json!({ "anything": "canary" });
    invalid.decision.reasons =
        vec![Reason::new("schema.type", "\"canary\" is not an object", "/env", "write an object")];
    audit.refuse(invalid).await.unwrap();
    // A name that is refused is the caller's text as much as a value.
    let mut unplanned = refused(Stage::Plan);
    unplanned.arguments = json!({ "command": ["x"], "env": { "TOKEN=canary": "x", "OK": "x" } });
    unplanned.decision.reasons = vec![Reason::new(
        "env.name",
        "environment variable name `TOKEN=canary` is not one",
        "/env/TOKEN=canary",
        "write `canary`",
    )];
    audit.refuse(unplanned).await.unwrap();
    let mut unknown = refused(Stage::Schema);
    unknown.decision.reasons = vec![
        Reason::new("schema.additionalProperties", "no field `canary`", "/files/3/canary", "remove `canary`"),
        Reason::new("schema.type", "not a string", "/env/canary", "change it"),
    ];
    audit.refuse(unknown).await.unwrap();
    let odd = json!({ "env": "canary", "files": ["canary"], "command": "canary" });
    audit.refuse(Entry { arguments: odd, ..refused(Stage::Policy) }).await.unwrap();
    audit.stop().await.unwrap();
    assert!(!fs::read_to_string(&path).unwrap().contains("canary"));
    let found = records(&path);
    assert_eq!(found[1]["arguments"]["env"], json!({ "TOKEN": { "len": 6 } }));
    assert_eq!(found[2]["decision"]["reasons"][0]["field"], "/env");
    assert_eq!(
        found[3]["decision"]["reasons"],
        json!([{ "code": "env.name", "msg": "", "field": "/env", "hint": "" }])
    );
    assert_eq!(found[3]["arguments"]["env"], json!({ "<not a name 1>": { "len": 1 }, "OK": { "len": 1 } }));
    assert_eq!(found[4]["decision"]["reasons"][0]["field"], "/files/3");
    assert_eq!(found[4]["decision"]["reasons"][1]["field"], "/env");

    let audit =
        Audit::start(AuditTarget::File(path.clone()), AuditOptions { record_commands: true, ..options() })
            .unwrap();
    audit.refuse(Entry { arguments: slip, ..refused(Stage::Policy) }).await.unwrap();
    assert_eq!(records(&path)[8]["arguments"]["command"], json!(["sh", "-c", "canary"]));
}

#[tokio::test]
async fn a_strangers_tool_name_is_one_line_of_bounded_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    for tool in ["a\nb\u{2028}\u{202e}\0".to_owned(), "\u{2029}".repeat(1 << 18), "\0".repeat(1 << 20)] {
        let arguments = json!({ "x": tool.clone() });
        audit.refuse(Entry { tool: tool.clone(), arguments, ..refused(Stage::Policy) }).await.unwrap();
        let caller = Caller::over_stdio(Some(tool.clone()));
        audit.admit(Entry { tool, caller, ..allowed() }).await.unwrap().close(&succeeded()).await.unwrap();
    }
    assert_eq!(records(&path).len(), 1 + 3 * 3);
    let text = fs::read(&path).unwrap();
    assert!(text.iter().all(|byte| matches!(byte, b'\n' | 0x20..=0x7e)));
    assert!(text.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() <= 65_536));
}

#[tokio::test]
async fn the_schema_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
    audit.admit(allowed()).await.unwrap().close(&succeeded()).await.unwrap();
    audit.stop().await.unwrap();
    let validator = validator();
    for record in records(&path) {
        let mut more = record.clone();
        more["more"] = json!(1);
        assert!(!validator.is_valid(&more), "{more}");
        for name in record.as_object().unwrap().keys() {
            let mut fewer = record.clone();
            fewer.as_object_mut().unwrap().remove(name);
            assert!(!validator.is_valid(&fewer), "without {name}");
        }
    }
    let decision = &records(&path)[1];
    for (pointer, bad) in [
        ("/arguments", json!({ "env": { "A": "value" } })),
        ("/arguments", json!({ "env": { "A": { "len": 1, "sha256": "a".repeat(64) } } })),
        ("/arguments", json!({ "files": [{ "path": "a", "content": "text" }] })),
        ("/arguments", json!({ "command": "text" })),
        ("/decision/stage", json!("other")),
        ("/caller/transport", json!("other")),
        ("/kind", json!("outcome")),
    ] {
        let mut changed = decision.clone();
        *changed.pointer_mut(pointer).unwrap() = bad;
        assert!(!validator.is_valid(&changed), "{changed}");
    }
}
