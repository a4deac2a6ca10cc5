//! Permit to Kubernetes to [`Outcome`].

mod admission;
mod api;
mod archive;
mod classify;
mod cleanup;
mod cluster;
mod exec;
mod feed;
mod logs;
mod outcome;
mod progress;
mod proxy;
mod suspicion;
mod text;

pub use cluster::{Cluster, ClusterError, ClusterSource};
pub use outcome::{Artifact, JobOutcome, Reason, Status, Truncated};
pub use progress::Progress;
pub use suspicion::Graces;
