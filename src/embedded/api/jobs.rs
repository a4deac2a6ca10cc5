//! Jobs: created, and deleted with what belongs to them.

mod defaults;
mod validate;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::objects::{delete_chosen, deleted_response, find, object_response, plural};
use super::request::{Deletion, Parameters, Propagation, json_body};
use super::status::{ApiError, What};
use crate::embedded::cluster::Cluster;
use crate::embedded::store::Store;

/// The finalizer of an object that goes after its dependents.
pub use crate::embedded::controller::FOREGROUND;

/// Creates a Job.
pub async fn create(
    State(cluster): State<Arc<Cluster>>,
    Path(namespace): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let dry_run = parameters.is_dry_run()?;
    let mut job: Job = json_body(&headers, &body)?;
    if job.metadata.namespace.as_ref().is_some_and(|own| !own.is_empty() && *own != namespace) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if cluster.store.namespaces.get("", &namespace).is_none() {
        return Err(ApiError::not_found(What { group: "", word: "namespaces" }, &namespace));
    }
    job.metadata.namespace = Some(namespace);
    defaults::fill(&mut job);
    let name = job.metadata.name.clone().unwrap_or_default();
    let causes = validate::job(&job);
    if !causes.is_empty() {
        return Err(ApiError::invalid(What { group: "batch", word: "Job" }, &name, &causes));
    }
    if dry_run {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        if cluster.store.jobs.get(namespace, &name).is_some() {
            return Err(ApiError::already_exists(plural::<Job>(), &name));
        }
        job.metadata.creation_timestamp = Some(Time(Timestamp::now()));
        return Ok(object_response(StatusCode::CREATED, &job));
    }
    let created =
        cluster.store.jobs.create(job).map_err(|_| ApiError::already_exists(plural::<Job>(), &name))?;
    Ok(object_response(StatusCode::CREATED, &*created))
}

/// Deletes one Job.
pub async fn delete(
    State(cluster): State<Arc<Cluster>>,
    Path((namespace, name)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let deletion = Deletion::read(&headers, &parameters, &body)?;
    let job = find::<Job>(&cluster, &namespace, &name)?;
    deletion.check(&*job)?;
    if deletion.dry_run {
        return Ok(object_response(StatusCode::OK, &*job));
    }
    let uid = job.metadata.uid.clone().unwrap_or_default();
    match remove(&cluster.store, &job, deletion.propagation) {
        Some(ending) => Ok(object_response(StatusCode::OK, &*ending)),
        None => Ok(deleted_response::<Job>(&name, &uid)),
    }
}

/// Deletes the Jobs of a namespace that the selectors choose.
pub async fn delete_many(
    State(cluster): State<Arc<Cluster>>,
    Path(namespace): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let deletion = Deletion::read(&headers, &parameters, &body)?;
    delete_chosen::<Job>(&cluster, &namespace, &parameters, &deletion, |job| {
        remove(&cluster.store, job, deletion.propagation);
    })
}

/// Removes a Job, or marks it when its pods go first; returns it then.
fn remove(store: &Store, job: &Job, propagation: Option<Propagation>) -> Option<Arc<Job>> {
    let meta = &job.metadata;
    let (namespace, name, uid) = (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    );
    match propagation {
        Some(Propagation::Foreground) => store.jobs.update(namespace, name, uid, |job| {
            let meta = &mut job.metadata;
            let fresh = meta.deletion_timestamp.is_none();
            meta.deletion_timestamp.get_or_insert_with(|| Time(Timestamp::now()));
            meta.deletion_grace_period_seconds = Some(0);
            meta.finalizers = Some(vec![FOREGROUND.to_owned()]);
            fresh
        }),
        Some(Propagation::Background) => {
            store.jobs.remove(namespace, name, uid);
            None
        }
        // A Job of batch/v1 leaves its pods behind unless it is told otherwise.
        Some(Propagation::Orphan) | None => {
            for pod in store.pods.list(Some(namespace)).0 {
                release(store, &pod, uid);
            }
            store.jobs.remove(namespace, name, uid);
            None
        }
    }
}

/// Takes a pod's owner away, so that it stays.
fn release(store: &Store, pod: &Pod, owner: &str) {
    let owned = pod.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner);
    if let (true, Some(namespace), Some(name), Some(uid)) =
        (owned, &pod.metadata.namespace, &pod.metadata.name, &pod.metadata.uid)
    {
        store.pods.update(namespace, name, uid, |pod| {
            pod.metadata.owner_references = None;
            true
        });
    }
}
