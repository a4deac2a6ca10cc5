//! What a pod's status says about its command: a pure function, without clock or I/O.
//!
//! The words are Kubernetes' own: pod phases, conditions and container states of the Pod lifecycle and Pod
//! disruptions pages, and the waiting and terminated reasons that the kubelet writes.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::executor::outcome::{Reason, Status};
use crate::executor::progress::Progress;
use crate::executor::suspicion::{Patience, Stuck};
use crate::executor::text::because;
use crate::plan::manifest::{CLONE, INJECT, MAIN};

/// Where a pod is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not started, and nothing is wrong.
    Starting(Progress),
    /// Not started, for a cause that is a failure if it lasts.
    Stuck(Stuck),
    /// The init container waits for the input files.
    AwaitingFiles,
    /// The command runs.
    Running,
    /// The command ended or will never start.
    Ended(Ended),
}

/// The end of a job as its pod tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) reason: Option<Reason>,
    /// From `containerStatuses[].state.terminated`; -1 where the command has no status of its own.
    pub(crate) exit_code: i32,
    pub(crate) message: String,
    /// Whether the same call may succeed later.
    pub(crate) retryable: bool,
}

/// Reads a pod's status.
pub(crate) fn classify(pod: &Pod) -> Phase {
    let main = status_of(pod, MAIN);
    let disruption = disruption(pod);
    if let Some(ended) = main.and_then(terminated)
        && disruption.as_ref().is_none_or(|cause| ended_before(main, cause))
    {
        return Phase::Ended(ended);
    }
    if let Some(cause) = disruption {
        return Phase::Ended(cause.ended);
    }
    if let Some(ended) = init_failure(pod).or_else(|| dead_pod(pod)) {
        return Phase::Ended(ended);
    }
    if main.is_some_and(|status| state(status).is_some_and(|state| state.running.is_some())) {
        return Phase::Running;
    }
    if let Some(stuck) = stuck_container(pod) {
        return Phase::Stuck(stuck);
    }
    let awaiting = init_statuses(pod)
        .iter()
        .any(|status| status.name == INJECT && state(status).is_some_and(|s| s.running.is_some()));
    if awaiting {
        return Phase::AwaitingFiles;
    }
    not_started(pod)
}

impl Ended {
    /// The infrastructure kept the command from starting or from being seen to its end.
    pub(crate) fn error(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: Status::Error,
            reason: Some(reason),
            exit_code: -1,
            message: message.into(),
            retryable: reason.is_infrastructure(),
        }
    }

    /// A cause that looked as if it would pass, and did not in time.
    pub(crate) fn may_pass(self) -> Self {
        Self { retryable: true, ..self }
    }
}

/// Something outside of the command that ends its pod.
struct Disruption {
    ended: Ended,
    /// When it began, where the pod says so: a command that ended earlier ended by itself.
    at: Option<Timestamp>,
}

/// Whether the command was killed from outside, and the pod does not say by whom. A node that evicts or shuts down
/// kills the containers, and its reason may come to be known a moment after their end.
pub(crate) fn is_unexplained_kill(pod: &Pod, ended: &Ended) -> bool {
    const SIGKILL: i32 = 128 + 9;
    const SIGTERM: i32 = 128 + 15;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    ended.status == Status::Failed
        && ended.reason.is_none()
        && matches!(ended.exit_code, SIGKILL | SIGTERM)
        && !matches!(phase, Some("Failed" | "Succeeded"))
}

/// How the main container ended, read from its own status alone.
fn terminated(status: &ContainerStatus) -> Option<Ended> {
    let end = state(status)?.terminated.as_ref()?;
    let detail = end.message.as_deref().unwrap_or_default();
    Some(match end.reason.as_deref().unwrap_or_default() {
        // runc could not start the process; the kubelet reports 128, which is no exit status of the command.
        "StartError" | "ContainerCannotRun" => {
            Ended::error(Reason::StartFailed, because("the command could not be started", detail))
        }
        "ContainerStatusUnknown" => Ended::error(
            Reason::NodeLost,
            "the node lost the command's container, so how it ended is unknown",
        ),
        // Kubernetes reports this with exit code 0 when the kernel killed a child and the command went on.
        "OOMKilled" => Ended {
            status: Status::Failed,
            reason: Some(Reason::OomKilled),
            exit_code: end.exit_code,
            message: "the kernel killed it for its memory; ask for a larger limits.memory".to_owned(),
            retryable: false,
        },
        _ => Ended {
            status: if end.exit_code == 0 { Status::Succeeded } else { Status::Failed },
            reason: None,
            exit_code: end.exit_code,
            message: String::new(),
            retryable: false,
        },
    })
}

