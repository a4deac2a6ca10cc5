//! What a cluster may do wrong, one test for each, against the scripted API server.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kubepermit::executor::{Graces, JobLimits, Progress, Reason, Status};
use kubepermit::plan::Budgets;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fake::{Act, Exec, Fake, Fault, JOB_UID, Script};
use super::{Went, admitted, executor, place, run};

pub(super) fn container(name: &str, state: Value) -> Value {
    json!({ "name": name, "image": "", "imageID": "sha256:abc", "ready": true, "restartCount": 0, "state": state })
}

pub(super) fn status(main: Value) -> Act {
    Act::Status(json!({
        "phase": "Running",
        "conditions": [{ "type": "PodScheduled", "status": "True" }],
        "containerStatuses": [container("main", main), container("helper", json!({ "running": {} }))],
    }))
}

pub(super) fn waiting(reason: &str, message: &str) -> Act {
    status(json!({ "waiting": { "reason": reason, "message": message } }))
}

pub(super) fn running() -> Act {
    status(json!({ "running": {} }))
}

pub(super) fn ended(code: i32) -> Act {
    status(
        json!({ "terminated": { "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" } } }),
    )
}

pub(super) fn awaiting_files() -> Act {
    Act::Status(json!({
        "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "True" }],
        "initContainerStatuses": [container("inject", json!({ "running": {} }))],
        "containerStatuses": [container("main", json!({ "waiting": { "reason": "PodInitializing" } }))],
    }))
}

/// A work directory with one file, as the helper's tar sends it.
pub(super) fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, content).unwrap();
    builder.into_inner().unwrap()
}

/// A command that runs for a moment, writes a line and a file, and exits 0.
pub(super) fn plain() -> Script {
    Script {
        acts: vec![waiting("ContainerCreating", ""), Act::Wait(20), running(), Act::Wait(50), ended(0)],
        log: b"hello\n".to_vec(),
        exec: [("helper", vec![Exec::Output(archive("out.txt", b"data"))])].into(),
        ..Script::default()
    }
}

fn limits() -> JobLimits {
    JobLimits {
        graces: Graces {
            settled: Duration::from_millis(200),
            passing: Duration::from_secs(20),
            scheduling: Duration::from_secs(20),
        },
        ..JobLimits::new(1 << 20, 1 << 20)
    }
}

pub(super) fn call() -> Value {
    json!({ "image": "busybox", "command": ["true"], "timeout_s": 30 })
}

async fn play(script: Script) -> (Fake, Went) {
    play_call(script, call(), limits()).await
}

async fn play_call(script: Script, call: Value, limits: JobLimits) -> (Fake, Went) {
    let fake = Fake::start(script).await;
    let went = run(&executor(fake.kubeconfig(), limits), call, CancellationToken::new()).await;
    (fake, went)
}

fn assert_whole(went: &Went) {
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Succeeded, None, 0),
        "{outcome:?}"
    );
    assert_eq!((outcome.output.as_str(), outcome.omitted_bytes), ("hello\n", 0));
    assert_eq!(outcome.artifacts.len(), 1, "{outcome:?}");
    assert_eq!(
        (outcome.artifacts[0].name.as_str(), &outcome.artifacts[0].content[..]),
        ("out.txt", &b"data"[..])
    );
    assert!(!outcome.truncated.output && !outcome.truncated.artifacts);
    assert_eq!(outcome.message, "");
}

fn assert_error(went: &Went, reason: Reason, message: &str) {
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Error, Some(reason), -1),
        "{outcome:?}"
    );
    assert!(outcome.message.contains(message), "{}", outcome.message);
}

