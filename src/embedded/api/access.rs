//! Who may do what: the bearer token opens everything, a path prefix opens reads.
//!
//! The prefix is for kubectl, which sends no token over plain HTTP (client-go reads a kubeconfig's user for TLS
//! alone). It stands in URLs, which end up in error messages and logs, so that it must not be worth much.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq as _;

use super::BODY_LIMIT;
use super::status::ApiError;
use crate::embedded::cluster::Cluster;

/// What somebody may do.
pub(super) const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Who somebody is.
pub(super) const SUBJECT_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Marks a request that came with the reader's prefix.
#[derive(Debug, Clone, Copy)]
struct Reader;

/// Who sent a request that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Whoever has the token.
    Owner,
    /// Whoever has the prefix and sends no token.
    Reader,
}

/// Takes the reader's prefix off a request's path, before it is routed.
pub fn strip_prefix<B>(cluster: &Cluster, request: &mut axum::http::Request<B>) {
    let text = request.uri().path_and_query().map(|path| path.as_str()).unwrap_or_default();
    let Some((first, rest)) = text.strip_prefix('/').and_then(|path| path.split_once('/')) else {
        return;
    };
    if !bool::from(first.as_bytes().ct_eq(cluster.reader.as_bytes())) {
        return;
    }
    if let Ok(uri) = format!("/{rest}").parse::<Uri>() {
        *request.uri_mut() = uri;
        request.extensions_mut().insert(Reader);
    }
}

/// Lets requests through that may pass, and words as `Status` what the framework refuses in plain text.
pub(super) async fn guard(
    State(cluster): State<Arc<Cluster>>,
    mut request: Request<Body>,
    next: Next,
) -> Response {
    match check(&cluster, &request) {
        Ok(identity) => request.extensions_mut().insert(identity),
        Err(refusal) => return refusal.into_response(),
    };
    // A body that is announced as too large need not be read.
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.and_then(|value| value.parse().ok()).is_some_and(|length: usize| length > BODY_LIMIT) {
        return ApiError::too_large(BODY_LIMIT).into_response();
    }
    let response = next.run(request).await;
    let plain = response.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json");
    match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE if plain => ApiError::too_large(BODY_LIMIT).into_response(),
        StatusCode::BAD_REQUEST if plain => {
            ApiError::bad_request("the request cannot be read").into_response()
        }
        _ => response,
    }
}

fn check(cluster: &Cluster, request: &Request<Body>) -> Result<Identity, ApiError> {
    if let Some(given) = request.headers().get(header::AUTHORIZATION) {
        let expected = format!("Bearer {}", cluster.token);
        let right = bool::from(given.as_bytes().ct_eq(expected.as_bytes()));
        return if right { Ok(Identity::Owner) } else { Err(ApiError::unauthorized()) };
    }
    if request.extensions().get::<Reader>().is_none() {
        return Err(ApiError::unauthorized());
    }
    let path = request.uri().path();
    let reads = request.method() == Method::GET && !path.ends_with("/exec");
    // Besides GET, a reader may ask about itself.
    let asks = request.method() == Method::POST && [ACCESS_REVIEWS, SUBJECT_REVIEWS].contains(&path);
    if reads || asks {
        return Ok(Identity::Reader);
    }
    Err(ApiError::forbidden("without the token the embedded cluster can only be read"))
}
