//! One row per pod status. The statuses are written from Kubernetes' API reference (PodStatus, ContainerState),
//! its "Pod disruptions" page and the reasons that kubelet, scheduler and controllers document.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Ended, Phase, classify};
use crate::executor::outcome::{Reason, Status};
use crate::executor::progress::Progress;
use crate::executor::suspicion::{Patience, Stuck};

/// What a row expects, without the message.
#[derive(Debug, PartialEq)]
enum Expected {
    Starting(Progress),
    Stuck(Reason, Patience),
    AwaitingFiles,
    Running,
    Ended(Status, Option<Reason>, i32),
}

fn pod(metadata: Value, status: Value) -> Pod {
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "initContainers": [{ "name": "inject", "image": "busybox:1.36" }],
            "containers": [{ "name": "main", "image": "app:1" }, { "name": "helper", "image": "busybox:1.36" }],
        },
        "status": status,
    }))
    .unwrap()
}

fn container(name: &str, state: Value) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

fn main(state: Value) -> Value {
    json!([container("main", state), container("helper", json!({ "running": {} }))])
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn exit(code: i32, reason: &str) -> Value {
    json!({ "terminated": { "exitCode": code, "reason": reason, "finishedAt": "2026-01-01T00:00:10Z" } })
}

fn condition(kind: &str, status: &str, reason: &str, at: &str) -> Value {
    json!([{ "type": kind, "status": status, "reason": reason, "message": "why", "lastTransitionTime": at }])
}

const LATER: &str = "2026-01-01T00:00:20Z";

fn rows() -> Vec<(&'static str, Pod, Expected)> {
    use Expected as E;
    let none = || json!({});
    let pulling = |message: &str| {
        pod(
            none(),
            json!({ "phase": "Pending", "containerStatuses": main(waiting("ErrImagePull", message)) }),
        )
    };
    let ended = |state: Value| pod(none(), json!({ "phase": "Running", "containerStatuses": main(state) }));
    let disrupted = |reason: &str, state: Value| {
        pod(
            json!({ "deletionTimestamp": LATER, "deletionGracePeriodSeconds": 0 }),
            json!({
                "phase": "Running",
                "containerStatuses": main(state),
                "conditions": condition("DisruptionTarget", "True", reason, "2026-01-01T00:00:10Z"),
            }),
        )
    };
    let scheduled = condition("PodScheduled", "True", "", LATER);
    vec![
        ("new", pod(none(), json!({ "phase": "Pending" })), E::Starting(Progress::Created)),
        (
            "unschedulable",
            pod(
                none(),
                json!({ "phase": "Pending", "conditions": condition("PodScheduled", "False", "Unschedulable", LATER) }),
            ),
            E::Stuck(Reason::Unschedulable, Patience::Scheduling),
        ),
        (
            "scheduling gate",
            pod(
                none(),
                json!({ "phase": "Pending", "conditions": condition("PodScheduled", "False", "SchedulingGated", LATER) }),
            ),
            E::Starting(Progress::Created),
        ),
        (
            "scheduled",
            pod(none(), json!({ "phase": "Pending", "conditions": scheduled })),
            E::Starting(Progress::Scheduled),
        ),
        (
            "creating",
            pod(
                none(),
                json!({ "phase": "Pending", "conditions": scheduled, "containerStatuses": main(waiting("ContainerCreating", "")) }),
            ),
            E::Starting(Progress::Pulling),
        ),
        (
            "waits for files",
            pod(
                none(),
                json!({ "phase": "Pending", "conditions": scheduled,
                    "initContainerStatuses": [container("inject", json!({ "running": {} }))],
                    "containerStatuses": main(waiting("PodInitializing", "")) }),
            ),
            E::AwaitingFiles,
        ),
        (
            "inject failed",
            pod(
                none(),
                json!({ "phase": "Failed",
                    "initContainerStatuses": [container("inject", exit(1, "Error"))],
                    "containerStatuses": main(waiting("PodInitializing", "")) }),
            ),
            E::Ended(Status::Error, Some(Reason::InjectFailed), -1),
        ),
        (
            "the cloner failed",
            pod(
                none(),
                json!({ "phase": "Pending",
                    "initContainerStatuses": [container("clone", exit(128, "Error"))],
                    "containerStatuses": main(waiting("PodInitializing", "")) }),
            ),
            E::Ended(Status::Error, Some(Reason::CloneFailed), -1),
        ),
        (
            "another init container failed",
            pod(
                none(),
                json!({ "phase": "Pending",
                    "initContainerStatuses": [container("istio-init", exit(128, "Error"))],
                    "containerStatuses": main(waiting("PodInitializing", "")) }),
            ),
            E::Ended(Status::Error, Some(Reason::StartFailed), -1),
        ),
        (
            "helper image of the init container",
            pod(
                none(),
                json!({ "phase": "Pending", "conditions": scheduled,
                    "initContainerStatuses": [container("inject", waiting("ErrImagePull", "manifest unknown"))],
                    "containerStatuses": main(waiting("PodInitializing", "")) }),
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Settled),
        ),
        (
            "no such tag",
            pulling(
                "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/app:1\": failed to resolve reference: docker.io/library/app:1: not found",
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Settled),
        ),
        (
            "private or absent repository",
            pulling(
                "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Settled),
        ),
        (
            "rate limit",
            pulling(
                "429 Too Many Requests - toomanyrequests: You have reached your unauthenticated pull rate limit",
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Passing),
        ),
        (
            "registry's name does not resolve",
            pulling(
                "failed to do request: Head \"https://registry.invalid/v2/\": dial tcp: lookup registry.invalid: no such host",
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Passing),
        ),
        (
            "back-off without a cause",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": main(waiting("ImagePullBackOff", "Back-off pulling image \"app:1\"")) }),
            ),
            E::Stuck(Reason::ImagePullFailed, Patience::Passing),
        ),
        (
            "invalid name",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": main(waiting("InvalidImageName", "couldn't parse image name")) }),
            ),
            E::Stuck(Reason::InvalidImage, Patience::None),
        ),
        (
            "never pull",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": main(waiting("ErrImageNeverPull", "")) }),
            ),
            E::Stuck(Reason::InvalidImage, Patience::None),
        ),
        (
            "missing config map",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": main(waiting("CreateContainerConfigError", "configmap \"x\" not found")) }),
            ),
            E::Stuck(Reason::StartFailed, Patience::Settled),
        ),
        (
            "slow runtime",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": main(waiting("CreateContainerError", "context deadline exceeded")) }),
            ),
            E::Stuck(Reason::StartFailed, Patience::Passing),
        ),
        (
            "no such program",
            ended(exit(128, "StartError")),
            E::Ended(Status::Error, Some(Reason::StartFailed), -1),
        ),
        ("running", ended(json!({ "running": {} })), E::Running),
        (
            "running while the helper's image is pulled",
            pod(
                none(),
                json!({ "phase": "Pending", "containerStatuses": [container("main", json!({ "running": {} })), container("helper", waiting("ErrImagePull", "not found"))] }),
            ),
            E::Running,
        ),
        ("exit 0", ended(exit(0, "Completed")), E::Ended(Status::Succeeded, None, 0)),
        ("exit 3", ended(exit(3, "Error")), E::Ended(Status::Failed, None, 3)),
        ("killed", ended(exit(137, "Error")), E::Ended(Status::Failed, None, 137)),
        (
            "out of memory",
            ended(exit(137, "OOMKilled")),
            E::Ended(Status::Failed, Some(Reason::OomKilled), 137),
        ),
        (
            "out of memory with exit code 0",
            ended(exit(0, "OOMKilled")),
            E::Ended(Status::Failed, Some(Reason::OomKilled), 0),
        ),
        (
            "evicted, though containers show exit 0",
            pod(
                none(),
                json!({ "phase": "Failed", "reason": "Evicted", "message": "Usage of EmptyDir volume \"work\" exceeds the limit \"1Gi\".", "containerStatuses": main(exit(0, "Completed")) }),
            ),
            E::Ended(Status::Error, Some(Reason::Evicted), -1),
        ),
        (
            "made room for a critical pod",
            pod(
                none(),
                json!({ "phase": "Failed", "reason": "Preempting", "message": "Preempted in order to admit critical pod" }),
            ),
            E::Ended(Status::Error, Some(Reason::Preempted), -1),
        ),
        (
            "preempted",
            disrupted("PreemptionByScheduler", json!({ "running": {} })),
            E::Ended(Status::Error, Some(Reason::Preempted), -1),
        ),
        (
            "drained, killed by the signal",
            disrupted("EvictionByEvictionAPI", exit(143, "Error")),
            E::Ended(Status::Error, Some(Reason::Drained), -1),
        ),
        (
            "taint manager",
            disrupted("DeletionByTaintManager", json!({ "running": {} })),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
        (
            "pod garbage collector",
            disrupted("DeletionByPodGC", json!({ "running": {} })),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
        (
            "kubelet",
            disrupted("TerminationByKubelet", json!({ "running": {} })),
            E::Ended(Status::Error, Some(Reason::KilledByKubelet), -1),
        ),
        (
            "disruption announced, not carried out",
            pod(
                none(),
                json!({ "phase": "Running", "containerStatuses": main(json!({ "running": {} })), "conditions": condition("DisruptionTarget", "True", "PreemptionByScheduler", LATER) }),
            ),
            E::Running,
        ),
        (
            "ended before the drain began",
            pod(
                json!({ "deletionTimestamp": LATER, "deletionGracePeriodSeconds": 0 }),
                json!({ "phase": "Running", "containerStatuses": main(exit(0, "Completed")), "conditions": condition("DisruptionTarget", "True", "EvictionByEvictionAPI", LATER) }),
            ),
            E::Ended(Status::Succeeded, None, 0),
        ),
        (
            "deleted while running",
            pod(
                json!({ "deletionTimestamp": LATER, "deletionGracePeriodSeconds": 5 }),
                json!({ "phase": "Running", "containerStatuses": main(json!({ "running": {} })) }),
            ),
            E::Ended(Status::Error, Some(Reason::DeletedExternally), -1),
        ),
        (
            // Asked for at 00:00:05, 15 s before the timestamp: the exit at 00:00:10 is its doing.
            "killed by the deletion",
            pod(
                json!({ "deletionTimestamp": LATER, "deletionGracePeriodSeconds": 15 }),
                json!({ "phase": "Running", "containerStatuses": main(exit(143, "Error")) }),
            ),
            E::Ended(Status::Error, Some(Reason::DeletedExternally), -1),
        ),
        (
            "ended before the deletion",
            pod(
                json!({ "deletionTimestamp": LATER, "deletionGracePeriodSeconds": 5 }),
                json!({ "phase": "Running", "containerStatuses": main(exit(3, "Error")) }),
            ),
            E::Ended(Status::Failed, None, 3),
        ),
        (
            "node admission",
            pod(
                none(),
                json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu" }),
            ),
            E::Ended(Status::Error, Some(Reason::RejectedByNode), -1),
        ),
        (
            "node shutdown",
            pod(
                none(),
                json!({ "phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown.", "containerStatuses": main(exit(143, "Error")) }),
            ),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
        (
            "node silent",
            pod(
                none(),
                json!({ "phase": "Unknown", "reason": "NodeLost", "containerStatuses": main(json!({ "running": {} })) }),
            ),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
        (
            "container lost by the node",
            ended(exit(137, "ContainerStatusUnknown")),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
        (
            "deadline of the pod",
            pod(
                none(),
                json!({ "phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline", "containerStatuses": main(exit(137, "Error")) }),
            ),
            E::Ended(Status::Timeout, Some(Reason::Timeout), -1),
        ),
        (
            "over without a status",
            pod(none(), json!({ "phase": "Succeeded" })),
            E::Ended(Status::Error, Some(Reason::NodeLost), -1),
        ),
    ]
}

#[test]
fn every_status_has_its_class() {
    for (name, pod, expected) in rows() {
        let found = match classify(&pod) {
            Phase::Starting(progress) => Expected::Starting(progress),
            Phase::Stuck(Stuck { reason, patience, message }) => {
                assert!(!message.is_empty(), "{name}: no message");
                Expected::Stuck(reason, patience)
            }
            Phase::AwaitingFiles => Expected::AwaitingFiles,
            Phase::Running => Expected::Running,
            Phase::Ended(Ended { status, reason, exit_code, message, .. }) => {
                assert!(reason.is_none() || !message.is_empty(), "{name}: a reason without a message");
                Expected::Ended(status, reason, exit_code)
            }
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_message_names_the_image_and_the_cause() {
    let pod = pod(
        json!({}),
        json!({ "phase": "Pending", "containerStatuses": main(waiting("ErrImagePull", "app:1: not found")) }),
    );
    let Phase::Stuck(stuck) = classify(&pod) else { panic!("not stuck") };
    assert_eq!(stuck.message, "the image `app:1` cannot be pulled: app:1: not found");
}

#[test]
fn an_empty_pod_is_a_new_one() {
    assert_eq!(classify(&Pod::default()), Phase::Starting(Progress::Created));
}