async fn until_deleted(fake: &Fake) {
    let began = Instant::now();
    while fake.job_exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the Job was left behind");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_plain_job_comes_back_whole_and_is_deleted() {
    let (fake, went) = play(plain()).await;
    assert_whole(&went);
    assert_eq!(went.outcome.job_uid.as_deref(), Some(JOB_UID));
    assert_eq!(went.outcome.image_id.as_deref(), Some("sha256:abc"));
    assert_eq!(
        went.steps,
        [Progress::Created, Progress::Pulling, Progress::Running, Progress::Collecting, Progress::Done]
    );
    assert!(!fake.job_exists());
    let deletion = &fake.deletions()[0];
    assert_eq!(deletion["propagationPolicy"], "Background");
    assert_eq!(deletion["preconditions"]["uid"], JOB_UID);
    let agent = format!("kubepermit/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(fake.agents(), [Some(agent)].into());
    // The log is read before anything is deleted.
    let requests = fake.requests();
    let at = |what: &str| requests.iter().position(|request| request.contains(what)).unwrap();
    assert!(at("/log") < at("DELETE"), "{requests:?}");
}

#[tokio::test]
async fn a_job_that_is_over_before_it_is_seen_comes_back_whole() {
    let (_, went) =
        play(Script { acts: vec![waiting("ContainerCreating", ""), Act::Wait(400), ended(0)], ..plain() })
            .await;
    assert_whole(&went);
    assert!(!went.steps.contains(&Progress::Running));
    assert!(went.outcome.duration < Duration::from_millis(200), "not counted from the call");
}

#[tokio::test]
async fn a_watch_that_tells_nothing_is_made_up_for_by_lists() {
    let (_, went) = play(Script { mute_watch: true, ..plain() }).await;
    assert_whole(&went);
    assert!(went.took < Duration::from_secs(8), "{:?}", went.took);
}

#[tokio::test]
async fn a_watch_that_cannot_start_is_begun_anew() {
    let gone = Fault::Code(410, "too old resource version");
    let script = Script { watch: [gone.clone(), gone.clone(), gone].into(), mute_lists: true, ..plain() };
    let (_, went) = play(script).await;
    assert_whole(&went);
    // From the watch that was begun anew, not from the one that asks with an old version until it is well.
    assert!(went.took < Duration::from_secs(1), "{:?}", went.took);
}

#[tokio::test]
async fn a_list_that_hangs_does_not_stop_the_watch() {
    let script = Script { acts: vec![Act::Wait(600), running(), ended(0)], mute_lists: true, ..plain() };
    let (_, went) = play(script).await;
    assert_whole(&went);
    assert!(went.took < Duration::from_secs(3), "{:?}", went.took);
}

#[tokio::test]
async fn a_pod_with_the_label_but_another_owner_is_not_the_jobs() {
    let (_, went) = play(Script { decoy: true, ..plain() }).await;
    assert_whole(&went);
    assert!(went.steps.contains(&Progress::Running));
}

#[tokio::test]
async fn a_server_that_is_unwell_at_first_gets_the_job_once() {
    let script = Script { create: [Fault::Code(500, "etcd"), Fault::Code(429, "busy")].into(), ..plain() };
    let (fake, went) = play(script).await;
    assert_whole(&went);
    assert_eq!(fake.requests().iter().filter(|request| request.starts_with("POST /apis")).count(), 3);
}

#[tokio::test]
async fn a_creation_without_an_answer_is_recognised_by_its_label() {
    let (fake, went) = play(Script { create: [Fault::Silence].into(), ..plain() }).await;
    assert_whole(&went);
    // Its name stays taken until no creation can be under way any more.
    assert!(fake.job_exists());
    until_deleted(&fake).await;
}

#[tokio::test]
async fn another_calls_job_is_neither_used_nor_deleted() {
    let (fake, went) = play(Script { foreign_job: true, ..plain() }).await;
    assert_error(&went, Reason::AdmissionDenied, "not this call's");
    assert!(fake.job_exists());
}

#[tokio::test]
async fn a_refused_creation_tells_the_servers_reason() {
    for (code, message, reason) in [
        (403, "forbidden: exceeded quota: q", Reason::QuotaExceeded),
        (403, "cannot create resource \"jobs\"", Reason::AdmissionDenied),
        (422, "spec.template: Invalid value", Reason::AdmissionDenied),
    ] {
        let (fake, went) = play(Script { create: [Fault::Code(code, message)].into(), ..plain() }).await;
        assert_error(&went, reason, message);
        assert!(fake.deletions().is_empty());
    }
}

#[tokio::test]
async fn a_refused_pod_is_known_by_the_jobs_event() {
    let refused = "Error creating: pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"";
    let (fake, went) = play(Script { acts: vec![Act::Event(refused)], ..plain() }).await;
    assert_error(&went, Reason::AdmissionDenied, "violates PodSecurity");
    assert!(went.took < Duration::from_secs(5), "{:?}", went.took);
    assert!(!fake.job_exists());
}

#[tokio::test]
async fn a_missing_image_is_told_in_seconds() {
    let (_, went) = play(Script { acts: vec![waiting("ErrImagePull", "manifest unknown")], ..plain() }).await;
    assert_error(&went, Reason::ImagePullFailed, "manifest unknown");
    assert!(went.took < Duration::from_secs(3), "{:?}", went.took);
    assert_eq!(went.outcome.output, "");
}

#[tokio::test]
async fn a_passing_pull_error_is_borne() {
    let script = Script {
        acts: vec![waiting("ErrImagePull", "429 Too Many Requests"), Act::Wait(500), running(), ended(0)],
        ..plain()
    };
    assert_whole(&play(script).await.1);
}

#[tokio::test]
async fn a_pod_that_never_starts_is_given_up_after_its_budgets() {
    let limits = JobLimits {
        budgets: Budgets {
            scheduling: Duration::from_millis(200),
            pull: Duration::from_millis(200),
            ..Budgets::JOB
        },
        ..limits()
    };
    let (fake, went) = play_call(Script { acts: Vec::new(), ..plain() }, call(), limits.clone()).await;
    assert_error(&went, Reason::Unschedulable, "made no pod");
    assert!(!fake.job_exists());
    let creating = Script { acts: vec![waiting("ContainerCreating", "")], ..plain() };
    let (_, went) = play_call(creating, call(), limits).await;
    assert_error(&went, Reason::StartFailed, "`pulling`");
}

#[tokio::test]
async fn rights_that_are_missing_end_the_job_at_once() {
    let script = Script { list_pods: vec![Fault::Code(403, "pods is forbidden"); 50].into(), ..plain() };
    let (fake, went) = play(script).await;
    assert_error(&went, Reason::ApiserverUnavailable, "pods is forbidden");
    assert!(!fake.job_exists());
}

#[tokio::test]
async fn a_pod_that_someone_deletes_ends_the_job() {
    let (_, went) = play(Script { acts: vec![running(), Act::Wait(100), Act::DeletePod], ..plain() }).await;
    assert_error(&went, Reason::DeletedExternally, "deleted by someone else");
    // The same when the watch misses it.
    let script =
        Script { acts: vec![running(), Act::Wait(400), Act::DeletePod], mute_watch: true, ..plain() };
    let (_, went) = play(script).await;
    assert_error(&went, Reason::DeletedExternally, "deleted by someone else");
}

#[tokio::test]
async fn a_time_out_brings_what_there_is_within_its_time() {
    let script = Script { acts: vec![running()], ..plain() };
    let call = json!({ "image": "busybox", "command": ["true"], "timeout_s": 1 });
    let (fake, went) = play_call(script, call.clone(), limits()).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Timeout, Some(Reason::Timeout), -1)
    );
    assert_eq!(
        (outcome.output.as_str(), outcome.artifacts.len(), outcome.truncated.artifacts),
        ("hello\n", 1, false)
    );
    assert!(went.took >= Duration::from_secs(1) && went.took < Duration::from_secs(2), "{:?}", went.took);
    assert!(!fake.job_exists());

    // tar says with 1 that a file changed under it: what else, while the command runs.
    let changing = vec![Exec::Exit(archive("out.txt", b"data"), 1, "file changed as we read it")];
    let script = Script { acts: vec![running()], exec: [("helper", changing)].into(), ..plain() };
    let (_, went) = play_call(script, call.clone(), limits()).await;
    assert_eq!((went.outcome.artifacts.len(), went.outcome.truncated.artifacts), (1, false));

    // A stream that stays open: its deadline answers, within 5 s of the command's end.
    let silent = vec![Exec::Hang(archive("out.txt", b"data"))];
    let script = Script { acts: vec![running()], exec: [("helper", silent)].into(), ..plain() };
    let (_, went) = play_call(script, call, limits()).await;
    assert_eq!((went.outcome.status, went.outcome.truncated.artifacts), (Status::Timeout, true));
    assert_eq!(went.outcome.output, "hello\n");
    assert!(went.took < Duration::from_secs(6), "{:?}", went.took);
}

