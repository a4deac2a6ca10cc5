//! Deletes a Job, on whatever path its run ends.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::executor::api::{ApiError, call};
use crate::plan::manifest::LABEL_DECISION_ID;

/// How long a deletion that fails is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a Job whose creation went unanswered may take to appear.
const LATE_ARRIVAL: Duration = Duration::from_secs(10);

/// The longest pause between two looks for a Job whose creation went unanswered.
const LOOK: Duration = Duration::from_millis(500);

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Owns the duty to delete one Job. Dropped before [`Cleanup::delete`], as by a panic or an aborted future,
/// it deletes in a task of its own.
pub(crate) struct Cleanup {
    target: Option<Target>,
    tasks: TaskTracker,
    runtime: Handle,
}

/// Which Job.
struct Target {
    jobs: Api<Job>,
    name: String,
    decision: String,
    /// `None` until the creation was answered; the Job may exist nevertheless.
    uid: Option<String>,
}

impl Cleanup {
    /// The duty, from before the Job is created. Call inside a tokio runtime.
    pub(crate) fn new(jobs: Api<Job>, name: &str, decision: &str, tasks: TaskTracker) -> Self {
        Self {
            target: Some(Target { jobs, name: name.to_owned(), decision: decision.to_owned(), uid: None }),
            tasks,
            runtime: Handle::current(),
        }
    }

    /// The creation was answered.
    pub(crate) fn created(&mut self, uid: &str) {
        if let Some(target) = &mut self.target {
            target.uid = Some(uid.to_owned());
        }
    }

    /// Nothing was created, so nothing is left to do.
    pub(crate) fn disarm(&mut self) {
        self.target = None;
    }

    /// Deletes the Job and waits at most `within` for the API server's answer; what fails is repeated in the
    /// background. Whether the Job is known to be deleted.
    pub(crate) async fn delete(mut self, within: Duration) -> bool {
        let Some(answered) = self.start() else {
            return true;
        };
        matches!(timeout(within, answered).await, Ok(Ok(())))
    }

    fn start(&mut self) -> Option<oneshot::Receiver<()>> {
        let target = self.target.take()?;
        let (tell, answered) = oneshot::channel();
        self.tasks.spawn_on(
            async move {
                if target.delete().await {
                    // Nobody may be waiting any more.
                    let _ = tell.send(());
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

impl Target {
    /// Repeats until the Job is gone or patience is over.
    async fn delete(mut self) -> bool {
        let began = Instant::now();
        let mut pause = Duration::from_millis(200);
        loop {
            let error = match self.attempt(began).await {
                Ok(true) => return true,
                Ok(false) => "it has not appeared yet".to_owned(),
                Err(error) => error.to_string(),
            };
            if began.elapsed() >= PATIENCE {
                tracing::error!(job = %self.name, %error, "a Job is left behind; the cluster removes it after its deadline");
                return false;
            }
            sleep(pause).await;
            // One that is still to appear goes within the second.
            pause = (pause * 2).min(if self.uid.is_none() { LOOK } else { ATTEMPT });
        }
    }

    /// `Ok(true)` when the Job is known to be deleted, or not to be this call's.
    async fn attempt(&mut self, began: Instant) -> Result<bool, ApiError> {
        let uid = match &self.uid {
            Some(uid) => uid.clone(),
            None => {
                let found = call("look for the Job", ATTEMPT, || self.jobs.get_opt(&self.name)).await?;
                let Some(job) = found else {
                    return Ok(began.elapsed() >= LATE_ARRIVAL);
                };
                let labels = job.metadata.labels.unwrap_or_default();
                let (Some(uid), true) =
                    (job.metadata.uid, labels.get(LABEL_DECISION_ID) == Some(&self.decision))
                else {
                    return Ok(true);
                };
                self.uid.insert(uid).clone()
            }
        };
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            // Without a policy the API server would leave the Job's pods behind.
            ..DeleteParams::background()
        };
        match call("delete the Job", ATTEMPT, || self.jobs.delete(&self.name, &params)).await {
            Ok(_) => Ok(true),
            // Gone, or another Job of that name: either way this call's Job is no more.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
