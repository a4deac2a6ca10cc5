//! Pods: deleted through the API, made by the Job controller only.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use k8s_openapi::api::core::v1::Pod;

use super::objects::{delete_chosen, find, object_response};
use super::request::{Deletion, Parameters};
use super::status::ApiError;
use crate::embedded::cluster::Cluster;
use crate::embedded::deletion::{Deleted, delete_pod};

/// Deletes one pod.
pub async fn delete(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let deletion = Deletion::read(&headers, &parameters, &body)?;
    let pod = find::<Pod>(&cluster, &namespace, &name)?;
    deletion.check(&*pod)?;
    if deletion.dry_run {
        return Ok(object_response(StatusCode::OK, &*pod));
    }
    Ok(match delete_pod(&cluster.store, &pod, deletion.grace) {
        Deleted::Ending(pod) => object_response(StatusCode::OK, &*pod),
        Deleted::Gone => object_response(StatusCode::OK, &*pod),
    })
}

/// Deletes the pods of a namespace that the selectors choose.
pub async fn delete_many(
    State(cluster): State<Arc<Cluster>>,
    Path(namespace): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let deletion = Deletion::read(&headers, &parameters, &body)?;
    delete_chosen::<Pod>(&cluster, &namespace, &parameters, &deletion, |pod| {
        delete_pod(&cluster.store, pod, deletion.grace);
    })
}
