//! A cancellation that meets the job's own end: whichever comes first, there is one outcome and no Job.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kubepermit::audit::{OutcomeStatus, OutcomeSummary};
use kubepermit::executor::{JobLimits, Reason, Status};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::fake::{Act, Exec, Fake, JOB_UID, Script};
use super::{AUDIT, admitted, executor, place};
use crate::session::audit_records;

const RACES: u64 = 1000;

fn script() -> Script {
    let pod = |state: serde_json::Value| {
        let container = |name: &str, state| json!({ "name": name, "image": "", "imageID": "sha256:abc", "ready": true, "restartCount": 0, "state": state });
        let both = [container("main", state), container("helper", json!({ "running": {} }))];
        Act::Status(json!({ "phase": "Running", "containerStatuses": both }))
    };
    let ended = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    Script {
        acts: vec![pod(json!({ "running": {} })), Act::Wait(10), pod(ended)],
        exec: [("helper", vec![Exec::Output(vec![0; 1024])])].into(),
        ..Script::default()
    }
}

/// How one race ended: whether it was cancelled, how long the deletion took from there (where there was a Job to
/// delete), and the call.
async fn race(after: Duration) -> (bool, Option<Duration>, String) {
    let fake = Fake::start(script()).await;
    let executor = executor(fake.kubeconfig(), JobLimits::new(1 << 16, 1 << 16));
    let (permit, record) = admitted(json!({ "image": "busybox", "command": ["true"] }));
    let id = record.decision_id().to_string();
    let cancel = CancellationToken::new();
    let asked = async {
        tokio::time::sleep(after).await;
        cancel.cancel();
        Instant::now()
    };
    let run = async {
        let outcome =
            executor.run_job(permit, &record, place(&executor, "local").await, &|_| {}, cancel.clone()).await;
        (outcome, Instant::now())
    };
    let ((outcome, over), asked) = tokio::join!(run, asked);
    let cancelled = match (outcome.status, outcome.reason) {
        (Status::Succeeded, None) => false,
        (Status::Error, Some(Reason::Cancelled)) => true,
        _ => panic!("{outcome:?}"),
    };
    executor.drain(Duration::from_secs(30)).await;
    assert!(!fake.job_exists());
    let deletions = fake.deletions();
    if fake.created_job().is_none() && deletions.is_empty() {
        assert!(cancelled, "nothing ran");
    } else {
        assert_eq!(deletions.len(), 1, "{deletions:?}");
        assert_eq!(deletions[0]["preconditions"]["uid"], json!(JOB_UID));
    }
    let summary = OutcomeSummary {
        status: if cancelled { OutcomeStatus::Error } else { OutcomeStatus::Succeeded },
        reason: outcome.reason.map(|reason| reason.as_str().to_owned()),
        exit_code: Some(outcome.exit_code),
        duration_ms: 0,
        output: None,
        artifacts: Vec::new(),
        job_uid: None,
        image_id: None,
        message: String::new(),
    };
    record.close(&summary).await.unwrap();
    let wait = over.saturating_duration_since(asked);
    (cancelled, Some(wait).filter(|_| cancelled && !deletions.is_empty()), id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_and_an_end_give_one_outcome() {
    let ends: Vec<_> = futures::stream::iter(0..RACES)
        .map(|n| race(Duration::from_micros(n * 97 % 120_000)))
        .buffer_unordered(8)
        .collect()
        .await;
    let cancelled = ends.iter().filter(|(cancelled, ..)| *cancelled).count();
    let mut waits: Vec<Duration> = ends.iter().filter_map(|(_, wait, _)| *wait).collect();
    waits.sort();
    let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
    eprintln!(
        "{cancelled} of {RACES} were cancelled, {} with a Job; answered within {p99:?} (p99)",
        waits.len()
    );
    assert!(cancelled > 0 && cancelled < ends.len(), "no race was one");
    let records = audit_records(std::path::Path::new(&AUDIT.location()));
    let mut outcomes = std::collections::BTreeMap::<&str, usize>::new();
    for record in records.iter().filter(|record| record["kind"] == json!("outcome")) {
        *outcomes.entry(record["decision_id"].as_str().unwrap()).or_default() += 1;
    }
    for (_, _, id) in &ends {
        assert_eq!(outcomes.get(id.as_str()), Some(&1), "{id}");
    }
}
