//! Permit to Kubernetes to [`Outcome`].

mod outcome;

pub use outcome::{Artifact, JobOutcome, Reason, Status, Truncated};
