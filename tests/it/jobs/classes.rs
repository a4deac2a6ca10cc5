//! The outcome classes: what a cluster shows, and what a caller is told of it. One row each, in virtual time.
//!
//! The states are those of Kubernetes' API reference and of its pages on pod lifecycle and pod disruptions.

use std::time::Duration;

use kubepermit::executor::{JobLimits, Problem, Reason, Status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fake::{Act, Exec, Fake, Fault, Script};
use super::faults::{
    archive, awaiting_files, call, container, ended, plain, running, status, waiting, with_files,
};
use super::{executor, in_virtual_time, run};

/// The grace of a cause that may pass, and what comes on top of it (goals: at most 5 s).
const GRACE: std::ops::RangeInclusive<u64> = 60..=65;

struct Row {
    name: &'static str,
    script: Script,
    call: Value,
    /// When the caller cancels, in milliseconds.
    cancelled: Option<u64>,
    status: Status,
    reason: Option<Reason>,
    retryable: bool,
    exit_code: i32,
    problems: Vec<Problem>,
    /// When the answer comes, in seconds. Unpacking files is a real thread's work, on which virtual time does not
    /// wait: hence the wide bounds where files come back.
    after: std::ops::RangeInclusive<u64>,
}

fn row(name: &'static str, script: Script, status: Status, exit_code: i32) -> Row {
    Row {
        name,
        script,
        call: call(),
        cancelled: None,
        status,
        reason: None,
        retryable: false,
        exit_code,
        problems: Vec::new(),
        after: 0..=20,
    }
}

/// The command runs for a while, then this happens.
fn then(acts: impl IntoIterator<Item = Act>) -> Script {
    Script { acts: [running(), Act::Wait(300)].into_iter().chain(acts).collect(), ..plain() }
}

/// The pod never runs, for this.
fn at_first(acts: impl IntoIterator<Item = Act>) -> Script {
    Script { acts: acts.into_iter().collect(), ..plain() }
}

fn error(name: &'static str, script: Script, reason: Reason, retryable: bool) -> Row {
    Row { reason: Some(reason), retryable, ..row(name, script, Status::Error, -1) }
}

fn succeeds(name: &'static str, script: Script) -> Row {
    row(name, script, Status::Succeeded, 0)
}

fn exited(code: i32, reason: &str) -> Value {
    json!({ "terminated": { "exitCode": code, "reason": reason, "finishedAt": "2026-01-01T00:00:10Z" } })
}

/// The pod as a whole has failed.
fn dead(reason: &str, main: Value) -> Act {
    Act::Status(json!({
        "phase": "Failed", "reason": reason, "message": "why",
        "containerStatuses": [container("main", main), container("helper", exited(137, "Error"))],
    }))
}

fn disrupted(reason: &str) -> Act {
    Act::Status(json!({
        "phase": "Failed",
        "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why" }],
        "containerStatuses": [container("main", exited(137, "Error"))],
    }))
}

fn unscheduled(reason: &str) -> Act {
    Act::Status(json!({
        "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes" }],
    }))
}

fn to_its_end() -> [Act; 3] {
    [running(), Act::Wait(50), ended(0)]
}

/// A first act and the rest.
fn first(act: Act, wait: u64, rest: impl IntoIterator<Item = Act>) -> Script {
    at_first([act, Act::Wait(wait)].into_iter().chain(rest))
}