fn ended_before(main: Option<&ContainerStatus>, cause: &Disruption) -> bool {
    let finished = main
        .and_then(state)
        .and_then(|state| state.terminated.as_ref())
        .and_then(|end| end.finished_at.as_ref())
        .map(|time| time.0);
    matches!((finished, cause.at), (Some(finished), Some(began)) if finished < began)
}

fn disruption(pod: &Pod) -> Option<Disruption> {
    let status = pod.status.as_ref()?;
    let detail = status.message.as_deref().unwrap_or_default();
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let dead = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let ended = match status.reason.as_deref().unwrap_or_default() {
        // Containers of an evicted pod may show exit code 0; it is no success.
        "Evicted" => Ended::error(Reason::Evicted, because("the node evicted the pod", detail)),
        "Preempting" => {
            Ended::error(Reason::Preempted, because("the node made room for a critical pod", detail))
        }
        "NodeLost" => Ended::error(Reason::NodeLost, because("the node was lost", detail)),
        "NodeShutdown" | "Shutdown" | "Terminated" => {
            Ended::error(Reason::NodeLost, because("the node shut down", detail))
        }
        "DeadlineExceeded" => Ended {
            status: Status::Timeout,
            reason: Some(Reason::Timeout),
            exit_code: -1,
            message: "the pod's deadline passed".to_owned(),
            retryable: false,
        },
        _ => {
            // The condition alone is an announcement that may be taken back; with a deletion or an end it is the cause.
            let condition = condition(pod, "DisruptionTarget")
                .filter(|condition| condition.status == "True" && (dead || deleted.is_some()));
            return match condition {
                Some(condition) => Some(Disruption {
                    ended: disrupted_by(condition),
                    at: condition.last_transition_time.as_ref().map(|time| time.0),
                }),
                None => deleted.map(|deadline| deleted_externally(pod, deadline)),
            };
        }
    };
    Some(Disruption { ended, at: None })
}

/// The reasons are those of Kubernetes' "Pod disruption conditions".
fn disrupted_by(condition: &PodCondition) -> Ended {
    let detail = condition.message.as_deref().unwrap_or_default();
    match condition.reason.as_deref().unwrap_or_default() {
        "PreemptionByScheduler" => Ended::error(
            Reason::Preempted,
            because("the scheduler gave its place to a pod of higher priority", detail),
        ),
        "EvictionByEvictionAPI" => Ended::error(
            Reason::Drained,
            because("the pod was evicted through the API, as when a node is drained", detail),
        ),
        "DeletionByTaintManager" | "DeletionByPodGC" => {
            Ended::error(Reason::NodeLost, because("the node was lost", detail))
        }
        "TerminationByKubelet" => {
            Ended::error(Reason::KilledByKubelet, because("the node's kubelet ended the pod", detail))
        }
        other => Ended::error(
            Reason::DeletedExternally,
            because(&format!("the pod was disrupted ({other})"), detail),
        ),
    }
}

/// `deletionTimestamp` is when the grace period will be over; the deletion was asked for that much earlier.
fn deleted_externally(pod: &Pod, deadline: Timestamp) -> Disruption {
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
    Disruption {
        ended: Ended::error(
            Reason::DeletedExternally,
            "the pod was deleted by someone else while the command ran",
        ),
        at: deadline.checked_sub(grace).ok(),
    }
}

/// An init container that failed; the main container will never start (`restartPolicy: Never`).
fn init_failure(pod: &Pod) -> Option<Ended> {
    init_statuses(pod).iter().find_map(|status| {
        let end = state(status)?.terminated.as_ref()?;
        if end.exit_code == 0 && end.reason.as_deref() != Some("OOMKilled") {
            return None;
        }
        let reason = match status.name.as_str() {
            // Its cause is in its log.
            CLONE => Reason::CloneFailed,
            INJECT => Reason::InjectFailed,
            _ => Reason::StartFailed,
        };
        let why = end.reason.as_deref().unwrap_or("Error");
        let detail = end.message.as_deref().unwrap_or_default();
        Some(Ended::error(
            reason,
            because(
                &format!(
                    "the init container `{}` ended with exit code {} ({why})",
                    status.name, end.exit_code
                ),
                detail,
            ),
        ))
    })
}

/// A pod that is over although its main container has no end of its own.
fn dead_pod(pod: &Pod) -> Option<Ended> {
    let status = pod.status.as_ref()?;
    let reason = status.reason.as_deref().unwrap_or("no reason given");
    let detail = status.message.as_deref().unwrap_or_default();
    match status.phase.as_deref()? {
        // The kubelet's admission (OutOfcpu, OutOfpods, UnexpectedAdmissionError, NodeAffinity, …): no container was made.
        "Failed" => Some(Ended::error(
            Reason::RejectedByNode,
            because(&format!("the node refused the pod ({reason})"), detail),
        )),
        "Succeeded" => {
            Some(Ended::error(Reason::NodeLost, "the pod is over, but the command's container has no status"))
        }
        "Unknown" => Some(Ended::error(
            Reason::NodeLost,
            because(&format!("the node stopped reporting ({reason})"), detail),
        )),
        _ => None,
    }
}

