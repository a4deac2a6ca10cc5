//! An API server that records every request, and the real kubectl in front of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Stage, files, text};
use crate::session::Session;

/// Group, version, plural, kind: what the reads may ask for, and Secrets, which they must not.
const KINDS: [(&str, &str, &str, &str); 19] = [
    ("", "v1", "pods", "Pod"),
    ("", "v1", "events", "Event"),
    ("", "v1", "services", "Service"),
    ("", "v1", "secrets", "Secret"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("", "v1", "resourcequotas", "ResourceQuota"),
    ("", "v1", "limitranges", "LimitRange"),
    ("", "v1", "nodes", "Node"),
    ("apps", "v1", "deployments", "Deployment"),
    ("apps", "v1", "replicasets", "ReplicaSet"),
    ("apps", "v1", "statefulsets", "StatefulSet"),
    ("apps", "v1", "daemonsets", "DaemonSet"),
    ("batch", "v1", "jobs", "Job"),
    ("batch", "v1", "cronjobs", "CronJob"),
    ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    ("networking.k8s.io", "v1", "ingresses", "Ingress"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
];

/// A request as it came: method, target, and the `Authorization` header.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    target: String,
    authorization: Option<String>,
}

struct ApiServer {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl ApiServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                std::thread::spawn(move || serve(stream, &record));
            }
        });
        Self { address, seen }
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn kubeconfig(&self, stage: &Stage) -> PathBuf {
        let path = stage.home.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "c", "user": "u", "namespace": "kube-system" } }],
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "u", "user": { "token": "TOKEN-OF-THE-OPERATOR" } }],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