fn commands_own() -> Vec<Row> {
    vec![
        succeeds("succeeded", plain()),
        row("failed", then([ended(3)]), Status::Failed, 3),
        row("failed: killed by a signal of its own", then([ended(137)]), Status::Failed, 137),
        Row {
            reason: Some(Reason::OomKilled),
            ..row("oom_killed", then([status(exited(137, "OOMKilled"))]), Status::Failed, 137)
        },
        Row {
            reason: Some(Reason::OomKilled),
            ..row("oom_killed with exit code 0", then([status(exited(0, "OOMKilled"))]), Status::Failed, 0)
        },
        Row {
            reason: Some(Reason::Timeout),
            after: 30..=35,
            call: json!({ "image": "busybox", "command": ["true"], "timeout_s": 30, "artifacts": [] }),
            ..row("timeout: the command's wall clock", then([]), Status::Timeout, -1)
        },
        Row {
            reason: Some(Reason::Timeout),
            problems: vec![Problem::ArtifactsFailed],
            ..row(
                "timeout: the pod's deadline",
                then([dead("DeadlineExceeded", exited(137, "Error"))]),
                Status::Timeout,
                -1,
            )
        },
        Row { cancelled: Some(200), ..error("cancelled", then([]), Reason::Cancelled, false) },
        Row {
            problems: vec![Problem::LogUnavailable],
            ..succeeds("log_unavailable is a flag", Script { log_breaks: 9, ..plain() })
        },
        Row {
            problems: vec![Problem::ArtifactsFailed],
            ..succeeds("artifacts_failed is a flag", Script { exec: [].into(), ..plain() })
        },
    ]
}

/// The pod ended for a reason that is not the command's. Its files cannot be had any more.
fn taken_away() -> Vec<Row> {
    let lost = |name, acts: Vec<Act>, reason| Row {
        problems: vec![Problem::ArtifactsFailed],
        ..error(name, then(acts), reason, reason != Reason::DeletedExternally)
    };
    let killed = || vec![status(exited(137, "Error")), Act::Wait(800)];
    vec![
        lost("evicted", vec![dead("Evicted", exited(137, "Error"))], Reason::Evicted),
        lost(
            "evicted, the containers show exit 0",
            vec![dead("Evicted", exited(0, "Completed"))],
            Reason::Evicted,
        ),
        lost(
            "evicted, the reason comes after exit code 137",
            [killed(), vec![dead("Evicted", exited(137, "Error"))]].concat(),
            Reason::Evicted,
        ),
        lost("preempted", vec![disrupted("PreemptionByScheduler")], Reason::Preempted),
        lost("preempted by the node", vec![dead("Preempting", exited(137, "Error"))], Reason::Preempted),
        lost("drained", vec![disrupted("EvictionByEvictionAPI")], Reason::Drained),
        lost(
            "drained, the condition comes after exit code 143",
            vec![status(exited(143, "Error")), Act::Wait(800), disrupted("EvictionByEvictionAPI")],
            Reason::Drained,
        ),
        lost("node_lost: taint", vec![disrupted("DeletionByTaintManager")], Reason::NodeLost),
        lost("node_lost: pod garbage collector", vec![disrupted("DeletionByPodGC")], Reason::NodeLost),
        lost("node_lost: shutdown", vec![dead("NodeShutdown", exited(143, "Error"))], Reason::NodeLost),
        lost(
            "node_lost: no word from it",
            vec![Act::Status(json!({ "phase": "Unknown", "reason": "NodeLost" }))],
            Reason::NodeLost,
        ),
        lost("killed_by_kubelet", vec![disrupted("TerminationByKubelet")], Reason::KilledByKubelet),
        lost("deleted_externally", vec![Act::DeletePod], Reason::DeletedExternally),
        lost(
            "deleted_externally, exit code 137 comes first",
            [killed(), vec![Act::DeletePod]].concat(),
            Reason::DeletedExternally,
        ),
        Row {
            script: Script { mute_watch: true, ..then([Act::Wait(2000), Act::DeletePod]) },
            after: 2..=20,
            ..lost("deleted_externally, the DELETED event is lost", vec![], Reason::DeletedExternally)
        },
    ]
}

