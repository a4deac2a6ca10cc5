//! Deletes a Job, on whatever path its run ends, and keeps its place until its pod is gone.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use crate::executor::api::{ApiError, call, delete_job};
use crate::executor::feed::{News, PodFeed};
use crate::executor::slots::JobSlot;
use crate::plan::JobPlan;
use crate::plan::manifest::LABEL_DECISION_ID;

/// How long a deletion that the API server refuses is repeated. One that gets no answer is repeated for as long as
/// the pod may live: with the server away nothing else can be started anyway.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a Job whose creation went unanswered may take to appear.
const LATE_ARRIVAL: Duration = Duration::from_secs(10);

/// The longest pause between two looks for a Job whose creation went unanswered.
const LOOK: Duration = Duration::from_millis(500);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// How long the pod of a deleted Job keeps its place: its grace period is 2 s. One on a node that is lost may be
/// listed for ever.
const GOING: Duration = Duration::from_secs(60);

/// How long a Job controller that has not heard of the deletion may still make a pod.
const LATE_POD: Duration = Duration::from_secs(1);

/// Owns the duty to delete one Job, and its place among the jobs. Dropped before [`Cleanup::delete`], as by a panic
/// or an aborted future, it deletes in a task of its own.
pub(crate) struct Cleanup {
    target: Option<Target>,
    tasks: TaskTracker,
    runtime: Handle,
}

/// Which Job.
struct Target {
    jobs: Api<Job>,
    pods: Api<Pod>,
    name: String,
    decision: String,
    /// How long its pod may live at most, by its own deadline.
    lifetime: Duration,
    creation: Creation,
    /// Until when a creation may take effect that nobody was told of.
    late_until: Option<Instant>,
    /// Whether the Job stays until then: its name is taken, so that a late creation finds it and fails instead of
    /// running the command once more.
    guards: bool,
    /// News of the pod, when somebody listened already.
    feed: Option<PodFeed>,
    /// Given back when the pod is gone.
    slot: JobSlot,
}

/// What is known of the Job's creation.
enum Creation {
    /// It was not answered; the Job may exist nevertheless.
    Unanswered,
    /// The Job has this UID.
    Answered(String),
}

impl Cleanup {
    /// The duty, from before the Job is created. Call inside a tokio runtime.
    pub(crate) fn new(client: &Client, plan: &JobPlan, slot: JobSlot, tasks: TaskTracker) -> Self {
        let target = Target {
            jobs: Api::namespaced(client.clone(), plan.namespace()),
            pods: Api::namespaced(client.clone(), plan.namespace()),
            name: plan.job_name().to_owned(),
            decision: plan.id().to_string(),
            lifetime: lifetime(plan),
            creation: Creation::Unanswered,
            late_until: None,
            guards: false,
            feed: None,
            slot,
        };
        Self { target: Some(target), tasks, runtime: Handle::current() }
    }

    /// The creation was answered. `certain` is false when an attempt before went unanswered: it may take effect
    /// after the Job is deleted, and would run the command once more.
    pub(crate) fn created(&mut self, uid: &str, certain: bool) {
        if let Some(target) = &mut self.target {
            target.creation = Creation::Answered(uid.to_owned());
            target.late_until = (!certain).then(|| Instant::now() + LATE_ARRIVAL);
        }
    }

    /// The creation was given up after `attempts` that may each have taken effect, or may yet.
    pub(crate) fn unanswered(&mut self, attempts: u32) {
        if let Some(target) = &mut self.target
            && attempts > 1
        {
            target.late_until = Some(Instant::now() + LATE_ARRIVAL);
            target.guards = true;
        }
    }

    /// The job is over; `feed` has news of its pod. When the command ended `by_itself`, nothing is saved by an early
    /// deletion.
    pub(crate) fn over(&mut self, feed: PodFeed, by_itself: bool) {
        if let Some(target) = &mut self.target {
            target.feed = Some(feed);
            target.guards = by_itself && target.late_until.is_some();
        }
    }

    /// Nothing was created, so nothing is left to do.
    pub(crate) fn disarm(&mut self) {
        self.target = None;
    }

    /// Deletes the Job and waits at most `within` for the API server's answer; what fails is repeated in the
    /// background. Whether the Job is known to be deleted.
    pub(crate) async fn delete(mut self, within: Duration) -> bool {
        let guarding = self.target.as_ref().is_some_and(|target| target.guards);
        let Some(answered) = self.start() else {
            return true;
        };
        !guarding && matches!(timeout(within, answered).await, Ok(Ok(())))
    }

