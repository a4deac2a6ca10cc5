//! An API server that knows one namespace and decides by RBAC, with the rules of deploy/kubernetes.yaml.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize as _;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "mcp-ephemeral";

/// What the server is like.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Rules of a Role in the namespace.
    pub rules: Vec<Value>,
    /// Everything is allowed, and everything can be seen.
    pub admin: bool,
    /// The objects that the namespace holds.
    pub objects: Vec<Value>,
    pub minor: &'static str,
    /// Seconds by which the server's clock is ahead.
    pub ahead: i64,
}

impl Setting {
    /// The identity and the objects of deploy/kubernetes.yaml.
    pub fn deployed() -> Self {
        let objects = manifests();
        let role = objects.iter().find(|object| object["kind"] == json!("Role")).unwrap();
        let rules = role["rules"].as_array().unwrap().clone();
        assert!(!rules.is_empty());
        Self { rules, admin: false, objects, minor: "33", ahead: 0 }
    }

    /// Takes one verb out of the rules.
    pub fn without(mut self, verb: &str, resource: &str) -> Self {
        let mut taken = 0;
        for rule in &mut self.rules {
            if rule["resources"].as_array().unwrap().contains(&json!(resource)) {
                let verbs = rule["verbs"].as_array_mut().unwrap();
                let before = verbs.len();
                verbs.retain(|given| given != verb);
                taken += before - verbs.len();
            }
        }
        assert_eq!(taken, 1, "{verb} {resource}");
        self
    }

    /// One more rule.
    pub fn with(mut self, group: &str, resource: &str, verbs: &[&str]) -> Self {
        self.rules.push(json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs }));
        self
    }

    /// Without the objects of a kind.
    pub fn lacking(mut self, kind: &str) -> Self {
        self.objects.retain(|object| object["kind"] != json!(kind));
        self
    }

    fn allows(&self, attributes: &Value) -> bool {
        let text = |key: &str| attributes[key].as_str().unwrap_or_default();
        let part = text("subresource");
        let slash = if part.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{part}", text("resource"));
        let has = |list: &Value, wanted: &str| {
            list.as_array().unwrap().iter().any(|given| given == wanted || given == "*")
        };
        let matches = |rule: &Value| {
            has(&rule["verbs"], text("verb"))
                && has(&rule["apiGroups"], text("group"))
                && has(&rule["resources"], &resource)
        };
        self.admin || (text("namespace") == NAMESPACE && self.rules.iter().any(matches))
    }
}

/// The documents of deploy/kubernetes.yaml.
fn manifests() -> Vec<Value> {
    let text = include_str!("../../../deploy/kubernetes.yaml");
    serde_yaml::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

#[derive(Debug, Clone)]
pub struct Server {
    setting: Arc<Setting>,
    seen: Arc<Mutex<Vec<(Method, String)>>>,
    kubeconfig: Arc<tempfile::NamedTempFile>,
}

impl Server {
    pub async fn start(setting: Setting) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", listener.local_addr().unwrap()) } }],
            "users": [{ "name": "u", "user": { "token": "TOKEN-OF-THE-OPERATOR" } }],
        });
        std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
        let server =
            Self { setting: Arc::new(setting), seen: Arc::default(), kubeconfig: Arc::new(kubeconfig) };
        let router = Router::new().fallback(serve).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.path().to_owned()
    }

    /// That the server was asked, and that nothing but reads and reviews was sent.
    pub fn was_only_asked(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(!seen.is_empty());
        for (method, path) in seen.iter() {
            let review = path.ends_with("/selfsubjectaccessreviews") || path.ends_with("/selfsubjectreviews");
            assert!(*method == Method::GET || (*method == Method::POST && review), "{method} {path}");
        }
    }
}

async fn serve(State(server): State<Server>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    server.seen.lock().unwrap().push((method.clone(), path.clone()));
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let (code, answer) = answer(&server.setting, &method, &path, &body);
    let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(server.setting.ahead);
    let date = time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let headers = [(header::CONTENT_TYPE, "application/json".to_owned()), (header::DATE, date)];
    (StatusCode::from_u16(code).unwrap(), headers, answer.to_string()).into_response()
}

fn answer(setting: &Setting, method: &Method, path: &str, body: &Bytes) -> (u16, Value) {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, words.as_slice()) {
        (&Method::GET, ["version"]) => {
            let git_version = format!("v1.{}.0", setting.minor);
            let mut version = json!({ "major": "1", "minor": setting.minor, "gitVersion": git_version });
            for key in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
                version[key] = json!("");
            }
            (200, version)
        }
        (&Method::POST, ["apis", "authorization.k8s.io", "v1", _]) => {
            let mut review: Value = serde_json::from_slice(body).unwrap();
            review["status"] = json!({ "allowed": setting.allows(&review["spec"]["resourceAttributes"]) });
            (201, review)
        }
        (&Method::POST, ["apis", "authentication.k8s.io", "v1", _]) => {
            let mut review: Value = serde_json::from_slice(body).unwrap();
            let groups = if setting.admin { ["system:masters"] } else { ["system:authenticated"] };
            review["status"] = json!({ "userInfo": { "username": "somebody", "groups": groups } });
            (201, review)
        }
        (&Method::GET, ["api", "v1", "namespaces", name]) => {
            let found = setting.objects.iter().find(|object| {
                object["kind"] == json!("Namespace") && object["metadata"]["name"] == json!(name)
            });
            visible(setting.admin, found.cloned())
        }
        (&Method::GET, [.., "namespaces", NAMESPACE, plural]) => {
            let items: Vec<&Value> =
                setting.objects.iter().filter(|object| plural_of(object) == *plural).collect();
            visible(setting.admin, Some(json!({ "metadata": {}, "items": items })))
        }
        (&Method::GET, ["api", "v1", "namespaces", NAMESPACE, plural, name]) => {
            let attributes = json!({ "verb": "get", "resource": plural, "namespace": NAMESPACE });
            let found = setting
                .objects
                .iter()
                .find(|object| plural_of(object) == *plural && object["metadata"]["name"] == json!(name));
            let mut found = found.cloned();
            if let Some(found) = found.as_mut().filter(|_| *plural == "secrets") {
                // Only asked for its metadata.
                found["kind"] = json!("PartialObjectMetadata");
                found["apiVersion"] = json!("meta.k8s.io/v1");
            }
            visible(setting.allows(&attributes), found)
        }
        _ => status(404, "NotFound"),
    }
}

fn plural_of(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"))
}

fn visible(may: bool, found: Option<Value>) -> (u16, Value) {
    match (may, found) {
        (false, _) => status(403, "Forbidden"),
        (true, Some(found)) => (200, found),
        (true, None) => status(404, "NotFound"),
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let message = "somebody said so";
    (
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code }),
    )
}