#[tokio::test]
async fn an_end_in_the_last_moment_is_no_time_out() {
    // Lists come after 0.25 s and again 1 s later; the end at 0.8 s is known only by asking at the deadline.
    let script = Script { acts: vec![running(), Act::Wait(800), ended(3)], mute_watch: true, ..plain() };
    let call = json!({ "image": "busybox", "command": ["true"], "timeout_s": 1 });
    let (_, went) = play_call(script, call, limits()).await;
    assert_eq!((went.outcome.status, went.outcome.exit_code), (Status::Failed, 3), "{:?}", went.outcome);
}

#[tokio::test]
async fn a_lost_stream_of_files_is_never_taken_for_a_whole_one() {
    let whole = archive("out.txt", b"data");
    // A connection that breaks is tried again.
    let script = Script {
        exec: [("helper", vec![Exec::Break(whole[..300].to_vec()), Exec::Output(whole.clone())])].into(),
        ..plain()
    };
    assert_whole(&play(script).await.1);
    // Even all bytes without a status are not known to be all bytes.
    for broken in [
        Exec::Break(whole.clone()),
        Exec::Output(whole[..300].to_vec()),
        Exec::Exit(whole.clone(), 2, "tar: short read"),
    ] {
        let name = format!("{broken:?}").chars().take(8).collect::<String>();
        let (_, went) = play(Script { exec: [("helper", vec![broken])].into(), ..plain() }).await;
        assert_eq!((went.outcome.status, went.outcome.exit_code), (Status::Succeeded, 0), "{name}");
        assert!(went.outcome.truncated.artifacts, "{name}");
        assert!(went.outcome.message.contains("files may be missing"), "{name}: {}", went.outcome.message);
    }
    // Without the right to exec the command's own result still stands.
    let (_, went) = play(Script { exec: [].into(), ..plain() }).await;
    assert_eq!(went.outcome.output, "hello\n");
    assert!(went.outcome.truncated.artifacts && went.outcome.message.contains("pods/exec"));
}

