//! How long a job takes beside a bare pod on the same cluster. Printed, never judged: machines differ.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::Site;
use super::site::end;
use crate::session::Session;

const RUNS: u32 = 20;

#[test]
fn beside_a_bare_pod() {
    let site = Site::new("latency");
    if !site.is_real() {
        eprintln!("skipped: the embedded cluster takes no bare pods");
        return;
    }
    let mut session = site.session();
    let mut bare = Vec::new();
    let mut jobs = Vec::new();
    let mut without_artifacts = Vec::new();
    let ended = |status: &Pod| {
        let statuses = status.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let mut states = statuses.filter_map(|status| status.state.as_ref());
        states.any(|state| state.terminated.is_some())
    };
    // Taken in turn, so that both meet the same machine.
    for run in 0..RUNS {
        let pods = site.pods();
        let pod = bare_pod(run);
        let began = Instant::now();
        site.wait(async {
            pods.create(&PostParams::default(), &pod).await.unwrap();
            let only = WatchParams::default().fields(&format!("metadata.name={}", pod.name_any()));
            let mut events = pods.watch(&only, "0").await.unwrap().boxed();
            loop {
                match events.next().await.unwrap().unwrap() {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) if ended(&pod) => break,
                    _ => {}
                }
            }
        });
        bare.push(began.elapsed());
        site.wait(pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0))).unwrap();
        jobs.push(timed(&mut session, json!({ "image": "busybox:1.36", "command": ["true"] })));
        without_artifacts.push(timed(
            &mut session,
            json!({ "image": "busybox:1.36", "command": ["true"], "artifacts": [] }),
        ));
    }
    eprintln!(
        "latency, median of {RUNS}: a bare pod from create to terminated {} ms; run_job of the same without artifacts {} ms, \
         with artifacts {} ms",
        median(bare).as_millis(),
        median(without_artifacts).as_millis(),
        median(jobs).as_millis()
    );
    site.assert_clean();
}

fn timed(session: &mut Session, call: Value) -> Duration {
    let began = Instant::now();
    let result = session.run_job(call);
    assert_eq!(end(&result), ("succeeded", "", 0), "{result}");
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn bare_pod(run: u32) -> Pod {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("bare-{run}") },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "main", "image": "busybox:1.36", "command": ["true"],
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                "resources": { "requests": { "cpu": "50m", "memory": "32Mi", "ephemeral-storage": "32Mi" } },
            }],
        },
    }))
    .unwrap()
}
