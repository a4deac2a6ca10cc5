//! How an admitted job ended.

use std::time::Duration;

/// The end of a job that was admitted. Whatever happened, this is a normal result.
#[derive(Debug, Clone)]
pub struct JobOutcome {
    /// How it ended.
    pub status: Status,
    /// The finer class; `None` for `succeeded` and a plain non-zero exit.
    pub reason: Option<Reason>,
    /// Whether the same call may succeed later: its end was the infrastructure's doing, and nothing in the call is at
    /// fault. The command may have run in part.
    pub retryable: bool,
    /// One sentence for a reader: what happened and what to do. Empty when there is nothing to add.
    pub message: String,
    /// The command's exit code from its container status; -1 when it has none.
    pub exit_code: i32,
    /// The newest part of the combined output.
    pub output: String,
    /// How many bytes of output came before it.
    pub omitted_bytes: u64,
    /// Files of the work directory that are new or changed.
    pub artifacts: Vec<Artifact>,
    /// What was cut.
    pub truncated: Truncated,
    /// What of the result is missing although the job's end is known.
    pub problems: Vec<Problem>,
    /// From the command's start (or the call's, when it never started) to its end.
    pub duration: Duration,
    /// UID of the Job, when it was created.
    pub job_uid: Option<String>,
    /// The image's digest as the node reports it (`imageID`), when it ran.
    pub image_id: Option<String>,
}

/// `status` of the reference server's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Exit code 0.
    Succeeded,
    /// The command ended with another exit code, or was killed for its own doing.
    Failed,
    /// The command's wall clock ran out.
    Timeout,
    /// The infrastructure kept the command from starting or from being seen to its end.
    Error,
}

/// The outcome classes of a job that did not simply exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The command's wall clock ran out.
    Timeout,
    /// The kernel killed it for its memory.
    OomKilled,
    /// The image cannot be pulled.
    ImagePullFailed,
    /// The image's name is not one, or it is absent and may not be pulled.
    InvalidImage,
    /// The container could not be made or started.
    StartFailed,
    /// No node took it within the grace.
    Unschedulable,
    /// The node refused it.
    RejectedByNode,
    /// The node evicted it.
    Evicted,
    /// The node was lost or shut down.
    NodeLost,
    /// Admission (Pod Security, a webhook, validation, missing rights) refused the Job or its pod.
    AdmissionDenied,
    /// The namespace's ResourceQuota is used up.
    QuotaExceeded,
    /// The scheduler or the node gave its place to a more important pod.
    Preempted,
    /// It was evicted through the Eviction API, as when a node is drained.
    Drained,
    /// The node's agent ended it for a reason of its own.
    KilledByKubelet,
    /// Somebody else deleted it.
    DeletedExternally,
    /// The repository could not be cloned.
    CloneFailed,
    /// The input files could not be placed.
    InjectFailed,
    /// The API server could not be reached or answered in error.
    ApiserverUnavailable,
    /// The caller cancelled.
    Cancelled,
}

impl Status {
    /// The name on the wire and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Error => "error",
        }
    }
}

impl Reason {
    /// The name on the wire and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OomKilled => "oom_killed",
            Self::ImagePullFailed => "image_pull_failed",
            Self::InvalidImage => "invalid_image",
            Self::StartFailed => "start_failed",
            Self::Unschedulable => "unschedulable",
            Self::RejectedByNode => "rejected_by_node",
            Self::Evicted => "evicted",
            Self::NodeLost => "node_lost",
            Self::AdmissionDenied => "admission_denied",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Preempted => "preempted",
            Self::Drained => "drained",
            Self::KilledByKubelet => "killed_by_kubelet",
            Self::DeletedExternally => "deleted_externally",
            Self::CloneFailed => "clone_failed",
            Self::InjectFailed => "inject_failed",
            Self::ApiserverUnavailable => "apiserver_unavailable",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Reason {
    /// Whether the class alone says that the infrastructure is to blame. What the command did (an exit, its memory,
    /// its time), what the call asks for (an image, a program) and what people decided (an admission, a deletion, a
    /// cancellation) comes out the same the next time.
    #[must_use]
    pub fn is_infrastructure(self) -> bool {
        match self {
            Self::Unschedulable
            | Self::RejectedByNode
            | Self::Evicted
            | Self::NodeLost
            | Self::QuotaExceeded
            | Self::Preempted
            | Self::Drained
            | Self::KilledByKubelet
            | Self::InjectFailed
            | Self::ApiserverUnavailable => true,
            Self::Timeout
            | Self::OomKilled
            | Self::CloneFailed
            | Self::ImagePullFailed
            | Self::InvalidImage
            | Self::StartFailed
            | Self::AdmissionDenied
            | Self::DeletedExternally
            | Self::Cancelled => false,
        }
    }
}

/// A part of the result that could not be had. The job's own end stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The output could not be read, or not to its end.
    LogUnavailable,
    /// Files could not be read, or not all of them.
    ArtifactsFailed,
}

impl Problem {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LogUnavailable => "log_unavailable",
            Self::ArtifactsFailed => "artifacts_failed",
        }
    }
}

/// A file that the job left in its work directory.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Path relative to the work directory.
    pub name: String,
    /// Its whole content; a file that does not fit is left out, never cut.
    pub content: bytes::Bytes,
}

/// What was cut from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Truncated {
    /// The head of the output.
    pub output: bool,
    /// At least one artifact.
    pub artifacts: bool,
}
