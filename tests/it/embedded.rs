//! The embedded cluster, seen through the same client as the program's: what a real cluster would answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Event, Pod};
use kube::api::{
    DeleteParams, ListParams, LogParams, PostParams, Preconditions, PropagationPolicy, WatchEvent,
    WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kubepermit::embedded::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};

mod api;
mod exec;
mod files;
mod jobs;
mod logs;
mod reviews;
mod waiting;

const NAMESPACE: &str = "jobs";

async fn cluster() -> Embedded {
    start(false).await
}

async fn start(unconfined: bool) -> Embedded {
    let options = EmbeddedOptions {
        namespaces: vec![NAMESPACE.to_owned()],
        launcher: PathBuf::from(env!("CARGO_BIN_EXE_kubepermit")),
        unconfined,
        extras: kubepermit::embedded::EmbeddedExtras::default(),
    };
    Embedded::start(options).await.unwrap()
}

async fn client(cluster: &Embedded) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// A Job of one container, with `more` merged into the container.
fn job(name: &str, command: &[&str]) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "test"}},
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "busybox:1.36", "command": command}],
            }},
        },
    })
}

async fn create(jobs: &Api<Job>, job: &Value) -> Job {
    jobs.create(&PostParams::default(), &serde_json::from_value(job.clone()).unwrap()).await.unwrap()
}

/// The Job's only pod, once `wanted` says that it is as it should be.
async fn pod_when(client: &Client, job: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let selector = format!("batch.kubernetes.io/job-name={job}");
    let search = async {
        let list = pods.list(&ListParams::default().labels(&selector)).await.unwrap();
        let version = list.metadata.resource_version.unwrap();
        if let Some(pod) = list.items.into_iter().find(|pod| wanted(pod)) {
            return pod;
        }
        let params = WatchParams::default().labels(&selector).timeout(60);
        let mut events = pods.watch(&params, &version).await.unwrap().boxed();
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event.unwrap()
                && wanted(&pod)
            {
                return pod;
            }
        }
        panic!("the watch ended");
    };
    tokio::time::timeout(Duration::from_secs(20), search).await.expect("the pod never got there")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn terminated(pod: &Pod, container: &str) -> ContainerStateTerminated {
    let status = pod.status.clone().unwrap();
    let all = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
    let own = all.into_iter().find(|c| c.name == container).unwrap();
    own.state.unwrap().terminated.unwrap()
}

async fn job_when(client: &Client, name: &str, condition: &str) -> Job {
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let started = Instant::now();
    loop {
        let job = jobs.get(name).await.unwrap();
        let conditions = job.status.iter().flat_map(|s| s.conditions.iter().flatten());
        if conditions.into_iter().any(|c| c.type_ == condition && c.status == "True") {
            return job;
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{name} never became {condition}: {:?}",
            job.status
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Code and reason of a refusal.
fn status_of<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("not refused by the API: {other:?}"),
    }
}

/// The reason of a Job's last condition.
fn reason_of(job: &Job) -> Option<String> {
    job.status.as_ref()?.conditions.as_ref()?.last()?.reason.clone()
}
