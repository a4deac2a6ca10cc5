//! Sees a Job to its end that another process created.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use tokio::time::Instant;

use super::{Run, call};
use crate::executor::classify::Ended;
use crate::executor::collect::Collected;
use crate::executor::feed::PodFeed;
use crate::executor::logs::Log;
use crate::executor::outcome::{JobOutcome, Reason, Status};
use crate::plan::manifest::{LABEL_DECISION_ID, MAIN};

/// How long the first look at the pod may take.
const LOOK: Duration = Duration::from_secs(15);

impl Run<'_> {
    /// Follows the Job with UID `uid` from wherever it has come to.
    pub(in crate::executor) async fn follow(&mut self, uid: &str) -> JobOutcome {
        self.job_uid = Some(uid.to_owned());
        let selector = format!("{LABEL_DECISION_ID}={}", self.decision());
        let params = ListParams::default().labels(&selector);
        let pods = call("list pods", LOOK, || self.pods.list(&params)).await;
        if pods.is_ok_and(|pods| pods.items.is_empty())
            && let Some(ended) = over(self.plan.manifest())
        {
            return self.outcome(ended, Log::default(), Collected::default());
        }
        let mut feed = PodFeed::new(self.pods.clone(), selector, uid.to_owned());
        let remains = match self.until_running(&mut feed, uid).await {
            Ok(pod) => {
                self.started = Some(started(&pod).unwrap_or_else(Instant::now));
                self.until_ended(&mut feed, pod).await
            }
            Err(remains) => remains,
        };
        self.read(&mut feed, remains).await
    }
}

/// When the command began, by the node's clock and ours: its wall clock has been running since.
fn started(pod: &Pod) -> Option<Instant> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let main = statuses.iter().find(|status| status.name == MAIN)?;
    let began = main.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
    let ago = Timestamp::now().duration_since(began.0);
    Instant::now().checked_sub(Duration::try_from(ago).ok()?)
}

/// How a Job ended that has no pod any more: the cluster deletes the pods of a Job that ran out of time.
fn over(job: &Job) -> Option<Ended> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ended = conditions.iter().find(|condition| {
        condition.status == "True" && ["Failed", "Complete"].contains(&condition.type_.as_str())
    })?;
    let message = "the job ended while no server followed it, and its pod, output and files are gone";
    Some(if ended.reason.as_deref() == Some("DeadlineExceeded") {
        Ended {
            status: Status::Timeout,
            reason: Some(Reason::Timeout),
            exit_code: -1,
            message: message.to_owned(),
            retryable: false,
        }
    } else {
        Ended::error(Reason::DeletedExternally, message)
    })
}
