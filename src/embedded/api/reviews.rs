//! Reviews: what the one who asks may do, and who that is. Nothing is stored; a review is its own answer.

use axum::Extension;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, SelfSubjectReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::access::Identity;
use super::objects::object_response;
use super::request::json_body;
use super::status::{ApiError, Cause, What};

/// `POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews`: the token's owner may do everything, the reader
/// may read.
pub async fn access(
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut review: SelfSubjectAccessReview = json_body(&headers, &body)?;
    check(&review)?;
    let allowed = match identity {
        Identity::Owner => true,
        Identity::Reader => is_read(&review.spec),
    };
    review.status = Some(SubjectAccessReviewStatus { allowed, ..SubjectAccessReviewStatus::default() });
    Ok(object_response(StatusCode::CREATED, &review))
}

/// `POST /apis/authentication.k8s.io/v1/selfsubjectreviews`.
pub async fn subject(
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut review: SelfSubjectReview = json_body(&headers, &body)?;
    let username = match identity {
        Identity::Owner => "kubepermit-embedded",
        Identity::Reader => "kubepermit-embedded-reader",
    };
    let user = UserInfo {
        username: Some(username.to_owned()),
        groups: Some(vec!["system:authenticated".to_owned()]),
        ..UserInfo::default()
    };
    review.status = Some(SelfSubjectReviewStatus { user_info: Some(user) });
    Ok(object_response(StatusCode::CREATED, &review))
}

/// As the API server validates it (`pkg/apis/authorization/validation`).
fn check(review: &SelfSubjectAccessReview) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let cause = |field: &str, message: &str| Cause {
        reason: "FieldValueInvalid",
        field: field.to_owned(),
        message: format!("Invalid value: {message}"),
    };
    let spec = &review.spec;
    match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(_), Some(_)) => causes.push(cause(
            "spec.nonResourceAttributes",
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => causes.push(cause(
            "spec.resourceAttributes",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        (Some(_), None) | (None, Some(_)) => {}
    }
    let metadata = ObjectMeta { managed_fields: None, ..review.metadata.clone() };
    if metadata != ObjectMeta::default() {
        causes.push(cause("metadata", "must be empty"));
    }
    if causes.is_empty() {
        return Ok(());
    }
    let what = What { group: "authorization.k8s.io", word: "SelfSubjectAccessReview" };
    Err(ApiError::invalid(what, "", &causes))
}

fn is_read(spec: &SelfSubjectAccessReviewSpec) -> bool {
    let (verb, subresource) = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(resource), _) => (&resource.verb, resource.subresource.as_deref()),
        (None, Some(path)) => (&path.verb, None),
        (None, None) => return false,
    };
    matches!(verb.as_deref(), Some("get" | "list" | "watch")) && subresource != Some("exec")
}
