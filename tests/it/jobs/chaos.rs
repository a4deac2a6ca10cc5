//! A thousand jobs against an API server that loses answers, fails after the effect and takes effect late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use kubepermit::executor::{JobLimits, Reason, Status};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{NAMESPACE, executor, in_virtual_time, run};

const CALLS: usize = 1000;
const LABEL: &str = "kubepermit.io/decision-id";

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Fine,
    /// No effect, and an answer that says so.
    Refused(u16),
    /// No effect and no answer.
    Lost,
    /// The effect, and no answer.
    Unanswered,
    /// The effect, and an answer that denies it.
    Denied,
    /// The effect, but after so many milliseconds, when nobody waits any more.
    Late(u64),
}

/// Everything that was made, for ever.
#[derive(Default)]
struct World {
    /// By name: the Job's UID and labels.
    jobs: BTreeMap<String, Value>,
    /// Pods that exist.
    pods: Vec<Value>,
    /// Decision ids of all pods that ever were.
    pods_made: Vec<String>,
    fates: BTreeMap<Fate, usize>,
    counter: u64,
    random: u64,
}

type Shared = Arc<Mutex<World>>;

impl World {
    /// xorshift64*: the same faults in every run.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }

    fn fate(&mut self) -> Fate {
        let fate = match self.random() % 20 {
            0 | 1 => Fate::Refused(500),
            2 => Fate::Refused(429),
            3 => Fate::Refused(503),
            4 => Fate::Lost,
            5 | 6 => Fate::Unanswered,
            7 => Fate::Denied,
            8 => Fate::Late(3000),
            9 => Fate::Late(7000),
            _ => Fate::Fine,
        };
        *self.fates.entry(fate).or_default() += 1;
        fate
    }

    /// What the API server and the Job controller do: a taken name is a conflict; a new Job has one pod.
    fn create(&mut self, mut job: Value) -> Response {
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        if self.jobs.contains_key(&name) {
            return failure(409, "AlreadyExists");
        }
        self.counter += 1;
        let uid = format!("00000000-0000-4000-8000-{:012}", self.counter);
        job["metadata"]["uid"] = json!(uid);
        let labels = job["spec"]["template"]["metadata"]["labels"].clone();
        self.pods_made.push(labels[LABEL].as_str().unwrap().to_owned());
        self.pods.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{name}-{}", self.counter), "namespace": NAMESPACE, "uid": format!("pod-{uid}"), "labels": labels,
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid }],
            },
            "spec": job["spec"]["template"]["spec"],
            "status": { "phase": "Succeeded", "containerStatuses": [{
                "name": "main", "image": "", "imageID": "sha256:abc", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": 0, "reason": "Completed" } },
            }] },
        }));
        self.jobs.insert(name, job.clone());
        ok(&job)
    }

    fn delete(&mut self, name: &str, options: &Value) -> Response {
        let Some(job) = self.jobs.get(name) else { return failure(404, "NotFound") };
        let uid = job["metadata"]["uid"].clone();
        if options["preconditions"]["uid"] != uid {
            return failure(409, "Conflict");
        }
        self.jobs.remove(name);
        self.pods.retain(|pod| pod["metadata"]["ownerReferences"][0]["uid"] != uid);
        ok(&json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
    }
}

