//! The embedded cluster, seen through the same client as the program's: what a real cluster would answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kubepermit::embedded::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};

const NAMESPACE: &str = "jobs";

async fn cluster() -> Embedded {
    let options = EmbeddedOptions {
        namespaces: vec![NAMESPACE.to_owned()],
        launcher: PathBuf::from(env!("CARGO_BIN_EXE_kubepermit")),
        unconfined: false,
    };
    Embedded::start(options).await.unwrap()
}

async fn client(cluster: &Embedded) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_to_its_end() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let created = create(&jobs, &job("hello", &["sh", "-c", "echo hello; echo error >&2; exit 3"])).await;
    assert_eq!(created.spec.as_ref().unwrap().completions, Some(1));

    let pod = pod_when(&client, "hello", has_ended).await;
    let name = pod.metadata.name.clone().unwrap();
    assert!(name.starts_with("hello-") && name.len() == "hello-".len() + 5, "{name}");
    assert_eq!(pod.metadata.owner_references.as_ref().unwrap()[0].uid, created.metadata.uid.clone().unwrap());
    assert_eq!(phase(&pod), "Failed");
    let end = terminated(&pod, "main");
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));
    assert_eq!(pods.logs(&name, &LogParams::default()).await.unwrap(), "hello\nerror\n");

    let failed = job_when(&client, "hello", "Failed").await;
    let status = failed.status.unwrap();
    assert_eq!((status.failed, status.succeeded, status.active), (Some(1), None, None));
    assert_eq!(status.conditions.unwrap().last().unwrap().reason.as_deref(), Some("BackoffLimitExceeded"));

    jobs.delete("hello", &DeleteParams::background()).await.unwrap();
    assert!(jobs.get_opt("hello").await.unwrap().is_none());
    while pods.get_opt(&name).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_nothing_takes_little_time() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("warm-up", &["true"])).await;
    pod_when(&client, "warm-up", has_ended).await;
    let started = Instant::now();
    create(&jobs, &job("quick", &["true"])).await;
    let pod = pod_when(&client, "quick", has_ended).await;
    let took = started.elapsed();
    assert_eq!(phase(&pod), "Succeeded");
    eprintln!("create to terminated: {took:?}");
    assert!(took < Duration::from_millis(500), "{took:?}");
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about = format!("involvedObject.name={}", pod.metadata.name.unwrap());
    let reasons: Vec<_> = events.list(&ListParams::default().fields(&about)).await.unwrap().items;
    let reasons: Vec<&str> = reasons.iter().filter_map(|e| e.reason.as_deref()).collect();
    for wanted in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(reasons.contains(&wanted), "{reasons:?}");
    }
}
