//! A Job's status, and what is to be done next, from its pods.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// News for the Job's events: whether it is a warning, the reason, the message.
pub type News = (bool, &'static str, &'static str);

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// That many pods are missing.
    Create(usize),
    /// The Job is at its end: its active pods go.
    Stop,
    /// Its pods run.
    Wait,
}

/// A Job with its pods at one moment.
#[derive(Debug)]
pub struct View {
    spec: JobSpec,
    status: JobStatus,
    succeeded: i32,
    failed: i32,
    active: i32,
    terminating: i32,
    ready: i32,
}

/// Why a Job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    BackoffLimitExceeded,
    DeadlineExceeded,
}

impl View {
    /// Looks at a Job whose ended pods were counted.
    #[must_use]
    pub fn new(job: &Job, pods: &[Arc<Pod>], succeeded: i32, failed: i32) -> Self {
        let count = |wanted: &dyn Fn(&Pod) -> bool| {
            i32::try_from(pods.iter().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
        };
        Self {
            spec: job.spec.clone().unwrap_or_default(),
            status: job.status.clone().unwrap_or_default(),
            succeeded,
            failed,
            active: count(&is_active),
            terminating: count(&|pod| !has_ended(pod) && pod.metadata.deletion_timestamp.is_some()),
            ready: count(&|pod| is_active(pod) && is_ready(pod)),
        }
    }

    /// When the Job ended, if it has.
    #[must_use]
    pub fn finished_at(&self) -> Option<Timestamp> {
        let done =
            |c: &&JobCondition| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True";
        let condition = self.status.conditions.iter().flatten().find(done)?;
        Some(condition.last_transition_time.as_ref().map_or_else(Timestamp::now, |time| time.0))
    }

    /// What is to be done.
    #[must_use]
    pub fn step(&self) -> Step {
        if self.end().is_some() {
            return Step::Stop;
        }
        if self.spec.suspend == Some(true) {
            return Step::Wait;
        }
        let parallelism = self.spec.parallelism.unwrap_or(1);
        // Without a number of completions, one success means that no new pod is started.
        let wanted = match self.spec.completions {
            Some(completions) => parallelism.min(completions - self.succeeded),
            None if self.succeeded > 0 => 0,
            None => parallelism,
        };
        // A pod that is on its way out keeps its place unless the Job says otherwise.
        let replaced_early = self.spec.pod_replacement_policy.as_deref() != Some("Failed");
        let present = self.active + if replaced_early { 0 } else { self.terminating };
        match usize::try_from(wanted - present) {
            Ok(count @ 1..) => Step::Create(count),
            Ok(0) | Err(_) => Step::Wait,
        }
    }

    /// How long until the Job's own deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let ends = self.ends_at()?;
        if self.end().is_some() {
            return None;
        }
        let left = ends.duration_since(Timestamp::now());
        Some(Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1))
    }

    /// Writes the status into the Job and returns what is new.
    pub fn write(&self, job: &mut Job) -> Vec<News> {
        let mut news = Vec::new();
        let now = Time(Timestamp::now());
        let status = job.status.get_or_insert_default();
        status.start_time.get_or_insert_with(|| now.clone());
        status.active = (self.active > 0).then_some(self.active);
        status.succeeded = (self.succeeded > 0).then_some(self.succeeded);
        status.failed = (self.failed > 0).then_some(self.failed);
        status.ready = Some(self.ready);
        status.terminating = Some(self.terminating);
        status.uncounted_terminated_pods = Some(UncountedTerminatedPods::default());
        let Some(end) = self.end() else { return news };
        let (first, last, reason, message) = match end {
            End::Complete => (
                "SuccessCriteriaMet",
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            ),
            End::BackoffLimitExceeded => (
                "FailureTarget",
                "Failed",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ),
            End::DeadlineExceeded => (
                "FailureTarget",
                "Failed",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            ),
        };
        add_condition(status, first, reason, message, &now);
        // The last condition comes once no pod is left that could still change anything.
        if self.active == 0 && self.terminating == 0 && add_condition(status, last, reason, message, &now) {
            if end == End::Complete {
                status.completion_time = Some(now);
                news.push((false, "Completed", "Job completed"));
            } else {
                news.push((true, reason, message));
            }
        }
        news
    }

    /// Why the Job ends, if it does. What was decided once stays.
    fn end(&self) -> Option<End> {
        for condition in self.status.conditions.iter().flatten() {
            match (condition.type_.as_str(), condition.reason.as_deref()) {
                ("SuccessCriteriaMet" | "Complete", _) => return Some(End::Complete),
                ("FailureTarget" | "Failed", Some("DeadlineExceeded")) => return Some(End::DeadlineExceeded),
                ("FailureTarget" | "Failed", _) => return Some(End::BackoffLimitExceeded),
                _ => {}
            }
        }
        if self.failed > self.spec.backoff_limit.unwrap_or(6) {
            return Some(End::BackoffLimitExceeded);
        }
        if self.ends_at().is_some_and(|ends| Timestamp::now() >= ends) {
            return Some(End::DeadlineExceeded);
        }
        let complete = match self.spec.completions {
            Some(completions) => self.succeeded >= completions,
            None => self.succeeded > 0 && self.active == 0,
        };
        complete.then_some(End::Complete)
    }

    fn ends_at(&self) -> Option<Timestamp> {
        let seconds = self.spec.active_deadline_seconds?;
        let started = self.status.start_time.as_ref().map_or_else(Timestamp::now, |time| time.0);
        started.checked_add(SignedDuration::from_secs(seconds)).ok()
    }
}

/// Whether a pod runs or will: it counts as one of the Job's active ones.
#[must_use]
pub fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Says whether the condition is new.
fn add_condition(status: &mut JobStatus, kind: &str, reason: &str, message: &str, now: &Time) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == kind) {
        return false;
    }
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    });
    true
}