fn never_started() -> Vec<Row> {
    let stuck = |reason: &str, message: &str| at_first([waiting(reason, message)]);
    let start = |name, script| error(name, script, Reason::StartFailed, false);
    let busy = "429 Too Many Requests - toomanyrequests: rate limit";
    vec![
        error(
            "image_pull_failed: there is none",
            stuck("ErrImagePull", "manifest unknown"),
            Reason::ImagePullFailed,
            false,
        ),
        Row {
            after: GRACE,
            ..error(
                "image_pull_failed: the registry is busy for longer than the grace",
                first(
                    waiting("ErrImagePull", busy),
                    5000,
                    [waiting("ImagePullBackOff", "Back-off pulling image")],
                ),
                Reason::ImagePullFailed,
                true,
            )
        },
        Row {
            after: 55..=75,
            ..succeeds(
                "a registry that is busy for 55 s is no failure",
                first(waiting("ErrImagePull", busy), 55_000, to_its_end()),
            )
        },
        error(
            "invalid_image: the name",
            stuck("InvalidImageName", "couldn't parse"),
            Reason::InvalidImage,
            false,
        ),
        error(
            "invalid_image: never pulled",
            stuck("ErrImageNeverPull", "not present"),
            Reason::InvalidImage,
            false,
        ),
        start("start_failed: configuration", stuck("CreateContainerConfigError", "secret \"x\" not found")),
        start("start_failed: creation", stuck("CreateContainerError", "no space")),
        start("start_failed: run", stuck("RunContainerError", "no such file")),
        start("start_failed: no such program", at_first([status(exited(128, "StartError"))])),
        Row {
            after: GRACE,
            ..error(
                "start_failed: a slow runtime",
                stuck("CreateContainerError", "context deadline exceeded"),
                Reason::StartFailed,
                true,
            )
        },
        Row {
            after: GRACE,
            ..error("unschedulable", at_first([unscheduled("Unschedulable")]), Reason::Unschedulable, true)
        },
        Row {
            after: 50..=70,
            ..succeeds(
                "a node that comes free after 50 s is no failure",
                first(unscheduled("Unschedulable"), 50_000, to_its_end()),
            )
        },
        Row {
            after: 120..=140,
            ..succeeds(
                "a scheduling gate is waiting, not failing",
                first(unscheduled("SchedulingGated"), 120_000, to_its_end()),
            )
        },
        Row {
            after: GRACE,
            ..error(
                "unschedulable: no pod is made, and no event says why",
                at_first([]),
                Reason::Unschedulable,
                true,
            )
        },
        error(
            "rejected_by_node",
            at_first([Act::Status(
                json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected" }),
            )]),
            Reason::RejectedByNode,
            true,
        ),
        Row {
            call: with_files(),
            ..error(
                "inject_failed: no right to exec",
                at_first([awaiting_files()]),
                Reason::InjectFailed,
                true,
            )
        },
        Row {
            call: with_files(),
            script: Script {
                exec: [("inject", vec![Exec::Exit(Vec::new(), 1, "tar: No space left on device")])].into(),
                ..at_first([awaiting_files()])
            },
            ..error("inject_failed: the volume is full", plain(), Reason::InjectFailed, true)
        },
    ]
}

fn not_admitted() -> Vec<Row> {
    let refused = |code, message| Script { create: [Fault::Code(code, message)].into(), ..plain() };
    let pod = |message| at_first([Act::Event(message)]);
    let quota =
        "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    vec![
        error("quota_exceeded: the Job", refused(403, quota), Reason::QuotaExceeded, true),
        error("quota_exceeded: the pod, told by an event", pod(quota), Reason::QuotaExceeded, true),
        error("admission_denied: the Job", refused(422, "Job is invalid"), Reason::AdmissionDenied, false),
        error(
            "admission_denied: the pod, told by an event",
            pod("Error creating: pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\""),
            Reason::AdmissionDenied,
            false,
        ),
    ]
}

