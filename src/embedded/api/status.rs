//! Errors as Kubernetes' `Status` objects, with the codes and reasons that its API server uses.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A request that was refused: one `Status` object.
#[derive(Debug, Clone)]
pub struct ApiError {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Value>,
}

/// One wrong field of an object, as validation reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, ...
    pub reason: &'static str,
    /// Path of the field, as `spec.template.spec.containers[0].image`.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

/// What kind of object an error is about: `group`, and the plural for 404 and 409 or the kind for 422.
#[derive(Debug, Clone, Copy)]
pub struct What<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Plural or kind.
    pub word: &'a str,
}

impl ApiError {
    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401: no or a wrong token.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403: known, but not allowed.
    pub fn forbidden(why: &str) -> Self {
        let mut error = Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {why}"));
        error.details = Some(json!({}));
        error
    }

    /// 404 for an object.
    pub fn not_found(what: What<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", what.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(what, name)
    }

    /// 404 for a path that the server does not know.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource";
        let mut error = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        error.details = Some(json!({}));
        error
    }

    /// 405: the path is known, the method is not.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message);
        error.details = Some(json!({}));
        error
    }

    /// 409: the name is taken.
    pub fn already_exists(what: What<'_>, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", what.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(what, name)
    }

    /// 409: a precondition does not hold.
    pub fn conflict(what: What<'_>, name: &str, message: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {message}", what.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(what, name)
    }

    /// 410: a watch from a version whose changes are forgotten.
    pub fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413: the body is over the limit.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 415: a body in another format than JSON.
    pub fn unsupported_media_type() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 422: the object is wrong.
    pub fn invalid(what: What<'_>, name: &str, causes: &[Cause]) -> Self {
        let list: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let list = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {list}", what.qualified());
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        error.details = Some(json!({"name": name, "group": what.group, "kind": what.word, "causes": causes}));
        error
    }

    /// 500: something that only the node knows went wrong.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = format!("Internal error occurred: {}", message.into());
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// 504: a version from the future.
    pub fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// The error as a `Status` object: the body of a response, or of a watch's `ERROR` event.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if let (Some(details), Value::Object(map)) = (&self.details, &mut status) {
            map.insert("details".to_owned(), details.clone());
        }
        status
    }

    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, what: What<'_>, name: &str) -> Self {
        self.details = Some(if what.group.is_empty() {
            json!({"name": name, "kind": what.word})
        } else {
            json!({"name": name, "group": what.group, "kind": what.word})
        });
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.code, [(header::CONTENT_TYPE, "application/json")], self.status().to_string()).into_response()
    }
}

impl What<'_> {
    /// `jobs.batch`, or `pods` in the core group.
    fn qualified(self) -> String {
        if self.group.is_empty() { self.word.to_owned() } else { format!("{}.{}", self.word, self.group) }
    }
}
