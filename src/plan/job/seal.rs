//! The last look at a finished manifest: its digest, its redacted view, and one check of the whole.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::plan::PodProfile;
use crate::plan::pod_security::{self, Level};
use crate::refusal::Reason;

/// The API server stores an object of at most 1.5 MiB; the pod made from the template is a second copy with
/// a status of its own.
const MAX_MANIFEST_BYTES: usize = 1024 * 1024;

/// What is derived from a finished manifest.
pub(super) struct Seal {
    /// The manifest with every environment value redacted.
    pub view: Value,
    /// Of the manifest's JSON, in hexadecimal.
    pub sha256: String,
}

/// Checks the finished manifest once more, as a whole: whatever the builder did, a pod that breaks its
/// Pod Security level is not planned.
pub(super) fn seal(manifest: &Job, profile: PodProfile) -> Result<Seal, Reason> {
    let internal = |what: String| Reason::new("plan.manifest", what, "", "");
    let json = serde_json::to_vec(manifest)
        .map_err(|error| internal(format!("the manifest cannot be written as JSON: {error}")))?;
    if json.len() > MAX_MANIFEST_BYTES {
        return Err(Reason::new(
            "plan.too_large",
            format!("the job's manifest has {} bytes, more than {MAX_MANIFEST_BYTES}", json.len()),
            "",
            "put long arguments and environment values into files",
        ));
    }
    let mut view = serde_json::to_value(manifest)
        .map_err(|error| internal(format!("the manifest cannot be written as JSON: {error}")))?;
    let level = match profile {
        PodProfile::Restricted => Level::Restricted,
        PodProfile::Compat => Level::Baseline,
    };
    let violated = pod_security::violations(level, view.pointer("/spec/template").unwrap_or(&Value::Null));
    if !violated.is_empty() {
        return Err(Reason::new(
            "plan.pod_security",
            format!("the job's pod would violate Pod Security {level}: {}", violated.join(", ")),
            "",
            "the operator must correct the user and the pod profile that are configured",
        ));
    }
    redact_env(&mut view);
    Ok(Seal { view, sha256: hex::encode(Sha256::digest(&json)) })
}

/// Replaces the value of every entry of every `env` list.
fn redact_env(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_array_mut().filter(|_| name == "env") {
                    Some(entries) => entries.iter_mut().for_each(redact_entry),
                    None => redact_env(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_env),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn redact_entry(entry: &mut Value) {
    if let Some(value) = entry.get_mut("value") {
        let content = value.as_str().unwrap_or_default();
        *value = json!({ "sha256": hex::encode(Sha256::digest(content)), "len": content.len() });
    }
}
