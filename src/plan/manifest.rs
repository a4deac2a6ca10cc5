//! The Job manifest: one function from checked values to the exact object that the executor sends.
//!
//! Callers contribute values only (image, argv, environment, paths, amounts); every field of the pod is
//! chosen here. What each field is for stands beside it.

mod cloner;
mod containers;
mod life;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::ids::{DecisionId, HandleKey, ProcessId};
use crate::plan::artifacts::WantedArtifacts;
use crate::plan::budgets::Budgets;
use crate::plan::image::ImageReference;
use crate::plan::{ClonePlan, JobResources, JobSettings, PlannedCache, PlannedFile, PodProfile};

pub(in crate::plan) use life::Life;

/// The container that runs the caller's command.
pub const MAIN: &str = "main";
/// The init container that clones a repository; present only when a call asks for one. It comes first.
pub const CLONE: &str = "clone";
/// The init container that takes the input files; present only when there are some.
pub const INJECT: &str = "inject";
/// The container beside [`MAIN`] through which artifacts are collected; absent when none are wanted.
pub const HELPER: &str = "helper";

/// Where [`INJECT`] and [`HELPER`] find their signals. [`MAIN`] never sees this directory.
pub const CONTROL_DIR: &str = "/kubepermit";
/// [`INJECT`] ends with success once this file exists: every input file is in place.
pub const READY_FILE: &str = "/kubepermit/ready";
/// An init container other than [`INJECT`] that leaves files in the work directory creates this when they are in place:
/// what has not changed since is no artifact, unless the call asks for it.
pub const BEFORE_FILE: &str = "/kubepermit/before";
/// [`HELPER`] ends with success once this file exists: every artifact is read.
pub const DONE_FILE: &str = "/kubepermit/done";

/// The label that marks what kubepermit made.
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The label that holds the decision id.
pub const LABEL_DECISION_ID: &str = "kubepermit.io/decision-id";
/// The label that holds the instance of the gateway ([`JobSettings::instance`]).
pub const LABEL_INSTANCE: &str = "kubepermit.io/instance";
/// The label of a Job that holds the process which answers for it.
pub const LABEL_PROCESS: &str = "kubepermit.io/process";
/// The label of a Job in the background that holds the digest of its token.
pub const LABEL_TOKEN: &str = "kubepermit.io/token-digest";
/// The label of a Job in the background that holds the digest of its caller.
pub const LABEL_OWNER: &str = "kubepermit.io/caller-digest";
/// The annotation of a Job that holds when it has no right to exist any more, whoever made it (RFC 3339).
pub const ANNOTATION_EXPIRES_AT: &str = "kubepermit.io/expires-at";
/// The annotation of a Job in the background that holds what another process needs to see it to its end.
pub const ANNOTATION_LIFE: &str = "kubepermit.io/life";
/// A label selector for everything that kubepermit made.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by=kubepermit";

/// Long enough for a process that handles SIGTERM, short enough for a prompt answer.
const TERMINATION_GRACE_S: i64 = 2;
/// The executor deletes a Job once its output is read; this removes what an executor that died left behind.
const TTL_AFTER_FINISHED_S: i32 = 300;

/// The checked values that a manifest is made of.
#[derive(Debug, Clone, Copy)]
pub(in crate::plan) struct Parts<'a> {
    pub id: DecisionId,
    pub handle: Option<&'a HandleKey>,
    pub process: Option<&'a ProcessId>,
    pub files: &'a [PlannedFile],
    pub image: &'a ImageReference,
    pub helper_image: &'a ImageReference,
    pub command: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub has_files: bool,
    pub wanted: &'a WantedArtifacts,
    pub clone: Option<&'a ClonePlan>,
    pub cache: Option<&'a PlannedCache>,
    pub workdir: &'a str,
    pub timeout: Duration,
    pub resources: &'a JobResources,
    pub settings: &'a JobSettings,
}

/// The Job.
pub(in crate::plan) fn build(parts: &Parts<'_>) -> Job {
    let labels = labels(parts);
    let cloning = parts.clone.map_or(Duration::ZERO, |_| Budgets::CLONE);
    let deadline = Budgets::JOB.deadline(parts.timeout).saturating_add(cloning);
    // The API server's bound, which the sum alone keeps to without a clone.
    let deadline = i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX).min(i64::from(i32::MAX));
    Job {
        metadata: ObjectMeta {
            // A fixed name: a create that is repeated after a lost reply cannot make a second pod.
            name: Some(format!("kubepermit-{}", parts.id.hex())),
            namespace: Some(parts.settings.namespace.clone()),
            labels: Some(life::labels(parts, labels.clone())),
            annotations: Some(life::annotations(parts)),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            // A command runs once, whatever becomes of its pod.
            backoff_limit: Some(0),
            pod_replacement_policy: Some("Failed".to_owned()),
            active_deadline_seconds: Some(deadline),
            ttl_seconds_after_finished: Some(TTL_AFTER_FINISHED_S),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod(parts, deadline)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

fn labels(parts: &Parts<'_>) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_MANAGED_BY.to_owned(), "kubepermit".to_owned()),
        (LABEL_DECISION_ID.to_owned(), parts.id.to_string()),
        (LABEL_INSTANCE.to_owned(), parts.settings.instance.clone()),
    ])
}

fn pod(parts: &Parts<'_>, deadline: i64) -> PodSpec {
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        // On the pod too: a Job's deadline needs a working Job controller, a pod's only its node.
        active_deadline_seconds: Some(deadline),
        termination_grace_period_seconds: Some(TERMINATION_GRACE_S),
        // The command gets no credentials for the API server and no addresses of other services.
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod_security_context(parts)),
        init_containers: init_containers(parts),
        // MAIN comes first: its clock starts without waiting for the helper's image.
        containers: std::iter::once(containers::main(parts))
            .chain((!parts.wanted.is_none()).then(|| containers::helper(parts)))
            .collect(),
        volumes: Some(volumes::volumes(parts)),
        ..PodSpec::default()
    }
}

/// The clone first: input files may be placed over it.
fn init_containers(parts: &Parts<'_>) -> Option<Vec<Container>> {
    let clone = parts.clone.map(|clone| cloner::container(parts, clone));
    let inject = parts.has_files.then(|| containers::inject(parts));
    let all: Vec<Container> = clone.into_iter().chain(inject).collect();
    (!all.is_empty()).then_some(all)
}

fn pod_security_context(parts: &Parts<'_>) -> PodSecurityContext {
    let settings = parts.settings;
    let (non_root, user) = match settings.profile {
        PodProfile::Restricted => (Some(true), Some(settings.user)),
        PodProfile::Compat => (None, None),
    };
    PodSecurityContext {
        run_as_non_root: non_root,
        run_as_user: user,
        run_as_group: user,
        // In both profiles: the containers share the work directory through this group.
        fs_group: Some(settings.user),
        // A cache may hold a million files, whose group is changed at each mount otherwise.
        fs_group_change_policy: parts.cache.map(|_| "OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}
