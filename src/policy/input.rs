//! The policy's input document, `schemas/policy-input.json`: facts about who asks for what, and what would
//! run. Every field is always there; what does not apply is null.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::plan::{ClonePlan, HandlePlan, JobPlan, KubectlPlan, Plan, PlannedCache};
use crate::schema::ToolCall;

/// The version of the document's shape: it changes when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Builds the document.
pub(in crate::policy) fn document(caller: &Caller, call: &ToolCall, plan: &Plan, time: Timestamp) -> Value {
    let (job, kubectl, handle) = match plan {
        Plan::Job(job) => (self::job(job), Value::Null, Value::Null),
        Plan::Kubectl(read) => (Value::Null, self::kubectl(read), Value::Null),
        Plan::Handle(handle) => (Value::Null, Value::Null, self::handle(handle)),
    };
    json!({
        "schema": SCHEMA,
        "request": { "id": call.id(), "time": time.to_string() },
        "caller": {
            "name": caller.name(),
            "roles": caller.roles(),
            "transport": caller.transport(),
            "client": caller.client(),
        },
        "tool": call.tool(),
        "arguments": call.redacted(),
        "job": job,
        "kubectl": kubectl,
        "handle": handle,
    })
}

fn job(plan: &JobPlan) -> Value {
    let image = &plan.image().reference;
    let resources = plan.resources();
    json!({
        "namespace": plan.namespace(),
        "background": plan.handle().is_some(),
        "image": {
            "requested": plan.image().requested,
            "registry": image.registry(),
            "repository": image.repository(),
            "tag": image.tag(),
            "digest": image.digest(),
            "key": image.key(),
        },
        "command": plan.command(),
        "env_names": plan.env_names().collect::<Vec<_>>(),
        "files": { "count": plan.files().len(), "bytes": plan.file_bytes() },
        "workdir": plan.workdir(),
        "artifacts": { "wanted": plan.artifacts().as_str(), "patterns": plan.artifacts().patterns() },
        "timeout_s": seconds(plan.timeout()),
        "resources": {
            "cpu_millis": resources.cpu_limit_millis.unwrap_or(0).max(resources.cpu_request_millis),
            "memory_bytes": resources.memory_limit_bytes.unwrap_or(0).max(resources.memory_request_bytes),
            "cpu_request_millis": resources.cpu_request_millis,
            "memory_request_bytes": resources.memory_request_bytes,
            "cpu_limit_millis": resources.cpu_limit_millis,
            "memory_limit_bytes": resources.memory_limit_bytes,
        },
        "clone": plan.clone_plan().map(clone),
        "cache": plan.cache().map(cache),
        "extra_env_names": plan.extra_env_names(),
        "manifest": plan.manifest_view(),
        "manifest_sha256": plan.manifest_sha256(),
    })
}

fn clone(plan: &ClonePlan) -> Value {
    let path = plan.url.path();
    let repository = path.strip_prefix('/').unwrap_or(path);
    json!({
        "host": plan.url.host().name(),
        "port": plan.url.host().port(),
        "path": path,
        "repository": repository.strip_suffix(".git").unwrap_or(repository),
        "ref": plan.reference.as_str(),
        "commit": plan.reference.is_commit(),
        "subdir": plan.subdir,
        "submodules": plan.submodules,
    })
}

fn cache(cache: &PlannedCache) -> Value {
    json!({
        "claim": cache.volume.claim,
        "mount_path": cache.volume.mount_path,
        "read_only": cache.read_only,
    })
}

fn kubectl(plan: &KubectlPlan) -> Value {
    json!({
        "verb": plan.verb().as_str(),
        "resource": plan.resource(),
        "group": plan.group(),
        "namespace": plan.namespace(),
        "all_namespaces": plan.all_namespaces(),
        "flags": plan.flags(),
        "argv": plan.argv(),
    })
}

fn handle(plan: &HandlePlan) -> Value {
    json!({
        "operation": plan.operation().as_str(),
        "wait_s": plan.operation().wait_s(),
        "token_digest": plan.key().token(),
    })
}

/// Whole seconds, rounded up: a ceiling must not be passed by a fraction.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests;
