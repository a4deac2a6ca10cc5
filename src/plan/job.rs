//! `run_job`'s plan: the exact Job manifest, its input files and its deadline.

mod extras;
mod recover;
mod resources;
mod seal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::batch::v1::Job;
use serde_json::Value;

use crate::ids::{DecisionId, HandleKey, ProcessId};
use crate::plan::artifacts::WantedArtifacts;
use crate::plan::image::{ImageReference, ResolvedImage};
use crate::plan::{Budgets, ClonePlan, Rights, clone, keep, manifest, path, process};
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::{RunJob, ToolCall};

pub use extras::{CacheVolume, JobExtras, PlannedCache};
pub use recover::{NotRecoverable, RecoveredJob};

/// What the operator configured for every job.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Namespace of the Jobs (`MCP_K8S_NAMESPACE`).
    pub namespace: String,
    /// Which server made a Job: the value of the label `kubepermit.io/instance`.
    pub instance: String,
    /// Wall clock of a command that names none, in seconds (`MCP_K8S_DEFAULT_TIMEOUT_S`).
    pub default_timeout_s: u64,
    /// cpu request in millicores (`MCP_K8S_DEFAULT_CPU`).
    pub default_cpu_millis: u64,
    /// Memory request in bytes (`MCP_K8S_DEFAULT_MEMORY`).
    pub default_memory_bytes: u64,
    /// The image that injects input files and collects artifacts (`MCP_K8S_SIDECAR_IMAGE`), as written.
    pub helper_image: String,
    /// User, group and fsGroup of every container.
    pub user: i64,
    /// Which pod fields the policy's data relaxes.
    pub profile: PodProfile,
    /// What is not there unless the operator set it.
    pub extras: JobExtras,
}

/// `pod.profile` of the policy's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodProfile {
    /// Pod Security "restricted" and more.
    #[default]
    Restricted,
    /// Without non-root and the read-only root file system, for images that need them.
    Compat,
}

/// A Job that may be judged: what the policy reads is what the executor sends.
///
/// INVARIANT (plan): made in this module only, and never changed afterwards.
#[derive(Debug)]
pub struct JobPlan {
    id: DecisionId,
    handle: Option<HandleKey>,
    image: ResolvedImage,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    files: Vec<PlannedFile>,
    workdir: String,
    artifacts: WantedArtifacts,
    timeout: Duration,
    resources: JobResources,
    clone: Option<ClonePlan>,
    cache: Option<PlannedCache>,
    extra_env_names: Vec<String>,
    manifest: Job,
    manifest_view: Value,
    manifest_sha256: String,
}

/// An input file with a checked path and parsed mode.
#[derive(Debug, Clone)]
pub struct PlannedFile {
    /// Relative to the work directory, normalised, without `.` or `..`.
    pub path: String,
    /// Permission bits, at most `0o777`.
    pub mode: u32,
    /// The content.
    pub content: Bytes,
}

/// Requests and limits of the main container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobResources {
    /// Request in millicores.
    pub cpu_request_millis: u64,
    /// Request in bytes.
    pub memory_request_bytes: u64,
    /// Limit in millicores, when the caller gave one.
    pub cpu_limit_millis: Option<u64>,
    /// Limit in bytes, when the caller gave one.
    pub memory_limit_bytes: Option<u64>,
}

impl JobPlan {
    /// The decision that this plan belongs to.
    #[must_use]
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// Whose job in the background this is; `None` for one that its call waits for.
    #[must_use]
    pub fn handle(&self) -> Option<&HandleKey> {
        self.handle.as_ref()
    }

    /// Namespace of the Job.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.manifest.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Name of the Job: `kubepermit-` and the decision id's 32 digits.
    #[must_use]
    pub fn job_name(&self) -> &str {
        self.manifest.metadata.name.as_deref().unwrap_or_default()
    }

    /// The image, requested and resolved.
    #[must_use]
    pub fn image(&self) -> &ResolvedImage {
        &self.image
    }

    /// The argv of the main container.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// The caller's environment variables.
    #[must_use]
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// The names of the caller's environment variables, in order.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        self.env.keys().map(String::as_str)
    }

    /// The size of all input files together, in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files
            .iter()
            .map(|file| u64::try_from(file.content.len()).unwrap_or(u64::MAX))
            .fold(0, u64::saturating_add)
    }

    /// The input files.
    #[must_use]
    pub fn files(&self) -> &[PlannedFile] {
        &self.files
    }

    /// Absolute path of the work directory.
    #[must_use]
    pub fn workdir(&self) -> &str {
        &self.workdir
    }

    /// Which files come back.
    #[must_use]
    pub fn artifacts(&self) -> &WantedArtifacts {
        &self.artifacts
    }

    /// The command's own wall clock.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Requests and limits of the main container.
    #[must_use]
    pub fn resources(&self) -> &JobResources {
        &self.resources
    }

    /// The repository that is cloned first.
    #[must_use]
    pub fn clone_plan(&self) -> Option<&ClonePlan> {
        self.clone.as_ref()
    }

    /// How long cloning may take.
    #[must_use]
    pub fn clone_budget(&self) -> Duration {
        if self.clone.is_some() { Budgets::CLONE } else { Duration::ZERO }
    }

    /// The cache, if this job has it.
    #[must_use]
    pub fn cache(&self) -> Option<&PlannedCache> {
        self.cache.as_ref()
    }

    /// The names of the operator's variables for every job, in order.
    #[must_use]
    pub fn extra_env_names(&self) -> &[String] {
        &self.extra_env_names
    }

    /// The Job, byte for byte what the executor sends.
    #[must_use]
    pub fn manifest(&self) -> &Job {
        &self.manifest
    }

    /// The manifest as a policy or a record sees it: each environment value is replaced by `{sha256, len}`.
    /// The contents of input files are not in the manifest at all.
    #[must_use]
    pub fn manifest_view(&self) -> &Value {
        &self.manifest_view
    }

    /// SHA-256 of the manifest's JSON, in hexadecimal.
    #[must_use]
    pub fn manifest_sha256(&self) -> &str {
        &self.manifest_sha256
    }
}

