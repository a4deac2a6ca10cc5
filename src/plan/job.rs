//! `run_job`'s plan: the exact Job manifest, its input files and its deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::batch::v1::Job;

use crate::ids::DecisionId;
use crate::plan::image::{AllowedImages, ResolvedImage};
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::RunJob;

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
    image: ResolvedImage,
    command: Vec<String>,
    env: BTreeMap<String, String>,
    files: Vec<PlannedFile>,
    workdir: String,
    timeout: Duration,
    resources: JobResources,
    manifest: Job,
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

    /// The Job, byte for byte what the executor sends.
    #[must_use]
    pub fn manifest(&self) -> &Job {
        &self.manifest
    }

    /// SHA-256 of the manifest's JSON, in hexadecimal.
    #[must_use]
    pub fn manifest_sha256(&self) -> &str {
        &self.manifest_sha256
    }
}

/// Makes the plan of a `run_job` call.
pub(super) fn plan(
    _id: DecisionId,
    _job: &RunJob,
    _settings: &JobSettings,
    _images: &AllowedImages,
) -> Result<JobPlan, Refusal> {
    Err(Refusal::because(Stage::Plan, Reason::new("stub", "", "", "")))
}
