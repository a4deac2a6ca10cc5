//! An API server that plays one Job's life from a script, faults included.
//!
//! It knows the eight requests that the executor makes. What a real server or node might do wrong is scripted
//! here, because neither a cluster nor the embedded one can be made to do it on demand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

pub const JOB_UID: &str = "11111111-1111-4111-8111-111111111111";

/// What happens once the Job exists.
#[derive(Debug, Clone)]
pub enum Act {
    Wait(u64),
    /// The pod's status becomes this.
    Status(Value),
    DeletePod,
    /// For so many milliseconds every request is answered with 503, and watches end.
    Away(u64),
    /// An event on the Job.
    Event(&'static str),
}

/// What a request for something gets instead of the usual answer; used up in order.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A status code with a message.
    Code(u16, &'static str),
    /// The request takes effect, but no answer comes.
    Silence,
    /// No answer, and the effect comes after so many milliseconds, whether or not the client still waits.
    Late(u64),
    /// No answer, no effect.
    Hang,
}

/// What exec into a container does.
#[derive(Debug, Clone)]
pub enum Exec {
    /// Writes this to standard output and ends with success.
    Output(Vec<u8>),
    /// Writes this, then ends with an exit code and a message on standard error.
    Exit(Vec<u8>, i32, &'static str),
    /// Writes this, then breaks the connection off.
    Break(Vec<u8>),
    /// Writes this and stays silent.
    Hang(Vec<u8>),
    /// Writes a megabyte to standard error, and only then this to standard output.
    Flood(Vec<u8>),
    /// Reads standard input to its end and keeps it, then lets the acts that follow the injection go on.
    Swallow,
    /// The same, but the status is lost.
    SwallowAndBreak,
}

/// The script.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub acts: Vec<Act>,
    /// The acts after the input files arrived.
    pub after_input: Vec<Act>,
    pub log: Vec<u8>,
    /// How often the log breaks off in the middle before it is served whole.
    pub log_breaks: usize,
    pub exec: BTreeMap<&'static str, Vec<Exec>>,
    pub create: VecDeque<Fault>,
    pub delete: VecDeque<Fault>,
    pub list_pods: VecDeque<Fault>,
    /// The executor's own lists get no answer; those of kube's watcher, which are paged, do.
    pub mute_lists: bool,
    /// Faults of the watch's start.
    pub watch: VecDeque<Fault>,
    /// The watch tells nothing.
    pub mute_watch: bool,
    /// Before the Job's own pod there is one with the same labels that failed, of another owner.
    pub decoy: bool,
    /// The Job that exists already carries another decision's label.
    pub foreign_job: bool,
}

/// What the server saw.
#[derive(Debug, Default)]
struct Play {
    script: Script,
    job: Option<Value>,
    pod: Option<Value>,
    decoy: Option<Value>,
    version: u64,
    history: Vec<(u64, &'static str, Value)>,
    events: Vec<Value>,
    requests: Vec<String>,
    agents: BTreeSet<Option<String>>,
    deletions: Vec<Value>,
    away: bool,
    input: Vec<u8>,
}

#[derive(Clone)]
pub struct Fake {
    play: Arc<Mutex<Play>>,
    changed: watch::Sender<()>,
    kubeconfig: Arc<tempfile::NamedTempFile>,
}

impl Fake {
    pub async fn start(script: Script) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            kubeconfig.path(),
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: fake\n\
                 contexts: [{{ name: fake, context: {{ cluster: fake, user: fake }} }}]\n\
                 clusters: [{{ name: fake, cluster: {{ server: 'http://{address}' }} }}]\n\
                 users: [{{ name: fake, user: {{}} }}]\n"
            ),
        )
        .unwrap();
        let fake = Self {
            play: Arc::new(Mutex::new(Play { script, ..Play::default() })),
            changed: watch::Sender::new(()),
            kubeconfig: Arc::new(kubeconfig),
        };
        let router = Router::new().fallback(serve).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub fn kubeconfig(&self) -> &std::path::Path {
        self.kubeconfig.path()
    }

    /// The requests so far, as `METHOD path`.
    pub fn requests(&self) -> Vec<String> {
        self.play.lock().unwrap().requests.clone()
    }