#[tokio::test]
async fn a_flood_on_standard_error_does_not_stop_the_files() {
    let flood = vec![Exec::Flood(archive("out.txt", b"data"))];
    assert_whole(&play(Script { exec: [("helper", flood)].into(), ..plain() }).await.1);
}

#[tokio::test]
async fn a_log_that_breaks_off_is_read_again() {
    assert_whole(&play(Script { log_breaks: 2, ..plain() }).await.1);
    let (_, went) = play(Script { log_breaks: 9, ..plain() }).await;
    assert_eq!(went.outcome.output, "hel");
    assert!(went.outcome.message.contains("could not be read to its end"), "{}", went.outcome.message);
}

#[tokio::test]
async fn long_output_keeps_its_end() {
    let log: Vec<u8> = (0..200_000).flat_map(|n| format!("line {n} ä\n").into_bytes()).collect();
    let limits = JobLimits { max_output_bytes: 1000, ..limits() };
    let (_, went) = play_call(Script { log: log.clone(), ..plain() }, call(), limits).await;
    let outcome = &went.outcome;
    assert!(outcome.truncated.output);
    assert!(outcome.output.ends_with("line 199999 ä\n"));
    assert_eq!(outcome.omitted_bytes as usize + outcome.output.len(), log.len());
}

pub(super) fn with_files() -> Value {
    json!({
        "image": "busybox", "command": ["true"], "timeout_s": 30,
        "files": [{ "path": "in/a.txt", "content_b64": STANDARD.encode("input"), "mode": "0755" }],
    })
}