/// Which call a plan is for.
#[derive(Debug, Clone, Copy)]
struct Whose<'a> {
    id: DecisionId,
    handle: Option<&'a HandleKey>,
    process: Option<&'a ProcessId>,
}

/// Makes the plan of a `run_job` or `submit_job` call.
pub(super) fn plan(
    call: &ToolCall,
    job: &RunJob,
    settings: &JobSettings,
    rights: &Rights,
) -> Result<JobPlan, Refusal> {
    let handle = call.handle();
    let process = call.origin().map(|origin| &origin.process);
    plan_for(Whose { id: call.id(), handle: handle.as_ref(), process }, job, settings, rights)
}

fn plan_for(
    whose: Whose<'_>,
    job: &RunJob,
    settings: &JobSettings,
    rights: &Rights,
) -> Result<JobPlan, Refusal> {
    // Every part is looked at before the call is refused, so that one reply names all that must change.
    let mut reasons = Vec::new();
    let image = keep(rights.images.resolve(&job.image).map_err(Some), &mut reasons);
    let helper = keep(helper_image(settings).map_err(Some), &mut reasons);
    keep(process::command(&job.command), &mut reasons);
    keep(process::env(&job.env), &mut reasons);
    let files = keep(path::files(&job.files), &mut reasons);
    let workdir = path::workdir(job.workdir.as_deref());
    let workdir = keep(workdir.map_err(Some), &mut reasons);
    let wanted = keep(WantedArtifacts::parse(job.artifacts.as_deref()), &mut reasons);
    let timeout = process::timeout(job.timeout_s, settings.default_timeout_s);
    let timeout = keep(timeout.map_err(Some), &mut reasons);
    let resources = keep(resources::of(&job.limits, settings), &mut reasons);
    let extras = &settings.extras;
    let cloned = job.clone.as_ref().map(|request| clone::plan(request, extras, rights)).transpose();
    let cloned = keep(cloned, &mut reasons).flatten();
    if let (Some(clone), Some(files)) = (&cloned, &files) {
        reasons.extend(clone::conflicts(clone, files));
    }
    let cache = workdir.as_deref().map(|workdir| extras::cache(extras.cache.as_ref(), rights.cache, workdir));
    let cache = keep(cache.transpose().map_err(Some), &mut reasons).flatten().flatten();

    let (
        Some(image),
        Some(helper),
        Some(files),
        Some(workdir),
        Some(wanted),
        Some(timeout),
        Some(resources),
        true,
    ) = (image, helper, files, workdir, wanted, timeout, resources, reasons.is_empty())
    else {
        return Err(Refusal { stage: Stage::Plan, reasons });
    };
    let Whose { id, handle, process } = whose;
    let manifest = manifest::build(&manifest::Parts {
        id,
        handle,
        process,
        files: &files,
        image: &image.reference,
        helper_image: &helper,
        command: &job.command,
        env: &job.env,
        has_files: !files.is_empty(),
        wanted: &wanted,
        clone: cloned.as_ref(),
        cache: cache.as_ref(),
        workdir: &workdir,
        timeout,
        resources: &resources,
        settings,
    });
    let seal =
        seal::seal(&manifest, settings.profile).map_err(|reason| Refusal::because(Stage::Plan, reason))?;
    Ok(JobPlan {
        id,
        handle: handle.cloned(),
        image,
        command: job.command.clone(),
        env: job.env.clone(),
        files,
        workdir,
        artifacts: wanted,
        timeout,
        resources,
        clone: cloned,
        cache,
        extra_env_names: extras.env.keys().cloned().collect(),
        manifest,
        manifest_view: seal.view,
        manifest_sha256: seal.sha256,
    })
}

fn helper_image(settings: &JobSettings) -> Result<ImageReference, Reason> {
    settings.helper_image.parse().map_err(|fault: Reason| {
        Reason::new(
            "plan.helper_image",
            format!("the configured helper {}", fault.message),
            "",
            "the operator must correct MCP_K8S_SIDECAR_IMAGE",
        )
    })
}
