//! The cap on jobs, on the embedded cluster: what exists is counted by a watch on its pods.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use kubepermit::audit::{Audit, AuditOptions, AuditTarget};
use kubepermit::caller::Caller;
use kubepermit::embedded::Embedded;
use kubepermit::executor::{
    Access, Executor, JobLimits, KubectlExecutor, PrivateHome, Progress, ReadLimits, ReadSource, ReadTools,
    Status,
};
use kubepermit::pipeline::{Gateway, Judge, Request};
use kubepermit::policy::{BundleSource, Overlay, Policy};
use kubepermit::schema::Catalogue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::embedded::{client, cluster};
use super::{NAMESPACE, executor, run_for, settings};
use crate::session::audit_records;

/// The most pods that existed at once, from every change of the namespace's pods.
async fn most_pods(pods: Api<Pod>, over: Arc<AtomicBool>) -> usize {
    let listed = pods.list(&ListParams::default()).await.unwrap();
    let mut version = listed.metadata.resource_version.unwrap();
    let mut alive: BTreeSet<String> = listed.items.iter().map(|pod| pod.uid().unwrap()).collect();
    let mut most = alive.len();
    while !over.load(Ordering::SeqCst) || !alive.is_empty() {
        let mut changes = Box::pin(pods.watch(&WatchParams::default().timeout(2), &version).await.unwrap());
        while let Some(change) = changes.next().await {
            match change.unwrap() {
                WatchEvent::Added(pod) => {
                    alive.insert(pod.uid().unwrap());
                    version = pod.resource_version().unwrap();
                }
                WatchEvent::Modified(pod) => version = pod.resource_version().unwrap(),
                WatchEvent::Deleted(pod) => {
                    alive.remove(&pod.uid().unwrap());
                    version = pod.resource_version().unwrap();
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => panic!("{error:?}"),
            }
            most = most.max(alive.len());
        }
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_calls_of_two_callers_never_have_more_than_four_pods() {
    const CAP: usize = 4;
    let cluster = cluster().await;
    let limits = JobLimits { at_once: CAP, ..JobLimits::new(64 * 1024, 1 << 20) };
    let executor = Arc::new(executor(cluster.kubeconfig(), limits));
    let over = Arc::new(AtomicBool::new(false));
    let pods = Api::namespaced(client(&cluster).await, NAMESPACE);
    let counted = tokio::spawn(most_pods(pods, Arc::clone(&over)));

    // The greedy caller has all its calls in line before the other's first comes.
    let done = Arc::new(std::sync::Mutex::new(Vec::new()));
    let calls = ["greedy"; 20].into_iter().chain(["modest"; 20]).map(|caller| {
        let (executor, done) = (Arc::clone(&executor), Arc::clone(&done));
        let call =
            json!({ "image": "busybox", "command": ["sh", "-c", format!("echo {caller}")], "timeout_s": 20 });
        tokio::spawn(async move {
            if caller == "modest" {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            let went = run_for(&executor, caller, call, CancellationToken::new()).await;
            assert_eq!(
                (went.outcome.status, went.outcome.output),
                (Status::Succeeded, format!("{caller}\n"))
            );
            done.lock().unwrap().push(caller);
        })
    });
    for call in futures::future::join_all(calls.collect::<Vec<_>>()).await {
        call.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let most = counted.await.unwrap();
    assert!(most <= CAP, "{most} pods existed at once");
    assert!(most > 1, "the jobs did not overlap, so nothing was shown");

    // Neither starves: as long as both have calls left, they end in turns, give or take the jobs under way.
    let done = done.lock().unwrap();
    assert_eq!(done.len(), 40);
    let first_modest = done.iter().position(|caller| *caller == "modest").unwrap();
    let contested: Vec<_> = done.iter().skip(first_modest).collect();
    let (mut greedy, mut modest) = (0_usize, 0_usize);
    for caller in contested {
        match *caller {
            "greedy" => greedy += 1,
            _ => modest += 1,
        }
        if first_modest + greedy == 20 || modest == 20 {
            break;
        }
        assert!(greedy.abs_diff(modest) <= CAP + 1, "{done:?}");
    }
    assert!(first_modest < 16, "the modest caller waited for the greedy one's whole line: {done:?}");
}

/// A gateway over `cluster` with one place, for which a call waits 300 ms.
fn narrow(cluster: &Embedded, audit: &Path) -> Arc<Gateway> {
    let overlay = Overlay {
        images: Some(vec!["busybox:1.36".to_owned()]),
        job_namespaces: Some(vec![NAMESPACE.to_owned()]),
        ..Overlay::default()
    };
    let policy = Policy::load(&BundleSource::BuiltIn, &overlay).unwrap();
    let judge = Judge::new(Catalogue::load().unwrap(), settings(), Arc::new(policy));
    let audit = Audit::start(AuditTarget::File(audit.to_owned()), AuditOptions::default()).unwrap();
    let limits =
        JobLimits { at_once: 1, patience: Duration::from_millis(300), ..JobLimits::new(64 * 1024, 1 << 20) };
    let home = PrivateHome::new().unwrap();
    let access = Access::resolve(&ReadSource::Named(cluster.kubectl_kubeconfig()), None, &home);
    let tools = ReadTools { program: None, access, home };
    let reads = KubectlExecutor::new(tools, ReadLimits::default());
    Arc::new(Gateway::new(judge, audit, Executor::new(executor(cluster.kubeconfig(), limits), reads)))
}

fn request(command: &str) -> Request {
    Request {
        caller: Caller::at_command_line(),
        tool: "run_job".to_owned(),
        arguments: json!({ "image": "busybox", "command": ["sh", "-c", command], "timeout_s": 20 }),
        fault: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_place_is_refused_and_recorded() {
    let cluster = cluster().await;
    let home = tempfile::tempdir().unwrap();
    let audit = home.path().join("audit.jsonl");
    let gateway = narrow(&cluster, &audit);

    let (tell, mut running) = tokio::sync::mpsc::unbounded_channel();
    let first = CancellationToken::new();
    let long = tokio::spawn({
        let (gateway, first) = (Arc::clone(&gateway), first.clone());
        let progress = Box::new(move |step| tell.send(step).unwrap_or_default());
        async move { gateway.call(request("sleep 60"), progress, first).await }
    });
    while running.recv().await.unwrap() != Progress::Running {}

    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let steps = Arc::clone(&told);
    let progress = Box::new(move |step| steps.lock().unwrap().push(step));
    let busy = gateway.call(request("true"), progress, CancellationToken::new()).await;
    let text = busy.error_text().unwrap();
    assert!(text.contains("[limits.busy]") && text.contains("at most 1 exist at once"), "{text}");
    assert!(text.contains("again in about 30 s"), "{text}");
    assert_eq!(busy.error_document().unwrap()["error"]["stage"], json!("limits"));
    assert_eq!(*told.lock().unwrap(), [Progress::Queued]);

    // One that waits leaves the line when it is cancelled; the next gets the place when the long one has gone.
    let given_up = CancellationToken::new();
    given_up.cancel();
    let cancelled = gateway.call(request("true"), Box::new(|_| {}), given_up).await;
    assert!(cancelled.error_text().unwrap().contains("[limits.cancelled]"), "{cancelled:?}");
    first.cancel();
    long.await.unwrap();
    let next = async {
        loop {
            let reply = gateway.call(request("echo next"), Box::new(|_| {}), CancellationToken::new()).await;
            if let Some(result) = reply.result() {
                return result;
            }
        }
    };
    let next = tokio::time::timeout(Duration::from_secs(20), next).await.unwrap();
    assert_eq!(next["stdout"], json!("next\n"));
    gateway.finish(false).await;

    let records = audit_records(&audit);
    let of = |code: &str| {
        let is = |record: &&Value| record["decision"]["reasons"][0]["code"] == json!(code);
        records.iter().find(is).unwrap_or_else(|| panic!("no record of {code}: {records:?}"))
    };
    for code in ["limits.busy", "limits.cancelled"] {
        let record = of(code);
        assert_eq!(record["decision"]["allow"], json!(false));
        assert_eq!(record["decision"]["stage"], json!("limits"));
        // It is the call's only record: no Job was made.
        let id = &record["decision_id"];
        assert_eq!(records.iter().filter(|record| record["decision_id"] == *id).count(), 1);
    }
}
