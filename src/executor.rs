//! Permit to Kubernetes to [`Outcome`].

mod api;
mod classify;
mod cluster;
mod outcome;
mod progress;
mod proxy;
mod suspicion;
mod text;

pub use cluster::{Cluster, ClusterError, ClusterSource};
pub use outcome::{Artifact, JobOutcome, Reason, Status, Truncated};
pub use progress::Progress;
pub use suspicion::Graces;