    fn start(&mut self) -> Option<oneshot::Receiver<()>> {
        let target = self.target.take()?;
        let (tell, answered) = oneshot::channel();
        let runtime = self.runtime.clone();
        self.tasks.spawn_on(
            async move {
                let mut target = target;
                if target.delete().await {
                    // Nobody may be waiting any more.
                    let _ = tell.send(());
                    // At an exit nobody waits for a place.
                    runtime.spawn(target.until_gone());
                }
            },
            &self.runtime,
        );
        Some(answered)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.start();
    }
}

/// How long the Job's pod may live: as its manifest says.
fn lifetime(plan: &JobPlan) -> Duration {
    let deadline = plan.manifest().spec.as_ref().and_then(|job| job.active_deadline_seconds);
    deadline.and_then(|seconds| u64::try_from(seconds).ok()).map_or(PATIENCE, Duration::from_secs)
}

impl Target {
    /// Repeats until the Job is gone or patience is over.
    async fn delete(&mut self) -> bool {
        if let Some(until) = self.late_until.filter(|_| self.guards) {
            sleep_until(until).await;
        }
        let began = Instant::now();
        let mut known = match &self.creation {
            Creation::Answered(uid) => Some(uid.clone()),
            Creation::Unanswered => None,
        };
        let late_until = self.late_until.unwrap_or(match &self.creation {
            Creation::Answered(_) => began,
            Creation::Unanswered => began + LATE_ARRIVAL,
        });
        let mut pause = Duration::from_millis(200);
        loop {
            let (cause, patience) = match self.attempt(&mut known).await {
                Ok(()) if Instant::now() >= late_until => return true,
                Ok(()) => (None, self.lifetime),
                Err(error @ ApiError::Refused { .. }) => (Some(error), PATIENCE),
                Err(error @ ApiError::Unavailable { .. }) => (Some(error), self.lifetime.max(PATIENCE)),
            };
            if let Some(error) = cause
                && began.elapsed() >= patience
            {
                tracing::error!(job = %self.name, %error, "a Job is left behind; the cluster removes it after its deadline");
                return false;
            }
            sleep(pause).await;
            // One that is still to appear goes within the second.
            pause =
                (pause * 2).min(if matches!(self.creation, Creation::Unanswered) { LOOK } else { ATTEMPT });
        }
    }

    /// `Ok` when there is no Job of this call now. `known` is its UID, where it has one.
    async fn attempt(&mut self, known: &mut Option<String>) -> Result<(), ApiError> {
        let uid = match known {
            Some(uid) => uid.clone(),
            None => {
                let found = call("look for the Job", ATTEMPT, || self.jobs.get_opt(&self.name)).await?;
                let Some(job) = found else {
                    return Ok(());
                };
                let labels = job.metadata.labels.unwrap_or_default();
                let (Some(uid), true) =
                    (job.metadata.uid, labels.get(LABEL_DECISION_ID) == Some(&self.decision))
                else {
                    return Ok(());
                };
                self.creation = Creation::Answered(uid.clone());
                known.insert(uid).clone()
            }
        };
        delete_job(&self.jobs, &self.name, &uid, ATTEMPT).await?;
        *known = None;
        Ok(())
    }

    /// Keeps the place until the deleted Job's pod is gone, as far as can be told.
    async fn until_gone(self) {
        let Creation::Answered(uid) = self.creation else { return };
        let selector = format!("{LABEL_DECISION_ID}={}", self.decision);
        let mut feed = self.feed.unwrap_or_else(|| PodFeed::new(self.pods, selector, uid));
        let began = Instant::now();
        let gone = async {
            loop {
                match feed.next().await {
                    News::Gone(_) => return,
                    News::NoPod if began.elapsed() >= LATE_POD => return,
                    // It is listed again after a while.
                    News::NoPod | News::Pod(_) => {}
                    News::Unreachable(_) => sleep(LATE_POD).await,
                }
            }
        };
        if timeout(GOING, gone).await.is_err() {
            tracing::warn!(job = %self.name, "the pod of a deleted Job is still listed; its place is given to another");
        }
        drop(self.slot);
    }
}
