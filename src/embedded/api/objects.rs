//! Get and list, the same for every kind.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use k8s_openapi::Resource;
use serde::Serialize;
use serde_json::json;

use super::request::{Deletion, Parameters};
use super::selectors::Selectors;
use super::status::{ApiError, What};
use super::watch;
use crate::embedded::cluster::Cluster;
use crate::embedded::store::Kind;

/// Lists or watches a namespace's objects.
pub async fn list<K: Kind>(
    State(cluster): State<Arc<Cluster>>,
    Path(namespace): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    list_or_watch::<K>(&cluster, Some(namespace), &parameters)
}

/// Lists or watches the objects of all namespaces, or of a kind that has none.
pub async fn list_all<K: Kind>(
    State(cluster): State<Arc<Cluster>>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    list_or_watch::<K>(&cluster, None, &parameters)
}

/// Gets one object of a namespace.
pub async fn get<K: Kind>(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    find::<K>(&cluster, &namespace, &name).map(|object| object_response(StatusCode::OK, &*object))
}

/// Gets one object of a kind that has no namespaces.
pub async fn get_global<K: Kind>(
    State(cluster): State<Arc<Cluster>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    find::<K>(&cluster, "", &name).map(|object| object_response(StatusCode::OK, &*object))
}

/// The object of that name.
///
/// # Errors
/// 404.
pub fn find<K: Kind>(cluster: &Cluster, namespace: &str, name: &str) -> Result<Arc<K>, ApiError> {
    K::collection(&cluster.store).get(namespace, name).ok_or_else(|| ApiError::not_found(plural::<K>(), name))
}

/// The objects that a list or a deletion of many is about.
///
/// # Errors
/// 400 for a wrong selector.
pub fn select<K: Kind>(
    cluster: &Cluster,
    namespace: Option<&str>,
    selectors: &Selectors,
) -> Result<(Vec<Arc<K>>, u64), ApiError> {
    let (mut objects, version) = K::collection(&cluster.store).list(namespace);
    let mut wrong = None;
    objects.retain(|object| {
        selectors.matches(&**object).unwrap_or_else(|error| {
            wrong = Some(error);
            false
        })
    });
    wrong.map_or(Ok((objects, version)), Err)
}

/// An object as a response.
pub fn object_response<T: Serialize>(code: StatusCode, object: &T) -> Response {
    match serde_json::to_vec(object) {
        Ok(body) => (code, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response(),
        Err(error) => ApiError::internal(error.to_string()).into_response(),
    }
}

/// What an API server says of an object that is deleted and gone.
pub fn deleted_response<K: Resource>(name: &str, uid: &str) -> Response {
    let details = json!({"name": name, "group": K::GROUP, "kind": K::URL_PATH_SEGMENT, "uid": uid});
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    object_response(StatusCode::OK, &status)
}

/// Deletes the objects of a namespace that the selectors choose, each by `delete`.
///
/// # Errors
/// 400 for options or a selector that are wrong.
pub fn delete_chosen<K: Kind>(
    cluster: &Cluster,
    namespace: &str,
    parameters: &Parameters,
    deletion: &Deletion,
    delete: impl Fn(&K),
) -> Result<Response, ApiError> {
    let selectors =
        Selectors::parse(parameters.label_selector.as_deref(), parameters.field_selector.as_deref())?;
    let (chosen, version) = select::<K>(cluster, Some(namespace), &selectors)?;
    if !deletion.dry_run {
        chosen.iter().for_each(|object| delete(object));
    }
    Ok(list_response(&chosen, version))
}

/// Objects as a list response.
pub fn list_response<K: Kind>(objects: &[Arc<K>], version: u64) -> Response {
    chunk_response(objects, version, None)
}

/// The same, with where the list goes on and how many objects are left.
fn chunk_response<K: Kind>(objects: &[Arc<K>], version: u64, next: Option<(String, usize)>) -> Response {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (Some((token, rest)), Some(members)) = (next, metadata.as_object_mut()) {
        members.insert("continue".to_owned(), json!(token));
        members.insert("remainingItemCount".to_owned(), json!(rest));
    }
    let items: Vec<&K> = objects.iter().map(|object| &**object).collect();
    let list = json!({
        "kind": K::LIST_KIND,
        "apiVersion": K::API_VERSION,
        "metadata": metadata,
        "items": items,
    });
    object_response(StatusCode::OK, &list)
}

/// How 404 and 409 name a kind.
#[must_use]
pub fn plural<K: Resource>() -> What<'static> {
    What { group: K::GROUP, word: K::URL_PATH_SEGMENT }
}

fn list_or_watch<K: Kind>(
    cluster: &Arc<Cluster>,
    namespace: Option<String>,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let selectors =
        Selectors::parse(parameters.label_selector.as_deref(), parameters.field_selector.as_deref())?;
    if parameters.is_watch() {
        return watch::watch::<K>(cluster, namespace, selectors, parameters);
    }
    let (objects, version) = select::<K>(cluster, namespace.as_deref(), &selectors)?;
    page(objects, version, parameters)
}

/// One chunk of a list (API concepts, "Retrieving large results sets in chunks"). The token names the version at
/// which the list began, and the last object of the chunk before. Unlike etcd, what changed since shows in later
/// chunks; a real server does the same once a token is old.
fn page<K: Kind>(
    mut objects: Vec<Arc<K>>,
    version: u64,
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let place = |object: &Arc<K>| {
        let meta = object.metadata();
        format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        )
    };
    let mut version = version;
    if let Some(token) = parameters.r#continue.as_deref().filter(|token| !token.is_empty()) {
        let read = token.split_once(':').and_then(|(began, last)| Some((began.parse::<u64>().ok()?, last)));
        let Some((began, last)) = read else {
            return Err(ApiError::bad_request("continue key is not valid"));
        };
        version = began;
        objects.retain(|object| place(object).as_str() > last);
    }
    let limit = parameters.limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let rest = objects.len().saturating_sub(limit);
    objects.truncate(limit);
    let next = objects.last().filter(|_| rest > 0).map(|last| format!("{version}:{}", place(last)));
    Ok(chunk_response(&objects, version, next.map(|token| (token, rest))))
}
