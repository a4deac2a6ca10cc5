//! Permit to Kubernetes to [`Outcome`].

mod classify;
mod outcome;
mod progress;
mod suspicion;
mod text;

pub use outcome::{Artifact, JobOutcome, Reason, Status, Truncated};
pub use progress::Progress;
pub use suspicion::Graces;
