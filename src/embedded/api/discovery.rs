//! `/version` and the discovery documents: which kinds the embedded cluster has.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::objects::object_response;
use super::status::{ApiError, What};

/// The version whose API this stands in for. `k8s_openapi` is built for the same.
const GIT_VERSION: &str = "v1.33.0+kubepermit-embedded";

/// Kinds that exist and of which there is never one: what reads of a small cluster run into. Group, version, plural, kind.
const EMPTY_KINDS: [EmptyKind; 11] = [
    EmptyKind::new("", "v1", "configmaps", "ConfigMap", "cm"),
    EmptyKind::new("", "v1", "endpoints", "Endpoints", "ep"),
    EmptyKind::new("", "v1", "limitranges", "LimitRange", "limits"),
    EmptyKind::new("", "v1", "resourcequotas", "ResourceQuota", "quota"),
    EmptyKind::new("", "v1", "secrets", "Secret", ""),
    EmptyKind::new("", "v1", "serviceaccounts", "ServiceAccount", "sa"),
    EmptyKind::new("", "v1", "services", "Service", "svc"),
    EmptyKind::new("apps", "v1", "daemonsets", "DaemonSet", "ds"),
    EmptyKind::new("apps", "v1", "deployments", "Deployment", "deploy"),
    EmptyKind::new("apps", "v1", "replicasets", "ReplicaSet", "rs"),
    EmptyKind::new("apps", "v1", "statefulsets", "StatefulSet", "sts"),
];

struct EmptyKind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static str,
}

/// `GET /version`.
pub async fn version() -> Response {
    object_response(
        StatusCode::OK,
        &json!({
            "major": "1",
            "minor": "33",
            "gitVersion": GIT_VERSION,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }),
    )
}

/// `GET /api`.
pub async fn core_versions() -> Response {
    object_response(StatusCode::OK, &json!({"kind": "APIVersions", "versions": ["v1"]}))
}

/// `GET /apis`.
pub async fn groups() -> Response {
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    let names = ["apps", "authentication.k8s.io", "authorization.k8s.io", "batch", "coordination.k8s.io"];
    let groups = names.map(group);
    object_response(StatusCode::OK, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `GET /api/v1`.
pub async fn core_resources() -> Response {
    let read = json!(["get", "list", "watch"]);
    let mut resources = vec![
        json!({"name": "events", "singularName": "event", "namespaced": true, "kind": "Event",
               "verbs": read, "shortNames": ["ev"]}),
        json!({"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
               "verbs": read, "shortNames": ["ns"]}),
        json!({"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
               "verbs": read, "shortNames": ["no"]}),
        json!({"name": "persistentvolumeclaims", "singularName": "persistentvolumeclaim", "namespaced": true,
               "kind": "PersistentVolumeClaim", "verbs": read, "shortNames": ["pvc"]}),
        json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
               "verbs": ["delete", "deletecollection", "get", "list", "watch"],
               "shortNames": ["po"], "categories": ["all"]}),
        json!({"name": "pods/exec", "singularName": "", "namespaced": true, "kind": "PodExecOptions",
               "verbs": ["create", "get"]}),
        json!({"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]}),
    ];
    resources.extend(empty_resources(""));
    resource_list("v1", &resources)
}

/// `GET /apis/{group}/v1`.
pub async fn group_resources(Path((group, version)): Path<(String, String)>) -> Result<Response, ApiError> {
    let mut resources = match (group.as_str(), version.as_str()) {
        ("apps", "v1") => Vec::new(),
        ("batch", "v1") => {
            vec![json!({"name": "jobs", "singularName": "job", "namespaced": true, "kind": "Job",
                   "verbs": ["create", "delete", "deletecollection", "get", "list", "watch"],
                   "categories": ["all"]})]
        }
        ("authentication.k8s.io", "v1") => {
            vec![json!({"name": "selfsubjectreviews", "singularName": "selfsubjectreview",
                   "namespaced": false, "kind": "SelfSubjectReview", "verbs": ["create"]})]
        }
        ("coordination.k8s.io", "v1") => {
            vec![json!({"name": "leases", "singularName": "lease", "namespaced": true, "kind": "Lease",
                   "verbs": ["create", "delete", "get", "list", "update", "watch"]})]
        }
        ("authorization.k8s.io", "v1") => {
            vec![json!({"name": "selfsubjectaccessreviews", "singularName": "selfsubjectaccessreview",
                   "namespaced": false, "kind": "SelfSubjectAccessReview", "verbs": ["create"]})]
        }
        _ => return Err(ApiError::no_such_path()),
    };
    resources.extend(empty_resources(&group));
    Ok(resource_list(&format!("{group}/{version}"), &resources))
}

/// A list or get of a kind that has no objects; 404 for a path that is none.
///
/// # Errors
/// 404.
pub fn read_empty(path: &str) -> Result<Response, ApiError> {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match words.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(ApiError::no_such_path()),
    };
    let (plural, name) = match rest {
        ["namespaces", _, plural] | [plural] => (*plural, None),
        ["namespaces", _, plural, name] => (*plural, Some(*name)),
        _ => return Err(ApiError::no_such_path()),
    };
    let known = EMPTY_KINDS.iter().find(|k| (k.group, k.version, k.plural) == (group, version, plural));
    let Some(kind) = known else {
        return Err(ApiError::no_such_path());
    };
    match name {
        Some(name) => Err(ApiError::not_found(What { group: kind.group, word: kind.plural }, name)),
        None => Ok(object_response(
            StatusCode::OK,
            &json!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(),
                    "metadata": {"resourceVersion": "1"}, "items": []}),
        )),
    }
}

impl EmptyKind {
    const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        short: &'static str,
    ) -> Self {
        Self { group, version, plural, kind, short }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

fn empty_resources(group: &str) -> Vec<Value> {
    EMPTY_KINDS
        .iter()
        .filter(|kind| kind.group == group)
        .map(|kind| {
            let short: &[&str] = if kind.short.is_empty() { &[] } else { &[kind.short] };
            json!({"name": kind.plural, "singularName": kind.kind.to_ascii_lowercase(), "namespaced": true,
                   "kind": kind.kind, "verbs": ["get", "list"], "shortNames": short})
        })
        .collect()
}

fn resource_list(group_version: &str, resources: &[Value]) -> Response {
    object_response(
        StatusCode::OK,
        &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
                "resources": resources}),
    )
}