    /// The bodies of the deletions that took effect.
    pub fn deletions(&self) -> Vec<Value> {
        self.play.lock().unwrap().deletions.clone()
    }

    /// Every `User-Agent` that came.
    pub fn agents(&self) -> BTreeSet<Option<String>> {
        self.play.lock().unwrap().agents.clone()
    }

    pub fn job_exists(&self) -> bool {
        self.play.lock().unwrap().job.is_some()
    }

    pub fn created_job(&self) -> Option<Value> {
        self.play.lock().unwrap().job.clone()
    }

    /// What arrived on the injection's standard input.
    pub fn input(&self) -> Vec<u8> {
        self.play.lock().unwrap().input.clone()
    }

    fn with<T>(&self, change: impl FnOnce(&mut Play) -> T) -> T {
        let answer = change(&mut self.play.lock().unwrap());
        self.changed.send_replace(());
        answer
    }

    fn perform(&self, acts: Vec<Act>) {
        let fake = self.clone();
        tokio::spawn(async move {
            for act in acts {
                match act {
                    Act::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
                    Act::Status(status) => fake.with(|play| play.change_pod(status)),
                    Act::DeletePod => fake.with(|play| {
                        if let Some(pod) = play.pod.take() {
                            play.tell("DELETED", pod);
                        }
                    }),
                    Act::Away(milliseconds) => {
                        fake.with(|play| play.away = true);
                        sleep(Duration::from_millis(milliseconds)).await;
                        fake.with(|play| play.away = false);
                    }
                    Act::Event(message) => fake.with(|play| {
                        play.events.push(json!({
                            "metadata": { "name": "event", "namespace": super::NAMESPACE },
                            "involvedObject": { "kind": "Job", "uid": JOB_UID },
                            "reason": "FailedCreate", "message": message, "type": "Warning",
                        }));
                    }),
                }
            }
        });
    }
}

impl Play {
    fn tell(&mut self, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.history.push((self.version, kind, object.clone()));
        object
    }

    fn change_pod(&mut self, status: Value) {
        let Some(job) = &self.job else { return };
        let kind = if self.pod.is_some() { "MODIFIED" } else { "ADDED" };
        let mut pod = self.pod.clone().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "the-pod", "namespace": super::NAMESPACE, "uid": "pod-uid",
                    "labels": job["spec"]["template"]["metadata"]["labels"],
                    "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": JOB_UID, "controller": true }],
                },
                "spec": job["spec"]["template"]["spec"],
            })
        });
        pod["status"] = status;
        self.pod = Some(self.tell(kind, pod));
    }
}

async fn serve(State(fake): State<Fake>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query: BTreeMap<String, String> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let method = request.method().as_str().to_owned();
    let agent = request.headers().get(header::USER_AGENT).cloned();
    fake.with(|play| {
        play.requests.push(format!("{method} {path}"));
        play.agents.insert(agent.map(|agent| agent.to_str().unwrap_or_default().to_owned()));
    });
    if fake.with(|play| play.away) {
        return failure(503, "the server is away");
    }
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", super::NAMESPACE);
    let pods = format!("/api/v1/namespaces/{}/pods", super::NAMESPACE);
    let events = format!("/api/v1/namespaces/{}/events", super::NAMESPACE);
    match (method.as_str(), path.as_str()) {
        ("POST", path) if path == jobs => create(&fake, body(request).await).await,
        ("GET", path) if path.starts_with(&jobs) => match fake.created_job() {
            Some(job) => ok(&job),
            None => failure(404, "jobs not found"),
        },
        ("DELETE", path) if path.starts_with(&jobs) => delete(&fake, body(request).await).await,
        ("GET", path) if path == events => ok(
            &json!({ "kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": fake.with(|play| play.events.clone()) }),
        ),
        ("GET", path) if path == pods && query.contains_key("watch") => {
            watch(&fake, query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0)).await
        }
        ("GET", path) if path == pods => list(&fake, query.contains_key("limit")).await,
        ("GET", path) if path.ends_with("/log") => log(&fake),
        (_, path) if path.ends_with("/exec") => exec(&fake, request, query.get("container").cloned()),
        ("GET", path) if path.starts_with(&pods) => match fake.with(|play| play.pod.clone()) {
            Some(pod) => ok(&pod),
            None => failure(404, "pods \"the-pod\" not found"),
        },
        (method, path) => failure(500, &format!("the fake does not know {method} {path}")),
    }
}

