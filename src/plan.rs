//! `ToolCall` to [`Plan`]: what will run, complete and exact. Pure: no I/O, no async, no clock.

mod artifacts;
mod budgets;
pub mod checks;
mod clone;
mod handle;
mod image;
mod job;
mod kubectl;
pub mod manifest;
mod path;
pub mod pod_security;
mod process;
pub mod quantity;
mod rights;

pub use artifacts::{Patterns, WantedArtifacts};
pub use budgets::Budgets;
pub use clone::{CloneHost, ClonePlan, GitRef, RepoUrl};
pub use handle::{HandlePlan, Operation};
pub use image::{AllowedImages, ImageReference, ResolvedImage};
pub use job::{
    CacheVolume, JobExtras, JobPlan, JobResources, JobSettings, NotRecoverable, PlannedCache, PlannedFile,
    PodProfile, RecoveredJob,
};
pub use kubectl::{
    DnsLabel, KubectlPlan, KubectlSettings, NameError, Presentation, Verb, describable_resources,
};
pub use quantity::QuantityError;
pub use rights::{CacheAccess, Rights};

use crate::refusal::{Reason, Refusal};
use crate::schema::{Arguments, ToolCall};

/// How many reasons one kind of fault may give: enough to mend a call at once, too few to flood a reply.
const MAX_REASONS: usize = 10;

/// What will run. A closed enum: the executor has one arm for each.
#[derive(Debug)]
pub enum Plan {
    /// A Kubernetes Job, its input files and its deadline.
    Job(Box<JobPlan>),
    /// A read by kubectl.
    Kubectl(Box<KubectlPlan>),
    /// A look at a job in the background, or its end.
    Handle(HandlePlan),
}

/// What the operator configured for plans.
#[derive(Debug, Clone)]
pub struct Settings {
    /// For jobs.
    pub jobs: JobSettings,
    /// For reads.
    pub kubectl: KubectlSettings,
}

/// Makes the plan of a call.
///
/// # Errors
/// A [`Refusal`] of stage `plan` that names the field, when the arguments cannot be carried out: an image
/// reference, a quantity, a path, a mode, a URL or a ref that does not parse, or a short image name that is ambiguous.
pub fn plan(call: &ToolCall, settings: &Settings, rights: impl Into<Rights>) -> Result<Plan, Refusal> {
    match call.arguments() {
        Arguments::RunJob(job) => {
            job::plan(call, job, &settings.jobs, &rights.into()).map(|plan| Plan::Job(Box::new(plan)))
        }
        Arguments::SubmitJob(submitted) => {
            handle::key(call)?;
            job::plan(call, &submitted.job, &settings.jobs, &rights.into())
                .map(|plan| Plan::Job(Box::new(plan)))
        }
        Arguments::FetchJob(fetch) => handle::fetch(call, fetch.wait_s).map(Plan::Handle),
        Arguments::CancelJob(_) => handle::cancel(call).map(Plan::Handle),
        Arguments::ListPods(_)
        | Arguments::PodLogs(_)
        | Arguments::DescribeResource(_)
        | Arguments::ListEvents(_) => kubectl::plan(call.id(), call.arguments(), &settings.kubectl)
            .map(|plan| Plan::Kubectl(Box::new(plan))),
    }
}

/// The value, or its reasons added to the others.
fn keep<T>(result: Result<T, impl IntoIterator<Item = Reason>>, reasons: &mut Vec<Reason>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(found) => {
            reasons.extend(found);
            None
        }
    }
}

/// A caller's text as a message shows it: in backticks, short, without characters that do not print.
fn quote(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let mut quoted = String::from("`");
    let mut rest = text.chars();
    for c in rest.by_ref().take(MAX_CHARS) {
        match c {
            '\'' | '"' | '\\' => quoted.push(c),
            _ => quoted.extend(c.escape_debug()),
        }
    }
    if rest.next().is_some() {
        quoted.push('…');
    }
    quoted.push('`');
    quoted
}

/// The configuration of the property tests in this module: nothing is written into the source tree.
#[cfg(test)]
fn properties(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}