/// The API server itself.
fn unwell() -> Vec<Row> {
    let creations = |faults: Vec<Fault>| Script { create: faults.into(), ..plain() };
    let watches = |faults: Vec<Fault>| Script { watch: faults.into(), ..then([ended(0)]) };
    let away = |milliseconds| then([Act::Away(milliseconds), ended(0)]);
    let patient = || json!({ "image": "busybox", "command": ["true"], "timeout_s": 300 });
    vec![
        Row {
            after: 25..=50,
            call: patient(),
            ..succeeds("a server that is away for 25 s is waited for", away(25_000))
        },
        Row {
            after: 30..=45,
            call: patient(),
            ..error(
                "apiserver_unavailable: away for longer",
                away(200_000),
                Reason::ApiserverUnavailable,
                true,
            )
        },
        Row {
            after: 12..=22,
            ..error(
                "apiserver_unavailable: from the start",
                creations(vec![Fault::Code(503, "away"); 99]),
                Reason::ApiserverUnavailable,
                true,
            )
        },
        succeeds(
            "a creation that is answered with 429 and 500 first",
            creations(vec![Fault::Code(429, "busy"), Fault::Code(500, "etcd")]),
        ),
        succeeds("a creation that took effect and was not answered", creations(vec![Fault::Silence])),
        succeeds("a creation that took effect late", creations(vec![Fault::Late(4000)])),
        succeeds("a watch that is told 410 Gone", watches(vec![Fault::Code(410, "too old"); 3])),
        succeeds("a watch that is told 500", watches(vec![Fault::Code(500, "etcd"); 3])),
        succeeds("a watch that is dropped", then([Act::Away(300), ended(0)])),
    ]
}

#[test]
fn outcome_classes() {
    let rows: Vec<Row> = [commands_own(), taken_away(), never_started(), not_admitted(), unwell()]
        .into_iter()
        .flatten()
        .collect();
    let mut wrong = Vec::new();
    let mut classes = std::collections::BTreeSet::new();
    for row in rows {
        let (went, left) = in_virtual_time(|clock| async move {
            let mut script = row.script;
            script.exec.entry("helper").or_insert_with(|| vec![Exec::Output(archive("out.txt", b"data"))]);
            if row.name.starts_with("artifacts_failed") {
                script.exec.remove("helper");
            }
            let fake = Fake::start(script).await;
            let executor = executor(fake.kubeconfig(), JobLimits::new(1 << 20, 1 << 20));
            let cancel = CancellationToken::new();
            if let Some(after) = row.cancelled {
                let cancel = cancel.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    cancel.cancel();
                });
            }
            // Connecting reads certificates from a disk, which takes no virtual time.
            let connected = fake.clone();
            tokio::spawn(async move {
                while connected.requests().is_empty() {
                    tokio::task::yield_now().await;
                }
                clock.start();
            });
            let went = run(&executor, row.call, cancel).await;
            // The last deletion may go on in the background, and for as long as the server is away.
            let deleted = async {
                while fake.job_exists() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let left = tokio::time::timeout(Duration::from_secs(700), deleted).await.is_err();
            (went, left)
        });
        let outcome = &went.outcome;
        classes.insert((outcome.status.as_str(), outcome.reason.map(Reason::as_str)));
        let found = (outcome.status, outcome.reason, outcome.retryable, outcome.exit_code, &outcome.problems);
        let expected = (row.status, row.reason, row.retryable, row.exit_code, &row.problems);
        if found != expected {
            wrong.push(format!("{}: {found:?}, expected {expected:?} ({})", row.name, outcome.message));
        }
        if !row.after.contains(&went.took.as_secs()) {
            wrong.push(format!("{}: after {:?}, expected {:?} s", row.name, went.took, row.after));
        }
        if outcome.reason.is_some() && outcome.message.is_empty() {
            wrong.push(format!("{}: no message", row.name));
        }
        if left {
            wrong.push(format!("{}: the Job was left behind", row.name));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(classes.len() >= 20, "{} classes: {classes:?}", classes.len());
}
