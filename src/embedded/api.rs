//! The API server: which path does what.

pub mod access;
mod discovery;
mod exec;
mod jobs;
mod leases;
mod log;
mod objects;
mod pods;
mod request;
mod reviews;
mod selectors;
pub mod status;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolumeClaim, Pod};

use super::cluster::Cluster;
use status::ApiError;

/// The API server's own limit of a request's body.
const BODY_LIMIT: usize = 3 << 20;

/// All paths, behind the token.
pub fn router(cluster: &Arc<Cluster>) -> Router {
    let core = Router::new()
        .route("/namespaces", get(objects::list_all::<Namespace>))
        .route("/namespaces/{name}", get(objects::get_global::<Namespace>))
        .route("/nodes", get(objects::list_all::<Node>))
        .route("/nodes/{name}", get(objects::get_global::<Node>))
        .route("/persistentvolumeclaims", get(objects::list_all::<PersistentVolumeClaim>))
        .route("/namespaces/{namespace}/persistentvolumeclaims", get(objects::list::<PersistentVolumeClaim>))
        .route(
            "/namespaces/{namespace}/persistentvolumeclaims/{name}",
            get(objects::get::<PersistentVolumeClaim>),
        )
        .route("/pods", get(objects::list_all::<Pod>))
        .route("/namespaces/{namespace}/pods", get(objects::list::<Pod>).delete(pods::delete_many))
        .route("/namespaces/{namespace}/pods/{name}", get(objects::get::<Pod>).delete(pods::delete))
        .route("/namespaces/{namespace}/pods/{name}/log", get(log::log))
        .route("/namespaces/{namespace}/pods/{name}/exec", get(exec::exec).post(exec::exec))
        .route("/events", get(objects::list_all::<Event>))
        .route("/namespaces/{namespace}/events", get(objects::list::<Event>))
        .route("/namespaces/{namespace}/events/{name}", get(objects::get::<Event>));
    let batch = Router::new()
        .route("/jobs", get(objects::list_all::<Job>))
        .route(
            "/namespaces/{namespace}/jobs",
            get(objects::list::<Job>).post(jobs::create).delete(jobs::delete_many),
        )
        .route("/namespaces/{namespace}/jobs/{name}", get(objects::get::<Job>).delete(jobs::delete));
    let coordination = Router::new()
        .route("/leases", get(objects::list_all::<Lease>))
        .route("/namespaces/{namespace}/leases", get(objects::list::<Lease>).post(leases::create))
        .route(
            "/namespaces/{namespace}/leases/{name}",
            get(objects::get::<Lease>).put(leases::replace).delete(leases::delete),
        );
    Router::new()
        .route("/version", get(discovery::version))
        .route("/api", get(discovery::core_versions))
        .route("/apis", get(discovery::groups))
        .route("/api/v1", get(discovery::core_resources))
        .route("/apis/{group}/{version}", get(discovery::group_resources))
        .nest("/api/v1", core)
        .nest("/apis/batch/v1", batch)
        .route(access::ACCESS_REVIEWS, post(reviews::access))
        .route(access::SUBJECT_REVIEWS, post(reviews::subject))
        .nest("/apis/coordination.k8s.io/v1", coordination)
        .fallback(other)
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(from_fn_with_state(Arc::clone(cluster), access::guard))
        .with_state(Arc::clone(cluster))
}

/// Everything without a path of its own.
async fn other(request: Request) -> Result<Response, ApiError> {
    let path = request.uri().path();
    let found = discovery::read_empty(path);
    if found.is_ok() && request.method() != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    found
}