async fn create(fake: &Fake, job: Value) -> Response {
    let fault = fake.with(|play| play.script.create.pop_front());
    if let Some(Fault::Code(code, message)) = fault {
        return failure(code, message);
    }
    if matches!(fault, Some(Fault::Hang)) {
        return hang().await;
    }
    if let Some(Fault::Late(milliseconds)) = fault {
        let fake = fake.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(milliseconds)).await;
            take_effect(&fake, &job);
        });
        return hang().await;
    }
    if !take_effect(fake, &job) {
        return failure(409, "jobs already exists");
    }
    if matches!(fault, Some(Fault::Silence)) {
        return hang().await;
    }
    if fake.with(|play| play.script.foreign_job) {
        return failure(409, "jobs already exists");
    }
    ok(&fake.created_job().unwrap_or_default())
}

/// Whether there was no Job yet.
fn take_effect(fake: &Fake, job: &Value) -> bool {
    let mut job = job.clone();
    let acts = fake.with(|play| {
        if play.job.is_some() {
            return None;
        }
        job["metadata"]["uid"] = json!(JOB_UID);
        if play.script.foreign_job {
            job["metadata"]["labels"]["kubepermit.io/decision-id"] = json!("other");
        }
        play.job = Some(job);
        if play.script.decoy {
            play.change_pod(json!({ "phase": "Failed", "reason": "Evicted" }));
            let mut decoy = play.pod.take().unwrap_or_default();
            decoy["metadata"]["name"] = json!("decoy");
            decoy["metadata"]["ownerReferences"][0]["uid"] = json!("another");
            play.history.clear();
            play.decoy = Some(play.tell("ADDED", decoy));
        }
        Some(play.script.acts.clone())
    });
    let first = acts.is_some();
    fake.perform(acts.unwrap_or_default());
    first
}