fn serve(stream: TcpStream, record: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        loop {
            let before = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            if head.len() - before <= 2 {
                break;
            }
        }
        let mut words = head.split(' ');
        let (method, target) =
            (words.next().unwrap().to_owned(), words.next().unwrap_or_default().to_owned());
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        std::io::copy(&mut Read::take(&mut reader, length), &mut std::io::sink()).unwrap();
        let (status, body) = answer(target.split('?').next().unwrap());
        record.lock().unwrap().push(Seen { method, target, authorization: header("authorization") });
        let kind = if body.is_string() { "text/plain" } else { "application/json" };
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let answer = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if (&stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(path: &str) -> (u16, Value) {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let version_of = |group: &str| KINDS.iter().find(|kind| kind.0 == group).map(|kind| kind.1);
    match words.as_slice() {
        ["version"] => (200, json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.0" })),
        ["api"] => (200, json!({ "kind": "APIVersions", "versions": ["v1"] })),
        ["apis"] => {
            let mut names: Vec<&str> =
                KINDS.iter().map(|kind| kind.0).filter(|group| !group.is_empty()).collect();
            names.dedup();
            let groups = names.iter().map(|name| {
                let version = version_of(name).unwrap();
                let version = json!({ "groupVersion": format!("{name}/{version}"), "version": version });
                json!({ "name": name, "versions": [version], "preferredVersion": version })
            });
            (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups.collect::<Vec<_>>() }))
        }
        ["api", "v1"] => (200, resources("", "v1")),
        ["apis", group, version] if version_of(group) == Some(version) => (200, resources(group, version)),
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => match rest {
            ["namespaces", namespace, "pods", name, "log"] => {
                (200, json!(format!("log of {namespace}/{name}\n")))
            }
            ["namespaces", namespace, plural, name] => object(plural, namespace, name),
            ["namespaces", namespace, plural] => list(plural, Some(namespace)),
            [plural] => list(plural, None),
            _ => not_found(),
        },
        _ => not_found(),
    }
}

fn resources(group: &str, version: &str) -> Value {
    let kinds = KINDS.iter().filter(|kind| kind.0 == group).map(|(_, _, plural, kind)| {
        json!({ "name": plural, "singularName": kind.to_lowercase(), "namespaced": *kind != "Node", "kind": kind,
                "verbs": ["get", "list", "watch", "delete", "create"] })
    });
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": kinds.collect::<Vec<_>>() })
}

fn api_version(kind: &(&str, &str, &str, &str)) -> String {
    if kind.0.is_empty() { kind.1.to_owned() } else { format!("{}/{}", kind.0, kind.1) }
}

fn list(plural: &str, namespace: Option<&str>) -> (u16, Value) {
    let Some(kind) = KINDS.iter().find(|kind| kind.2 == plural) else { return not_found() };
    let items = match (plural, namespace) {
        ("pods", Some(namespace)) => vec![object(plural, namespace, "web").1],
        _ => Vec::new(),
    };
    let body = json!({ "kind": format!("{}List", kind.3), "apiVersion": api_version(kind),
                       "metadata": { "resourceVersion": "1" }, "items": items });
    (200, body)
}

fn object(plural: &str, namespace: &str, name: &str) -> (u16, Value) {
    let Some(kind) = KINDS.iter().find(|kind| kind.2 == plural) else { return not_found() };
    let labels = json!({ "matchLabels": { "app": "web" } });
    let spec = match plural {
        "pods" => {
            json!({ "containers": [{ "name": "main", "image": "a" }, { "name": "side", "image": "b" }] })
        }
        "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "jobs" => {
            json!({ "selector": labels, "replicas": 1, "template": { "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "main", "image": "a" }] } } })
        }
        "cronjobs" => {
            json!({ "schedule": "* * * * *", "jobTemplate": { "spec": { "template": { "spec": {} } } } })
        }
        "horizontalpodautoscalers" => json!({ "scaleTargetRef": { "kind": "Deployment", "name": "web" } }),
        _ => json!({}),
    };
    let body = json!({
        "kind": kind.3, "apiVersion": api_version(kind), "spec": spec, "status": { "phase": "Running" },
        "metadata": { "name": name, "namespace": namespace, "uid": "u-1", "labels": { "app": "web" },
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{\"password\":\"s3cret\"}" } },
    });
    (200, body)
}

fn not_found() -> (u16, Value) {
    let message = "the server could not find the requested resource";
    (
        404,
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
                  "reason": "NotFound", "code": 404 }),
    )
}

/// Discovery, or something of the namespace `dev`. kubectl asks what the server has before it asks for anything.
fn is_within_bounds(target: &str) -> bool {
    let path = target.split('?').next().unwrap();
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    match words.as_slice() {
        ["version"] | ["api"] | ["apis"] | ["api", _] | ["apis", _, _] => true,
        ["api", _, "namespaces", "dev", rest @ ..] | ["apis", _, _, "namespaces", "dev", rest @ ..] => {
            !rest.is_empty() && rest[0] != "secrets"
        }
        _ => false,
    }
}

fn reads() -> Vec<(&'static str, Value)> {
    let mut reads = vec![
        ("list_pods", json!({ "namespace": "dev" })),
        ("list_pods", json!({ "namespace": "dev", "selector": "app in (web, api),tier!=cache,!canary" })),
        ("list_pods", json!({ "namespace": "dev", "field_selector": "status.phase=Running" })),
        ("list_events", json!({ "namespace": "dev" })),
        (
            "list_events",
            json!({ "namespace": "dev", "warnings_only": true, "for_kind": "pod", "for_name": "web" }),
        ),
        ("pod_logs", json!({ "namespace": "dev", "name": "web" })),
        (
            "pod_logs",
            json!({ "namespace": "dev", "name": "web", "container": "side", "tail_lines": 3,
                             "previous": true, "since_seconds": 60 }),
        ),
    ];
    let catalogue: Value =
        serde_json::from_str(include_str!("../../../schemas/tools/describe_resource.json")).unwrap();
    let kinds = catalogue["inputSchema"]["properties"]["kind"]["enum"].as_array().unwrap().clone();
    assert!(kinds.len() > 10 && !kinds.contains(&json!("secret")));
    for kind in kinds {
        reads.push(("describe_resource", json!({ "namespace": "dev", "kind": kind, "name": "web" })));
    }
    reads
}

/// The calls of the table of argv that are allowed, in the namespace that the server has.
fn allowed_rows() -> Vec<(String, Value)> {
    let rows = include_str!("../../golden/kubectl-argv.jsonl").lines();
    let rows = rows.map(|row| serde_json::from_str::<Value>(row).unwrap());
    let allowed = rows.filter(|row| row["verdict"] == json!("allow"));
    let here = allowed.filter(|row| row["arguments"]["namespace"] == json!("dev"));
    here.map(|row| (row["tool"].as_str().unwrap().to_owned(), row["arguments"].clone())).collect()
}

/// Every read with one kubectl, in an environment that tries to lead it elsewhere.
fn stays_within_bounds(kubectl: &std::path::Path) {
    let (server, elsewhere) = (ApiServer::start(), ApiServer::start());
    let stage = Stage::new("echo 'the wrong kubectl' >>\"$LOG\"");
    let kubeconfig = server.kubeconfig(&stage);
    let home = stage.home.path();
    let evil = format!("http://{}", elsewhere.address);
    std::fs::create_dir(home.join("tmp")).unwrap();
    std::fs::create_dir(home.join(".kube")).unwrap();
    let kuberc = format!(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ndefaults:\n- command: get\n  options:\n  - name: server\n    default: {evil}\n"
    );
    std::fs::write(home.join(".kube/kuberc"), &kuberc).unwrap();
    let default = std::fs::read_to_string(&kubeconfig).unwrap().replace(&server.address, &elsewhere.address);
    std::fs::write(home.join(".kube/config"), default).unwrap();
    let trap = format!("echo trap >>'{}'", home.join("log").display());
    for name in ["kubectl-get", "kubectl-describe", "kubectl-logs", "kubectl-foo"] {
        stage.program(name, &trap);
    }
    let mut command = stage.server(&[
        "--allow-namespaces",
        "dev",
        "--kubectl",
        kubectl.to_str().unwrap(),
        "--read-kubeconfig",
        kubeconfig.to_str().unwrap(),
    ]);
    command
        .env("TMPDIR", home.join("tmp"))
        .env("KUBERC", home.join(".kube/kuberc"))
        .env("KUBECONFIG", home.join(".kube/config"))
        .env("KUBERNETES_MASTER", &evil)
        .env("HTTP_PROXY", &evil)
        .env("HTTPS_PROXY", &evil)
        .env("ALL_PROXY", &evil)
        .env("KUBECTL_EXTERNAL_DIFF", stage.bin().join("kubectl-foo"))
        .env("LD_PRELOAD", home.join("evil.so"))
        .env("KUBECTL_PLUGINS_PATH", stage.bin());
    let mut session = Session::spawn(command);
    session.initialize("2025-11-25");
    let before = files(home);

    let check = |tool: &str, arguments: &Value, seen: &[Seen]| {
        for request in seen {
            assert_eq!(request.method, "GET", "{request:?}");
            assert!(is_within_bounds(&request.target), "{tool} {arguments}: {request:?}");
            let token = request.authorization.as_deref();
            assert!(token.is_none_or(|token| token == "Bearer TOKEN-OF-THE-OPERATOR"), "{request:?}");
        }
    };
    let rows = allowed_rows();
    assert!(rows.len() > 30, "{}", rows.len());
    let mut requests = 0;
    for (tool, arguments) in &rows {
        // Some name a container or an instance that this pod does not have; the asking is what counts.
        session.call(tool, arguments.clone());
        let seen = server.take();
        assert!(!seen.is_empty(), "{tool} {arguments} asked nothing");
        check(tool, arguments, &seen);
        requests += seen.len();
    }
    for (tool, arguments) in reads() {
        let (is_error, output) = text(&session.call(tool, arguments.clone()));
        assert!(!is_error, "{tool} {arguments}: {output}");
        assert!(!output.contains("s3cret") && !output.contains("TOKEN"), "{output}");
        let seen = server.take();
        assert!(!seen.is_empty(), "{tool} {arguments} asked nothing");
        check(tool, &arguments, &seen);
        requests += seen.len();
        match tool {
            "list_pods" => assert!(output.starts_with("NAME   READY   STATUS"), "{output}"),
            "list_events" => assert!(output.starts_with("No events found"), "{output}"),
            "pod_logs" => assert!(output.ends_with("log of dev/web\n"), "{output}"),
            _ => assert!(output.starts_with("Name:"), "{output}"),
        }
    }
    assert!(elsewhere.take().is_empty(), "requests went elsewhere");
    assert_eq!(stage.log(), "", "another program ran");
    // New are the records and what lies in the private folder's cache.
    let own = |path: &PathBuf| {
        let private = path.strip_prefix(home.join("tmp")).is_ok_and(|rest| {
            let rest = rest.to_str().unwrap();
            rest.starts_with("kubepermit-reads-") && rest.split('/').nth(1) == Some("cache")
        });
        private || path.starts_with(stage.audit())
    };
    let new: Vec<PathBuf> =
        files(home).into_iter().filter(|path| !before.contains(path) && !own(path)).collect();
    assert!(new.is_empty(), "{new:?}");
    eprintln!("{}: {} reads, {requests} requests", kubectl.display(), rows.len() + reads().len());
}

#[test]
fn the_installed_kubectl_stays_within_bounds() {
    match super::real::installed() {
        Some(kubectl) => stays_within_bounds(&kubectl),
        None => eprintln!("skipped: no kubectl is installed"),
    }
}

#[test]
fn a_newer_kubectl_stays_within_bounds() {
    match super::real::newer() {
        Some(kubectl) => stays_within_bounds(&kubectl),
        None => eprintln!("skipped: tests/clients/newer_kubectl.sh has not been run"),
    }
}