/// The first container that waits for something which may never come.
fn stuck_container(pod: &Pod) -> Option<Stuck> {
    init_statuses(pod).iter().chain(container_statuses(pod)).find_map(|status| {
        let waiting = state(status)?.waiting.as_ref()?;
        let detail = waiting.message.as_deref().unwrap_or_default();
        let image = image_of(pod, &status.name);
        let (reason, patience, what) = match waiting.reason.as_deref().unwrap_or_default() {
            "InvalidImageName" => {
                (Reason::InvalidImage, Patience::None, format!("`{image}` is not an image name"))
            }
            "ErrImageNeverPull" => (
                Reason::InvalidImage,
                Patience::None,
                format!("the image `{image}` is not on the node and may not be pulled"),
            ),
            "ErrImagePull"
            | "ImagePullBackOff"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => (
                Reason::ImagePullFailed,
                pull_patience(detail),
                format!("the image `{image}` cannot be pulled"),
            ),
            "CreateContainerConfigError"
            | "CreateContainerError"
            | "RunContainerError"
            | "PreCreateHookError"
            | "PreStartHookError"
            | "PostStartHookError" => (
                Reason::StartFailed,
                start_patience(detail),
                format!("the container `{}` cannot be started", status.name),
            ),
            _ => return None,
        };
        Some(Stuck { reason, patience, message: because(&what, detail) })
    })
}

/// Whether a pull error is the registry's last word. The texts are containerd's, CRI-O's and the registries'.
fn pull_patience(detail: &str) -> Patience {
    const PASSING: [&str; 10] = [
        "toomanyrequests",
        "too many requests",
        "rate limit",
        "timeout",
        "deadline exceeded",
        "connection",
        "no such host",
        "lookup ",
        "temporar",
        "unavailable",
    ];
    const FINAL: [&str; 9] = [
        "not found",
        "manifest unknown",
        "name unknown",
        "repository name not known",
        "denied",
        "unauthorized",
        "authentication required",
        "does not exist",
        "no match for platform",
    ];
    let detail = detail.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| detail.contains(text));
    if says(&PASSING) || !says(&FINAL) { Patience::Passing } else { Patience::Settled }
}

/// A slow node answers "context deadline exceeded" and succeeds later; other causes stay.
fn start_patience(detail: &str) -> Patience {
    if detail.contains("context deadline exceeded") { Patience::Passing } else { Patience::Settled }
}

/// A pod of which no container says anything of interest yet.
fn not_started(pod: &Pod) -> Phase {
    let scheduled = condition(pod, "PodScheduled");
    match scheduled {
        Some(condition)
            if condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable") =>
        {
            let detail = condition.message.as_deref().unwrap_or_default();
            Phase::Stuck(Stuck {
                reason: Reason::Unschedulable,
                patience: Patience::Scheduling,
                message: because("no node can take the pod", detail),
            })
        }
        // SchedulingGated is a queue's doing: waiting, not failing.
        Some(condition) if condition.status != "True" => Phase::Starting(Progress::Created),
        None => Phase::Starting(Progress::Created),
        Some(_) if container_statuses(pod).is_empty() && init_statuses(pod).is_empty() => {
            Phase::Starting(Progress::Scheduled)
        }
        Some(_) => Phase::Starting(Progress::Pulling),
    }
}

/// Whether the container `name` runs; `None` when it has not said so yet, `Some(false)` when it never will again.
pub(crate) fn is_running(pod: &Pod, name: &str) -> Option<bool> {
    let state = state(status_of(pod, name)?)?;
    match (&state.running, &state.terminated) {
        (Some(_), _) => Some(true),
        (None, Some(_)) => Some(false),
        (None, None) => None,
    }
}

/// Exit code of the init container `name`, when it ended.
pub(crate) fn init_exit_code(pod: &Pod, name: &str) -> Option<i32> {
    let status = init_statuses(pod).iter().find(|status| status.name == name)?;
    Some(state(status)?.terminated.as_ref()?.exit_code)
}

/// The digest of the image that the container `name` runs, as the node reports it.
pub(crate) fn image_id(pod: &Pod, name: &str) -> Option<String> {
    status_of(pod, name).map(|status| status.image_id.clone()).filter(|id| !id.is_empty())
}

fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    container_statuses(pod).iter().find(|status| status.name == name)
}

fn container_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

fn init_statuses(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
}

fn state(status: &ContainerStatus) -> Option<&ContainerState> {
    status.state.as_ref()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn image_of<'a>(pod: &'a Pod, container: &str) -> &'a str {
    pod.spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
        .find(|spec| spec.name == container)
        .and_then(|spec| spec.image.as_deref())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