async fn serve(State(world): State<Shared>, request: Request) -> Response {
    let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    match method.as_str() {
        "POST" => {
            let change = move |world: &mut World| world.create(body);
            fated(&world, change).await
        }
        "DELETE" => {
            let change = move |world: &mut World| world.delete(&name, &body);
            fated(&world, change).await
        }
        _ if path.ends_with("/log") => Body::from("hello\n").into_response(),
        _ if path.ends_with("/jobs/") || path.contains("/jobs/") => {
            match world.lock().unwrap().jobs.get(&name) {
                Some(job) => ok(job),
                None => failure(404, "NotFound"),
            }
        }
        _ if query.contains("watch=") => std::future::pending().await,
        _ if path.ends_with("/pods") => {
            let world = world.lock().unwrap();
            let is_asked = |pod: &&Value| query.contains(pod["metadata"]["labels"][LABEL].as_str().unwrap());
            let items: Vec<&Value> = world.pods.iter().filter(is_asked).collect();
            ok(
                &json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items }),
            )
        }
        _ => ok(&json!({ "kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [] })),
    }
}

/// The change happens or does not, and is answered or is not.
async fn fated(world: &Shared, change: impl FnOnce(&mut World) -> Response + Send + 'static) -> Response {
    let fate = world.lock().unwrap().fate();
    match fate {
        Fate::Fine => change(&mut world.lock().unwrap()),
        Fate::Refused(code) => failure(code, "InternalError"),
        Fate::Lost => std::future::pending().await,
        Fate::Unanswered => {
            change(&mut world.lock().unwrap());
            std::future::pending().await
        }
        Fate::Denied => {
            change(&mut world.lock().unwrap());
            failure(500, "InternalError")
        }
        Fate::Late(milliseconds) => {
            let world = Arc::clone(world);
            tokio::spawn(async move {
                sleep(Duration::from_millis(milliseconds)).await;
                change(&mut world.lock().unwrap());
            });
            std::future::pending().await
        }
    }
}

fn ok(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Bytes::from(object.to_string())).into_response()
}

fn failure(code: u16, reason: &str) -> Response {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code, "message": reason });
    (StatusCode::from_u16(code).unwrap(), [(header::CONTENT_TYPE, "application/json")], status.to_string())
        .into_response()
}

#[test]
fn a_thousand_creations_make_no_second_pod() {
    let world: Shared = Arc::new(Mutex::new(World { random: 0x9E37_79B9_7F4A_7C15, ..World::default() }));
    let server = Arc::clone(&world);
    let ends = in_virtual_time(|clock| async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
        let router = Router::new().fallback(serve).with_state(server);
        tokio::spawn(async move { axum::serve(listener, router).await });

        clock.start();
        let limits = JobLimits { at_once: CALLS, ..JobLimits::new(1 << 20, 1 << 20) };
        let executor = executor(kubeconfig.path(), limits);
        let mut ends = Vec::new();
        for _ in 0..CALLS / 100 {
            let call =
                || json!({ "image": "busybox", "command": ["true"], "timeout_s": 30, "artifacts": [] });
            let calls = (0..100).map(|_| run(&executor, call(), CancellationToken::new()));
            ends.extend(futures::future::join_all(calls).await);
        }
        // What is late may come yet, and goes again.
        executor.drain(Duration::from_secs(600)).await;
        sleep(Duration::from_secs(20)).await;
        ends
    });
    let world = world.lock().unwrap();
    assert!(world.jobs.is_empty() && world.pods.is_empty(), "{} Jobs were left behind", world.jobs.len());
    let mut pods: BTreeMap<&String, usize> = BTreeMap::new();
    for id in &world.pods_made {
        *pods.entry(id).or_default() += 1;
    }
    let twice = pods.values().filter(|count| **count > 1).count();
    assert_eq!(twice, 0, "calls with a second pod, of {CALLS}; fates: {:?}", world.fates);

    // Nothing was shown if nothing went wrong, or if nothing went well.
    assert!(world.fates.len() >= 8 && world.fates.values().all(|count| *count > 20), "{:?}", world.fates);
    let went_well = ends.iter().filter(|went| went.outcome.status == Status::Succeeded).count();
    assert!(went_well > CALLS * 9 / 10, "{went_well}");
    for went in &ends {
        let outcome = &went.outcome;
        let told = outcome.status == Status::Succeeded && outcome.output == "hello\n"
            || outcome.reason == Some(Reason::ApiserverUnavailable) && outcome.retryable;
        assert!(told, "{outcome:?}");
    }
    eprintln!("{went_well} of {CALLS} succeeded, {} pods, fates {:?}", world.pods_made.len(), world.fates);
}
