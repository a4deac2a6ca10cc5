//! Leases of coordination.k8s.io: created, replaced under an optimistic lock, deleted.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use k8s_openapi::api::coordination::v1::Lease;

use super::objects::{deleted_response, find, object_response, plural};
use super::request::{Deletion, Parameters, json_body};
use super::status::{ApiError, What};
use crate::embedded::cluster::Cluster;

/// Creates a Lease.
pub async fn create(
    State(cluster): State<Arc<Cluster>>,
    Path(namespace): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut lease: Lease = json_body(&headers, &body)?;
    if cluster.store.namespaces.get("", &namespace).is_none() {
        return Err(ApiError::not_found(What { group: "", word: "namespaces" }, &namespace));
    }
    let name = lease.metadata.name.clone().unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::bad_request("name or generateName is required"));
    }
    lease.metadata.namespace = Some(namespace);
    let created =
        cluster.store.leases.create(lease).map_err(|_| ApiError::already_exists(plural::<Lease>(), &name))?;
    Ok(object_response(StatusCode::CREATED, &*created))
}

/// Replaces a Lease. A `resourceVersion` in the body has to be the current one (API conventions, "Concurrency
/// Control and Consistency").
pub async fn replace(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    const MODIFIED: &str =
        "the object has been modified; please apply your changes to the latest version and try again";
    let new: Lease = json_body(&headers, &body)?;
    let old = find::<Lease>(&cluster, &namespace, &name)?;
    let uid = old.metadata.uid.clone().unwrap_or_default();
    let conflict = || ApiError::conflict(plural::<Lease>(), &name, MODIFIED);
    if new.metadata.uid.as_ref().is_some_and(|wanted| *wanted != uid) {
        return Err(conflict());
    }
    let wanted = new.metadata.resource_version.clone().filter(|version| !version.is_empty());
    let mut fits = true;
    let replaced = cluster.store.leases.update(&namespace, &name, &uid, |lease| {
        fits = wanted.is_none() || wanted == lease.metadata.resource_version;
        if fits {
            lease.spec = new.spec;
            lease.metadata.labels = new.metadata.labels;
            lease.metadata.annotations = new.metadata.annotations;
        }
        fits
    });
    match replaced.filter(|_| fits) {
        Some(lease) => Ok(object_response(StatusCode::OK, &*lease)),
        None => Err(conflict()),
    }
}

/// Deletes a Lease.
pub async fn delete(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let deletion = Deletion::read(&headers, &parameters, &body)?;
    let lease = find::<Lease>(&cluster, &namespace, &name)?;
    deletion.check(&*lease)?;
    let uid = lease.metadata.uid.clone().unwrap_or_default();
    if !deletion.dry_run {
        cluster.store.leases.remove(&namespace, &name, &uid);
    }
    Ok(deleted_response::<Lease>(&name, &uid))
}
