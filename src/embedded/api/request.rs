//! What handlers take from a request: query parameters, JSON bodies, delete options.

use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::objects::plural;
use super::status::ApiError;
use crate::embedded::store::Kind;

/// Query parameters of list, watch, create and delete requests. Unknown ones are ignored, as Kubernetes does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Parameters {
    /// Which labels objects must have.
    pub label_selector: Option<String>,
    /// Which fields objects must have.
    pub field_selector: Option<String>,
    /// The most objects of one answer; 0 means all.
    pub limit: Option<usize>,
    /// Where the last answer ended.
    pub r#continue: Option<String>,
    /// `true` or `1` makes a list a watch.
    pub watch: Option<String>,
    /// From which version a watch starts.
    pub resource_version: Option<String>,
    /// When a watch ends, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Whether a watch may send `BOOKMARK` events.
    pub allow_watch_bookmarks: Option<String>,
    /// Whether a watch starts with all objects and a bookmark that ends them.
    pub send_initial_events: Option<String>,
    /// `All` when nothing is to be stored.
    pub dry_run: Option<String>,
    /// Grace of a deletion, in seconds.
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation_policy: Option<String>,
}

impl Parameters {
    /// Whether this is a watch.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        is_true(self.watch.as_deref())
    }

    /// Whether nothing is to be stored.
    ///
    /// # Errors
    /// 400 for another value than `All`.
    pub fn is_dry_run(&self) -> Result<bool, ApiError> {
        dry_run(self.dry_run.as_deref())
    }
}

/// How an object is to be deleted.
#[derive(Debug, Clone, Default)]
pub struct Deletion {
    /// Grace in seconds, when the caller gave one.
    pub grace: Option<i64>,
    /// What becomes of dependents, when the caller said.
    pub propagation: Option<Propagation>,
    /// The UID that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have.
    pub version: Option<String>,
    /// Whether nothing is to be done.
    pub dry_run: bool,
}

/// What becomes of the objects that an owner leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes at once, its dependents soon after.
    Background,
    /// The dependents go first.
    Foreground,
    /// The dependents stay.
    Orphan,
}

impl Deletion {
    /// Reads the body, and the parameters where the body is silent.
    ///
    /// # Errors
    /// 400 for a body or a policy that is none, 415 for another format.
    pub fn read(headers: &HeaderMap, parameters: &Parameters, body: &Bytes) -> Result<Self, ApiError> {
        let options: DeleteOptions =
            if body.is_empty() { DeleteOptions::default() } else { json_body(headers, body)? };
        let policy = options.propagation_policy.as_deref().or(parameters.propagation_policy.as_deref());
        let propagation = match policy {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let message = format!("unsupported propagationPolicy {other:?}");
                return Err(ApiError::bad_request(message));
            }
        };
        let grace = options.grace_period_seconds.or(parameters.grace_period_seconds);
        let listed = options.dry_run.unwrap_or_default();
        let preconditions = options.preconditions.unwrap_or_default();
        Ok(Self {
            grace: grace.map(|seconds| seconds.max(0)),
            propagation,
            uid: preconditions.uid,
            version: preconditions.resource_version,
            dry_run: dry_run(listed.first().map(String::as_str))? || parameters.is_dry_run()?,
        })
    }
}

impl Deletion {
    /// Whether `object` is the one that the caller means.
    ///
    /// # Errors
    /// 409 when it has another UID or version.
    pub fn check<K: Kind>(&self, object: &K) -> Result<(), ApiError> {
        let meta = object.metadata();
        let name = meta.name.as_deref().unwrap_or_default();
        let pairs =
            [("UID", &self.uid, &meta.uid), ("ResourceVersion", &self.version, &meta.resource_version)];
        for (what, wanted, actual) in pairs {
            if wanted.is_some() && wanted != actual {
                let (wanted, actual) =
                    (wanted.as_deref().unwrap_or_default(), actual.as_deref().unwrap_or_default());
                let message = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
                );
                return Err(ApiError::conflict(plural::<K>(), name, &message));
            }
        }
        Ok(())
    }
}

/// Parses a JSON body.
///
/// # Errors
/// 415 for another content type, 400 for JSON that is not such an object.
pub fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(ApiError::unsupported_media_type());
    }
    serde_json::from_slice(body)
        .map_err(|e| ApiError::bad_request(format!("the object provided is unrecognized: {e}")))
}

/// Whether a parameter says yes: Kubernetes takes `true` and `1`.
#[must_use]
pub fn is_true(value: Option<&str>) -> bool {
    matches!(value, Some("true" | "1" | "True" | "TRUE" | "t" | "T"))
}

fn dry_run(value: Option<&str>) -> Result<bool, ApiError> {
    match value {
        None | Some("") => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            Err(ApiError::bad_request(format!("Unsupported value: {other:?}: supported values: \"All\"")))
        }
    }
}
