//! How long each phase of a job may take, and the deadline that follows.

use std::time::Duration;

/// The time that each phase of a job may take beside the command itself.
///
/// The executor keeps to each budget as it goes; the sum is the Job's `activeDeadlineSeconds`, by which the
/// cluster ends the pod when the executor is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// From the Job's creation until a node took its pod.
    pub scheduling: Duration,
    /// From there until the images are on the node.
    pub pull: Duration,
    /// Placing the input files.
    pub injection: Duration,
    /// Reading the output and the artifacts after the command ended.
    pub collection: Duration,
}

impl Budgets {
    /// Cloning a repository, beside the budgets of every job.
    pub const CLONE: Duration = Duration::from_secs(300);

    /// The budgets of every job.
    pub const JOB: Self = Self {
        scheduling: Duration::from_secs(60),
        // An image of several gigabytes takes minutes, and that is no fault; one that cannot be pulled is told
        // much earlier.
        pull: Duration::from_secs(300),
        injection: Duration::from_secs(30),
        collection: Duration::from_secs(30),
    };

    /// The longest that a job with this much wall clock for its command may be alive.
    #[must_use]
    pub fn deadline(&self, timeout: Duration) -> Duration {
        [self.scheduling, self.pull, self.injection, self.collection]
            .into_iter()
            .fold(timeout, Duration::saturating_add)
    }
}