async fn delete(fake: &Fake, options: Value) -> Response {
    match fake.with(|play| play.script.delete.pop_front()) {
        Some(Fault::Code(code, message)) => return failure(code, message),
        Some(Fault::Hang | Fault::Silence | Fault::Late(_)) => return hang().await,
        None => {}
    }
    fake.with(|play| {
        play.deletions.push(options);
        if let Some(pod) = play.pod.take() {
            play.tell("DELETED", pod);
        }
        match play.job.take() {
            Some(_) => {
                ok(&json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
            }
            None => failure(404, "jobs not found"),
        }
    })
}

async fn list(fake: &Fake, paged: bool) -> Response {
    if !paged && fake.with(|play| play.script.mute_lists) {
        return hang().await;
    }
    match fake.with(|play| play.script.list_pods.pop_front()) {
        Some(Fault::Code(code, message)) => return failure(code, message),
        Some(Fault::Hang | Fault::Silence | Fault::Late(_)) => return hang().await,
        None => {}
    }
    fake.with(|play| {
        let items: Vec<_> = play.decoy.iter().chain(&play.pod).cloned().collect();
        ok(&json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": play.version.to_string() }, "items": items }))
    })
}

async fn watch(fake: &Fake, from: u64) -> Response {
    match fake.with(|play| play.script.watch.pop_front()) {
        Some(Fault::Code(code, message)) => return failure(code, message),
        Some(Fault::Hang | Fault::Silence | Fault::Late(_)) => return hang().await,
        None => {}
    }
    let mute = fake.with(|play| play.script.mute_watch);
    let changes = fake.changed.subscribe();
    let stream = futures::stream::unfold(
        (fake.clone(), changes, from),
        move |(fake, mut changes, mut seen)| async move {
            loop {
                let next = {
                    let play = fake.play.lock().unwrap();
                    if play.away {
                        return None;
                    }
                    play.history.iter().find(|(version, ..)| *version > seen).cloned()
                };
                if let Some((version, kind, object)) = next
                    && !mute
                {
                    seen = version;
                    let line = format!("{}\n", json!({ "type": kind, "object": object }));
                    return Some((Ok::<_, Infallible>(Bytes::from(line)), (fake, changes, seen)));
                }
                changes.changed().await.ok()?;
            }
        },
    );
    Body::from_stream(stream).into_response()
}

fn log(fake: &Fake) -> Response {
    let (log, breaks) = fake.with(|play| {
        let breaks = play.script.log_breaks > 0;
        play.script.log_breaks = play.script.log_breaks.saturating_sub(1);
        (play.script.log.clone(), breaks)
    });
    if !breaks {
        return Body::from(log).into_response();
    }
    let half = Bytes::copy_from_slice(&log[..log.len() / 2]);
    let break_off = async {
        // Time for the first half to leave.
        sleep(Duration::from_millis(50)).await;
        Err(std::io::Error::other("broken"))
    };
    let stream = futures::stream::iter([Ok(half)]).chain(futures::stream::once(break_off));
    Body::from_stream(stream).into_response()
}

fn exec(fake: &Fake, mut request: Request, container: Option<String>) -> Response {
    let container = container.unwrap_or_default();
    let next = fake.with(|play| {
        let scripted = play.script.exec.get_mut(container.as_str())?;
        Some(if scripted.len() > 1 { scripted.remove(0) } else { scripted.first()?.clone() })
    });
    let Some(next) = next else {
        return failure(403, "pods \"the-pod\" is forbidden: cannot create resource \"pods/exec\"");
    };
    let key = request.headers()["sec-websocket-key"].as_bytes().to_vec();
    let fake = fake.clone();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let io = TokioIo::new(upgrade.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        converse(fake, socket, next).await;
    });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
    headers.insert(header::UPGRADE, "websocket".parse().unwrap());
    headers.insert("sec-websocket-accept", derive_accept_key(&key).parse().unwrap());
    headers.insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn converse<S>(fake: Fake, mut socket: WebSocketStream<S>, script: Exec)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;
    let (output, status) = match script {
        Exec::Output(output) => (output, Some(SUCCESS.to_owned())),
        Exec::Exit(output, code, stderr) => {
            frame(&mut socket, 2, stderr.as_bytes()).await;
            let status = json!({ "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] } });
            (output, Some(status.to_string()))
        }
        Exec::Break(output) => (output, None),
        Exec::Hang(output) => {
            frame(&mut socket, 1, &output).await;
            std::future::pending::<()>().await;
            return;
        }
        Exec::Flood(output) => {
            for _ in 0..64 {
                frame(&mut socket, 2, &[b'e'; 16 * 1024]).await;
            }
            (output, Some(SUCCESS.to_owned()))
        }
        Exec::Swallow | Exec::SwallowAndBreak => {
            let mut input = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                match message.into_data().as_ref() {
                    [255, 0] => break,
                    [0, data @ ..] => input.extend_from_slice(data),
                    _ => {}
                }
            }
            let acts = fake.with(|play| {
                play.input = input;
                play.script.after_input.clone()
            });
            fake.perform(acts);
            let status = matches!(script, Exec::Swallow).then(|| SUCCESS.to_owned());
            (Vec::new(), status)
        }
    };
    for chunk in output.chunks(10_000) {
        frame(&mut socket, 1, chunk).await;
    }
    if let Some(status) = status {
        frame(&mut socket, 3, status.as_bytes()).await;
        let _ = socket.close(None).await;
    }
}

async fn frame<S>(socket: &mut WebSocketStream<S>, channel: u8, data: &[u8])
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut message = vec![channel];
    message.extend_from_slice(data);
    let _ = socket.send(Message::Binary(message.into())).await;
}

async fn body(request: Request) -> Value {
    let bytes = axum::body::to_bytes(request.into_body(), 1 << 24).await.unwrap();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

async fn hang() -> Response {
    std::future::pending().await
}

fn ok(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

fn failure(code: u16, message: &str) -> Response {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "AlreadyExists",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code, "message": message });
    (StatusCode::from_u16(code).unwrap(), [(header::CONTENT_TYPE, "application/json")], status.to_string())
        .into_response()
}
