//! Jobs on the embedded cluster: real processes, real exec, nothing scripted.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use kubepermit::embedded::{Embedded, EmbeddedExtras};
use kubepermit::executor::{JobExecutor, JobLimits, JobOutcome, Reason, Status};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, Went, executor, run};
use crate::stand_in;

pub(super) async fn cluster() -> Embedded {
    stand_in::embedded(NAMESPACE, EmbeddedExtras::default()).await
}

pub(super) async fn client(cluster: &Embedded) -> Client {
    stand_in::client(cluster.kubeconfig()).await
}

fn on(cluster: &Embedded) -> JobExecutor {
    executor(cluster.kubeconfig(), JobLimits::new(64 * 1024, 1 << 20))
}

fn shell(script: &str) -> Value {
    json!({ "image": "busybox", "command": ["sh", "-c", script], "timeout_s": 20 })
}

async fn go(executor: &JobExecutor, call: Value) -> Went {
    run(executor, call, CancellationToken::new()).await
}

fn files(outcome: &JobOutcome) -> Vec<(&str, &[u8])> {
    outcome.artifacts.iter().map(|file| (file.name.as_str(), &file.content[..])).collect()
}

/// No Job and, soon, no pod.
async fn assert_clean(cluster: &Embedded) {
    let client = client(cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let left: Vec<String> =
        jobs.list(&ListParams::default()).await.unwrap().iter().map(|job| job.name_any()).collect();
    assert!(left.is_empty(), "{left:?}");
    let pods: Api<Pod> = Api::namespaced(client, NAMESPACE);
    let began = Instant::now();
    while !pods.list(&ListParams::default()).await.unwrap().items.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10), "a pod was left behind");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_files_and_exit_codes_come_back() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    let went =
        go(&executor, shell("echo hello; echo oops >&2; mkdir -p d; echo data > d/out.txt; : > empty")).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.exit_code, outcome.message.as_str()),
        (Status::Succeeded, 0, ""),
        "{outcome:?}"
    );
    assert_eq!(outcome.output, "hello\noops\n");
    assert_eq!(files(outcome), [("d/out.txt", &b"data\n"[..]), ("empty", b"")]);
    assert!(outcome.image_id.as_deref().unwrap().contains("busybox@sha256:"), "{:?}", outcome.image_id);
    assert!(outcome.duration < Duration::from_secs(10), "{:?}", outcome.duration);

    let went = go(&executor, shell("echo bye; exit 3")).await;
    assert_eq!((went.outcome.status, went.outcome.exit_code, went.outcome.reason), (Status::Failed, 3, None));
    assert_eq!(went.outcome.output, "bye\n");
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_moment_loses_nothing() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    for n in 0..10 {
        let went = go(&executor, shell(&format!("echo {n}; echo {n} > n"))).await;
        assert_eq!(went.outcome.output, format!("{n}\n"), "{:?}", went.outcome);
        assert_eq!(files(&went.outcome), [("n", format!("{n}\n").as_bytes())]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_files_are_in_place_and_come_back_only_when_changed() {
    let cluster = cluster().await;
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let deep = format!("{}/{}.txt", "d".repeat(100), "e".repeat(100));
    let mut call = shell(&format!(
        "./run.sh; cat {deep}; [ -e empty ] && cat bin >> kept; echo more >> changed; ls -l changed | cut -c1-10"
    ));
    call["files"] = json!([
        { "path": "run.sh", "content_b64": STANDARD.encode("#!/bin/sh\necho ran\n"), "mode": "0755" },
        { "path": deep, "content_b64": STANDARD.encode("deep\n") },
        { "path": "empty", "content_b64": "" },
        { "path": "bin", "content_b64": STANDARD.encode(&binary) },
        { "path": "changed", "content_b64": STANDARD.encode("one\n"), "mode": "0666" },
    ]);
    let went = go(&on(&cluster), call).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.output.as_str()),
        (Status::Succeeded, "ran\ndeep\n-rw-rw-rw-\n"),
        "{outcome:?}"
    );
    assert_eq!(files(outcome), [("changed", &b"one\nmore\n"[..]), ("kept", &binary)]);
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_asked_for_come_back_and_no_others() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    let mut call = shell(
        "mkdir -p out/deep; echo 1 > out/a.json; echo 2 > out/deep/b.json; echo 3 > c.json; ln -s /etc/passwd out/p.json",
    );
    call["files"] = json!([{ "path": "in.json", "content_b64": STANDARD.encode("same\n") }]);
    call["artifacts"] = json!(["out/*.json", "in.json", "absent"]);
    let went = go(&executor, call.clone()).await;
    let outcome = &went.outcome;
    assert_eq!((outcome.status, outcome.message.as_str()), (Status::Succeeded, ""), "{outcome:?}");
    // The input is unchanged, and comes back since it was asked for.
    assert_eq!(files(outcome), [("in.json", &b"same\n"[..]), ("out/a.json", b"1\n")]);

    call["artifacts"] = json!([]);
    let went = go(&executor, call).await;
    let outcome = &went.outcome;
    assert_eq!((outcome.status, outcome.message.as_str()), (Status::Succeeded, ""), "{outcome:?}");
    assert!(outcome.artifacts.is_empty() && !outcome.truncated.artifacts && outcome.problems.is_empty());

    // Nothing is waited for that is not there: a time-out is as quick.
    let mut late = shell("echo begun; echo x > x; sleep 60");
    late["timeout_s"] = json!(1);
    late["artifacts"] = json!([]);
    let went = go(&executor, late).await;
    assert_eq!((went.outcome.status, went.outcome.output.as_str()), (Status::Timeout, "begun\n"));
    assert!(went.outcome.artifacts.is_empty() && !went.outcome.truncated.artifacts, "{:?}", went.outcome);
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_brings_output_and_files_so_far() {
    let cluster = cluster().await;
    let mut call = shell("echo begun; echo part > part.txt; sleep 60; echo never");
    call["timeout_s"] = json!(1);
    let went = go(&on(&cluster), call).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Timeout, Some(Reason::Timeout), -1),
        "{outcome:?}"
    );
    assert_eq!((outcome.output.as_str(), files(outcome)), ("begun\n", vec![("part.txt", &b"part\n"[..])]));
    assert!(went.took >= Duration::from_secs(1), "{:?}", went.took);
    eprintln!("a time-out of 1 s was answered after {:?}", went.took);
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_output_keeps_its_end_between_characters() {
    let cluster = cluster().await;
    let went = go(
        &on(&cluster),
        shell("i=0; while [ $i -lt 6000 ]; do echo \"line $i ääääääää\"; i=$((i+1)); done"),
    )
    .await;
    let outcome = &went.outcome;
    let whole: usize = (0..6000).map(|n| format!("line {n} ääääääää\n").len()).sum();
    assert!(outcome.truncated.output && !outcome.output.contains('\u{fffd}'));
    assert!(outcome.output.ends_with("line 5999 ääääääää\n"));
    assert_eq!(usize::try_from(outcome.omitted_bytes).unwrap() + outcome.output.len(), whole);
    assert!(outcome.output.len() <= 64 * 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_over_the_cap_is_left_out_whole() {
    let cluster = cluster().await;
    let went = go(
        &on(&cluster),
        shell("head -c 2000000 /dev/zero > big; echo small > small; ln -s /etc/passwd link"),
    )
    .await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, files(outcome)),
        (Status::Succeeded, vec![("small", &b"small\n"[..])]),
        "{outcome:?}"
    );
    assert!(outcome.truncated.artifacts && outcome.message.contains("left out"), "{}", outcome.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_in_seconds() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    let went = go(&executor, json!({ "image": "absent:1", "command": ["true"], "timeout_s": 20 })).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Error, Some(Reason::ImagePullFailed), -1),
        "{outcome:?}"
    );
    assert!(outcome.message.contains("absent:1"), "{}", outcome.message);
    assert!(went.took < Duration::from_secs(15), "{:?}", went.took);

    let went =
        go(&executor, json!({ "image": "busybox", "command": ["/no/such/program"], "timeout_s": 20 })).await;
    let outcome = &went.outcome;
    assert_eq!(
        (outcome.status, outcome.reason, outcome.exit_code),
        (Status::Error, Some(Reason::StartFailed), -1),
        "{outcome:?}"
    );
    assert!(outcome.message.contains("/no/such/program"), "{}", outcome.message);
    // It never ran, so nothing of it can be missing.
    assert!(!outcome.truncated.artifacts && !outcome.message.contains("files"), "{}", outcome.message);
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_is_gone() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    let cancel = CancellationToken::new();
    let soon = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        cancel.cancel();
    };
    let (went, ()) = tokio::join!(run(&executor, shell("sleep 60"), cancel.clone()), soon);
    assert_eq!((went.outcome.status, went.outcome.reason), (Status::Error, Some(Reason::Cancelled)));
    assert_clean(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_at_once_do_not_mix() {
    let cluster = cluster().await;
    let executor = on(&cluster);
    let jobs = (0..8).map(|n| go(&executor, shell(&format!("sleep 0.2; echo {n}; echo {n} > f"))));
    for (n, went) in futures::future::join_all(jobs).await.into_iter().enumerate() {
        assert_eq!(
            (went.outcome.output.clone(), files(&went.outcome)),
            (format!("{n}\n"), vec![("f", format!("{n}\n").as_bytes())]),
            "{:?}",
            went.outcome
        );
    }
    assert_clean(&cluster).await;
}
