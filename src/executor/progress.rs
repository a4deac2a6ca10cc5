//! How far a job has come.

/// A step of a job, told to the caller while it waits. Each is reported at most once, in this order; a step
/// that was too short to be seen is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The Job exists.
    Created,
    /// A node was found.
    Scheduled,
    /// The node pulls images and makes the containers.
    Pulling,
    /// The input files are being placed.
    Injecting,
    /// The command runs.
    Running,
    /// The command ended; its output and files are being read.
    Collecting,
    /// The Job is deleted.
    Done,
}

impl Progress {
    /// A short word for a progress line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Scheduled => "scheduled",
            Self::Pulling => "pulling",
            Self::Injecting => "injecting",
            Self::Running => "running",
            Self::Collecting => "collecting",
            Self::Done => "done",
        }
    }
}