#[tokio::test]
async fn input_files_arrive_as_an_archive_and_do_not_come_back() {
    let script = Script {
        acts: vec![awaiting_files()],
        after_input: vec![running(), Act::Wait(20), ended(0)],
        exec: [
            ("inject", vec![Exec::Swallow]),
            ("helper", vec![Exec::Output(archive("in/a.txt", b"input"))]),
        ]
        .into(),
        ..plain()
    };
    let (fake, went) = play_call(script, with_files(), limits()).await;
    assert_eq!(went.outcome.status, Status::Succeeded, "{:?}", went.outcome);
    assert!(went.outcome.artifacts.is_empty() && !went.outcome.truncated.artifacts);
    assert_eq!(went.outcome.output, "hello\n");
    // The end of standard input was sent: the other side did not have to give up waiting for it.
    assert!(went.took < Duration::from_secs(5), "{:?}", went.took);
    assert!(went.steps.contains(&Progress::Injecting));
    let input = fake.input();
    let mut archive = tar::Archive::new(input.as_slice());
    let mut entries = archive.entries().unwrap();
    let entry = entries.next().unwrap().unwrap();
    assert_eq!(
        (entry.path().unwrap().to_str().unwrap(), entry.header().mode().unwrap()),
        ("in/a.txt", 0o755)
    );
}

#[tokio::test]
async fn a_lost_injection_is_judged_by_the_pod() {
    let done = Act::Status(json!({
        "phase": "Pending",
        "initContainerStatuses": [container("inject", json!({ "terminated": { "exitCode": 0 } }))],
        "containerStatuses": [container("main", json!({ "waiting": { "reason": "PodInitializing" } }))],
    }));
    let script = Script {
        acts: vec![awaiting_files()],
        after_input: vec![done, Act::Wait(600), running(), ended(0)],
        exec: [
            ("inject", vec![Exec::SwallowAndBreak]),
            ("helper", vec![Exec::Output(archive("out.txt", b"data"))]),
        ]
        .into(),
        ..plain()
    };
    assert_whole(&play_call(script, with_files(), limits()).await.1);
}

#[tokio::test]
async fn an_injection_that_fails_says_why() {
    let table = [
        (vec![], "pods/exec"),
        (
            vec![Exec::Exit(Vec::new(), 1, "tar: write error: No space left on device")],
            "No space left on device",
        ),
        (vec![Exec::Break(Vec::new())], "connection was lost"),
    ];
    for (exec, message) in table {
        let script = Script { acts: vec![awaiting_files()], exec: [("inject", exec)].into(), ..plain() };
        let (fake, went) = play_call(script, with_files(), limits()).await;
        assert_error(&went, Reason::InjectFailed, message);
        assert!(!fake.job_exists());
    }
}

