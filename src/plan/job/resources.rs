//! Requests and limits of the main container.

use crate::plan::quantity::{self, QuantityError};
use crate::plan::{JobResources, JobSettings, keep};
use crate::refusal::Reason;
use crate::schema::RequestedLimits;

/// A request is the default, except that it never exceeds the caller's limit. A memory limit is also the
/// request: memory cannot be taken back, so the node must have it.
pub(super) fn of(limits: &RequestedLimits, settings: &JobSettings) -> Result<JobResources, Vec<Reason>> {
    let mut reasons = Vec::new();
    let cpu = limits.cpu.as_deref().map(quantity::cpu_millis).transpose();
    let cpu = keep(cpu.map_err(|error| Some(reason(&error, "cpu", "500m"))), &mut reasons);
    let memory = limits.memory.as_deref().map(quantity::memory_bytes).transpose();
    let memory = keep(memory.map_err(|error| Some(reason(&error, "memory", "256Mi"))), &mut reasons);
    let (Some(cpu), Some(memory)) = (cpu, memory) else {
        return Err(reasons);
    };
    Ok(JobResources {
        cpu_request_millis: cpu
            .map_or(settings.default_cpu_millis, |limit| limit.min(settings.default_cpu_millis)),
        memory_request_bytes: memory.unwrap_or(settings.default_memory_bytes),
        cpu_limit_millis: cpu,
        memory_limit_bytes: memory,
    })
}

fn reason(error: &QuantityError, resource: &str, example: &str) -> Reason {
    Reason::new(
        "limits.invalid",
        format!("the {resource} limit {error}"),
        format!("/limits/{resource}"),
        format!("write a Kubernetes quantity, for example `{example}`"),
    )
}
