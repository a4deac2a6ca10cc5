//! What is left of a job when it is over, before its output and files are read.

use k8s_openapi::api::core::v1::Pod;

use crate::executor::classify::{Ended, Phase, classify, image_id, is_unexplained_kill};
use crate::executor::outcome::{Reason, Status};
use crate::plan::manifest::MAIN;

/// What is left of a job: its last pod and how it ended.
pub(super) struct Remains {
    pub(super) ended: Ended,
    pub(super) pod: Option<Box<Pod>>,
    /// Whether the pod's containers may still be asked.
    pub(super) alive: bool,
}

impl Remains {
    /// Nothing that could be read.
    pub(super) fn nothing(ended: Ended) -> Self {
        Self { ended, pod: None, alive: false }
    }

    /// A pod that said how its command ended.
    pub(super) fn dying(ended: Ended, pod: Box<Pod>) -> Self {
        Self { alive: ended.status != Status::Error, ended, pod: Some(pod) }
    }

    /// A pod that is no more. It may have said how its command ended before it went.
    pub(super) fn gone(pod: Box<Pod>) -> Self {
        let ended = match classify(&pod) {
            // Whoever deleted it killed it.
            Phase::Ended(ended) if is_unexplained_kill(&pod, &ended) => Ended::error(
                Reason::DeletedExternally,
                "the pod was deleted by someone else while the command ran",
            ),
            Phase::Ended(ended) => ended,
            Phase::Starting(_) | Phase::Stuck(_) | Phase::AwaitingFiles | Phase::Running => Ended::error(
                Reason::DeletedExternally,
                "the pod was deleted by someone else before the command ended",
            ),
        };
        Self { ended, pod: Some(pod), alive: false }
    }

    pub(super) fn unreachable(message: String) -> Self {
        Self::nothing(Ended::error(Reason::ApiserverUnavailable, message))
    }
}

/// Whether the command of a pod that was not seen to run has run all the same.
pub(super) fn ran(pod: &Pod, ended: &Ended) -> bool {
    image_id(pod, MAIN).is_some() && ended.reason != Some(Reason::StartFailed)
}