#[tokio::test]
async fn a_cancelled_job_is_deleted_and_has_one_outcome() {
    for acts in [vec![], vec![running()]] {
        let fake = Fake::start(Script { acts, ..plain() }).await;
        let cancel = CancellationToken::new();
        let executor = executor(fake.kubeconfig(), limits());
        let soon = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            cancel.cancel();
            Instant::now()
        };
        let (went, cancelled) = tokio::join!(run(&executor, call(), cancel.clone()), soon);
        assert_error(&went, Reason::Cancelled, "cancelled");
        assert!(!fake.job_exists());
        assert!(cancelled.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_cancelled_creation_leaves_nothing_behind() {
    let fake =
        Fake::start(Script { acts: vec![running()], create: [Fault::Late(700)].into(), ..plain() }).await;
    let cancel = CancellationToken::new();
    let executor = executor(fake.kubeconfig(), limits());
    let soon = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    let (went, ()) = tokio::join!(run(&executor, call(), cancel.clone()), soon);
    assert_error(&went, Reason::Cancelled, "cancelled");
    // The Job appears only after the call was answered or the answer was waited for.
    while fake.deletions().is_empty() {
        assert!(went.began.elapsed() < Duration::from_secs(10), "the Job was left behind");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!fake.job_exists());
}

#[tokio::test]
async fn an_abandoned_future_leaves_nothing_behind() {
    let fake = Fake::start(Script { acts: vec![running()], ..plain() }).await;
    let executor = Arc::new(executor(fake.kubeconfig(), limits()));
    let (permit, record) = admitted(call());
    let task = tokio::spawn({
        let executor = Arc::clone(&executor);
        async move {
            let slot = place(&executor, "local").await;
            executor.run_job(permit, &record, slot, &|_| {}, CancellationToken::new()).await
        }
    });
    let began = Instant::now();
    while !fake.job_exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the Job was never made");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    task.abort();
    until_deleted(&fake).await;
}

#[tokio::test]
async fn a_panic_leaves_nothing_behind() {
    let fake = Fake::start(Script { acts: vec![running()], ..plain() }).await;
    let executor = Arc::new(executor(fake.kubeconfig(), limits()));
    let (permit, record) = admitted(call());
    let task = tokio::spawn({
        let executor = Arc::clone(&executor);
        async move {
            let fails = |step| assert_ne!(step, Progress::Running, "a fault of the caller's");
            let slot = place(&executor, "local").await;
            executor.run_job(permit, &record, slot, &fails, CancellationToken::new()).await
        }
    });
    assert!(task.await.unwrap_err().is_panic());
    until_deleted(&fake).await;
}

#[tokio::test]
async fn a_deletion_that_fails_is_repeated_in_the_background() {
    let faults = vec![Fault::Code(500, "etcd"), Fault::Hang, Fault::Code(503, "busy")];
    let fake = Fake::start(Script { delete: faults.into(), ..plain() }).await;
    let executor = executor(fake.kubeconfig(), limits());
    let went = run(&executor, call(), CancellationToken::new()).await;
    assert_whole(&went);
    assert!(went.took < Duration::from_secs(7), "{:?}", went.took);
    executor.drain(Duration::from_secs(20)).await;
    assert!(!fake.job_exists());
}

#[tokio::test]
async fn a_record_of_another_call_runs_nothing() {
    let fake = Fake::start(plain()).await;
    let (permit, _record) = admitted(call());
    let (_permit, other) = admitted(call());
    let executor = executor(fake.kubeconfig(), limits());
    let slot = place(&executor, "local").await;
    let outcome = executor.run_job(permit, &other, slot, &|_| {}, CancellationToken::new()).await;
    assert_eq!((outcome.status, outcome.reason), (Status::Error, Some(Reason::AdmissionDenied)));
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn no_cluster_is_an_outcome_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no-such-config");
    let went = run(&executor(&missing, limits()), call(), CancellationToken::new()).await;
    assert_error(&went, Reason::ApiserverUnavailable, "no-such-config");
    assert!(went.outcome.message.contains("MCP_K8S_KUBECONFIG"));
}

#[tokio::test]
async fn the_job_is_sent_as_it_was_judged() {
    let fake = Fake::start(Script { acts: vec![running()], ..plain() }).await;
    let (permit, record) = admitted(call());
    let kubepermit::plan::Plan::Job(plan) = permit.plan() else { panic!("a read") };
    let mut judged = serde_json::to_value(plan.manifest()).unwrap();
    let executor = executor(fake.kubeconfig(), limits());
    let cancel = CancellationToken::new();
    let look = async {
        while !fake.job_exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let sent = fake.created_job().unwrap();
        cancel.cancel();
        sent
    };
    let slot = place(&executor, "local").await;
    let (_, sent) = tokio::join!(executor.run_job(permit, &record, slot, &|_| {}, cancel.clone()), look);
    judged["metadata"]["uid"] = json!(JOB_UID);
    assert_eq!(sent, judged);
}
