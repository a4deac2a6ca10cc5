//! `ToolCall` to [`Plan`]: what will run, complete and exact. Pure: no I/O, no async, no clock.

mod image;
mod job;

pub use image::{AllowedImages, ImageReference, ResolvedImage};
pub use job::{JobPlan, JobResources, JobSettings, PlannedFile, PodProfile};

use crate::refusal::Refusal;
use crate::schema::{Arguments, ToolCall};

/// What will run. A closed enum: the executor has one arm for each.
#[derive(Debug)]
pub enum Plan {
    /// A Kubernetes Job, its input files and its deadline.
    Job(Box<JobPlan>),
}

/// Makes the plan of a call.
///
/// # Errors
/// A [`Refusal`] of stage `plan` that names the field, when the arguments cannot be carried out: an image
/// reference, a quantity, a path or a mode that does not parse, or a short image name that is ambiguous.
pub fn plan(call: &ToolCall, settings: &JobSettings, images: &AllowedImages) -> Result<Plan, Refusal> {
    match call.arguments() {
        Arguments::RunJob(job) => {
            job::plan(call.id(), job, settings, images).map(|plan| Plan::Job(Box::new(plan)))
        }
    }
}
