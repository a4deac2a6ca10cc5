//! One job from its creation to its outcome.

mod adopt;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::executor::admission;
use crate::executor::api::{ApiError, call};
use crate::executor::classify::{Ended, Phase, classify, image_id, is_unexplained_kill};
use crate::executor::cleanup::Cleanup;
use crate::executor::clone;
use crate::executor::collect::{Collected, Collection};
use crate::executor::feed::{News, PodFeed};
use crate::executor::inject::inject;
use crate::executor::logs::{self, Log};
use crate::executor::outcome::{JobOutcome, Problem, Reason, Status, Truncated};
use crate::executor::progress::{Progress, Steps};
use crate::executor::remains::{Remains, ran};
use crate::executor::suspicion::Suspicion;
use crate::executor::{JobLimits, text};
use crate::plan::JobPlan;
use crate::plan::manifest::{LABEL_DECISION_ID, MAIN};

/// How long creating the Job may take, repetitions included.
const CREATE: Duration = Duration::from_secs(15);

/// How long reading output and files may take when the command's wall clock ran out: the caller waits already.
const WIND_UP: Duration = Duration::from_secs(3);

/// How long a node that killed the command may take to say why.
const EXPLANATION: Duration = Duration::from_millis(1500);

/// How long one look at the pod may take at the very end.
const LAST_LOOK: Duration = Duration::from_millis(500);

/// How long the output of a pod that is going away is sought.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One job under way.
pub(super) struct Run<'a> {
    plan: &'a JobPlan,
    limits: &'a JobLimits,
    jobs: Api<Job>,
    pods: Api<Pod>,
    events: Api<Event>,
    steps: Steps<'a>,
    began: Instant,
    /// When the command was seen to run.
    started: Option<Instant>,
    job_uid: Option<String>,
    image_id: Option<String>,
}

impl<'a> Run<'a> {
    pub(super) fn new(client: &Client, plan: &'a JobPlan, limits: &'a JobLimits, steps: Steps<'a>) -> Self {
        let namespace = plan.namespace();
        Self {
            plan,
            limits,
            jobs: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
            steps,
            began: Instant::now(),
            started: None,
            job_uid: None,
            image_id: None,
        }
    }

    /// Creates the Job, sees it through, and reads what it left. Deleting it is `cleanup`'s.
    pub(super) async fn see_through(&mut self, cleanup: &mut Cleanup) -> JobOutcome {
        let uid = match self.create(cleanup).await {
            Ok(uid) => uid,
            Err(ended) => return self.outcome(ended, Log::default(), Collected::default()),
        };
        self.steps.reach(Progress::Created);
        let selector = format!("{LABEL_DECISION_ID}={}", self.decision());
        let mut feed = PodFeed::new(self.pods.clone(), selector, uid.clone());
        let remains = match self.until_running(&mut feed, &uid).await {
            Ok(pod) => {
                self.started = Some(Instant::now());
                self.steps.reach(Progress::Running);
                self.until_ended(&mut feed, pod).await
            }
            Err(remains) => remains,
        };
        let outcome = self.read(&mut feed, remains).await;
        cleanup.over(feed, matches!(outcome.status, Status::Succeeded | Status::Failed));
        outcome
    }

    /// The outcome of a run that was given up by the caller.
    pub(super) fn cancelled(&self) -> JobOutcome {
        let ended = Ended::error(Reason::Cancelled, "the call was cancelled");
        self.outcome(ended, Log::default(), Collected::default())
    }

    pub(super) fn reach(&mut self, step: Progress) {
        self.steps.reach(step);
    }

    fn decision(&self) -> String {
        self.plan.id().to_string()
    }

    async fn create(&mut self, cleanup: &mut Cleanup) -> Result<String, Ended> {
        let params = PostParams { field_manager: Some("kubepermit".to_owned()), ..PostParams::default() };
        // Safe to repeat: the name is fixed, so an attempt that took effect unseen shows as a conflict.
        let unanswered = AtomicU32::new(0);
        let created = call("create the Job", CREATE, || {
            let unanswered = &unanswered;
            let creating = self.jobs.create(&params, self.plan.manifest());
            async move {
                unanswered.fetch_add(1, Ordering::Relaxed);
                let answer = creating.await;
                if is_verdict(&answer) {
                    unanswered.fetch_sub(1, Ordering::Relaxed);
                }
                answer
            }
        })
        .await;
        let unanswered = unanswered.into_inner();
        let job = match created {
            Ok(job) => job,
            Err(error) if error.code() == Some(409) => {
                let existing = call("read the Job", CREATE, || self.jobs.get(self.plan.job_name())).await;
                existing.map_err(|error| Ended::error(Reason::ApiserverUnavailable, error.to_string()))?
            }
            Err(error) => {
                match error {
                    // The last attempt's answer; one before may have taken effect.
                    ApiError::Refused { .. } if unanswered == 0 => cleanup.disarm(),
                    ApiError::Refused { .. } | ApiError::Unavailable { .. } => cleanup.unanswered(unanswered),
                }
                return Err(not_created(&error));
            }
        };
        let ours = job.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_DECISION_ID))
            == Some(&self.decision());
        match job.metadata.uid {
            Some(uid) if ours => {
                cleanup.created(&uid, unanswered == 0);
                self.job_uid = Some(uid.clone());
                Ok(uid)
            }
            _ => {
                cleanup.disarm();
                Err(Ended::error(
                    Reason::AdmissionDenied,
                    format!("a Job `{}` exists that is not this call's", self.plan.job_name()),
                ))
            }
        }
    }

    /// Waits until the command runs. The error is the end of a job that will not come so far, or that was
    /// over before it was seen to run.
    async fn until_running(&mut self, feed: &mut PodFeed, job_uid: &str) -> Result<Box<Pod>, Remains> {
        let budgets = &self.limits.budgets;
        let mut deadline = Instant::now() + budgets.scheduling + budgets.pull + self.plan.clone_budget();
        // The Job controller makes the pod at once, unless something keeps it from that.
        let mut no_pod = Some(Instant::now() + budgets.scheduling);
        let graces = &self.limits.graces;
        let mut suspicion = Suspicion::default();
        let mut injected = false;
        let mut waited_until = Instant::now();
        loop {
            let due = [suspicion.due(graces), no_pod].into_iter().flatten().fold(deadline, Instant::min);
            let news = tokio::select! {
                news = feed.next() => news,
                () = sleep_until(due) => {
                    let now = Instant::now();
                    match suspicion.overdue(now, graces) {
                        Some(ended) => return Err(Remains::nothing(ended)),
                        None if no_pod.is_some_and(|due| now >= due) => {
                            return Err(Remains::nothing(self.no_pod(&suspicion)));
                        }
                        None if now >= deadline => return Err(Remains::nothing(self.not_started(&suspicion))),
                        None => continue,
                    }
                }
            };
            if matches!(news, News::Pod(_) | News::Gone(_)) {
                no_pod = None;
            }
            match news {
                News::Pod(pod) => match classify(&pod) {
                    Phase::Starting(step) => {
                        waited_until = Instant::now();
                        suspicion.rest();
                        self.steps.reach(step);
                    }
                    Phase::Stuck(stuck) => {
                        if let Some(ended) = suspicion.observe(stuck, Instant::now(), graces) {
                            return Err(Remains::nothing(ended));
                        }
                    }
                    Phase::AwaitingFiles if injected => {}
                    Phase::AwaitingFiles => {
                        suspicion = Suspicion::default();
                        self.steps.reach(Progress::Injecting);
                        let until = Instant::now() + budgets.injection;
                        let name = pod.metadata.name.clone().unwrap_or_default();
                        inject(&self.pods, &name, self.plan, until).await.map_err(Remains::nothing)?;
                        injected = true;
                        waited_until = Instant::now();
                        // The image of the command is pulled only now.
                        deadline = deadline.max(Instant::now() + budgets.pull);
                    }
                    Phase::Running => return Ok(pod),
                    Phase::Ended(ended) => {
                        // Over before it was seen to run, but after it was last seen to wait.
                        self.started = ran(&pod, &ended).then_some(waited_until);
                        return Err(self.explained(feed, ended, pod).await);
                    }
                },
                News::NoPod => {
                    if let Some(stuck) = admission::refusal(&self.events, job_uid).await
                        && let Some(ended) = suspicion.observe(stuck, Instant::now(), graces)
                    {
                        return Err(Remains::nothing(ended));
                    }
                }
                News::Gone(pod) => {
                    let remains = Remains::gone(pod);
                    let ran = remains.pod.as_ref().is_some_and(|pod| ran(pod, &remains.ended));
                    self.started = ran.then_some(waited_until);
                    return Err(remains);
                }
                News::Unreachable(message) => return Err(Remains::unreachable(message)),
            }
        }
    }

    fn no_pod(&self, suspicion: &Suspicion) -> Ended {
        let message = format!(
            "the cluster made no pod for the Job within {} s; the namespace's events may say why",
            self.limits.budgets.scheduling.as_secs()
        );
        let message = text::because(&message, suspicion.message().unwrap_or_default());
        Ended::error(Reason::Unschedulable, message)
    }

    fn not_started(&self, suspicion: &Suspicion) -> Ended {
        let step = self.steps.reached();
        let reason =
            if step >= Some(Progress::Scheduled) { Reason::StartFailed } else { Reason::Unschedulable };
        let last = step.map_or("requested", Progress::as_str);
        let message = format!("the command did not start in time; the pod came as far as `{last}`");
        Ended::error(reason, text::because(&message, suspicion.message().unwrap_or_default()))
    }

    /// Waits until the command ends or its wall clock runs out.
    async fn until_ended(&mut self, feed: &mut PodFeed, mut pod: Box<Pod>) -> Remains {
        let deadline = self.started.unwrap_or_else(Instant::now) + self.plan.timeout();
        loop {
            let news = tokio::select! {
                news = feed.next() => news,
                () = sleep_until(deadline) => return self.out_of_time(pod).await,
            };
            match news {
                News::Pod(now) => match classify(&now) {
                    Phase::Ended(ended) => return self.explained(feed, ended, now).await,
                    Phase::Starting(_) | Phase::Stuck(_) | Phase::AwaitingFiles | Phase::Running => pod = now,
                },
                News::NoPod => {}
                News::Gone(pod) => return Remains::gone(pod),
                News::Unreachable(message) => return Remains::unreachable(message),
            }
        }
    }

    /// What is left of a command that ended. One that was killed may turn out to be evicted or deleted with its pod.
    async fn explained(&self, feed: &mut PodFeed, mut ended: Ended, mut pod: Box<Pod>) -> Remains {
        let deadline = Instant::now() + EXPLANATION;
        while is_unexplained_kill(&pod, &ended) {
            match timeout_at(deadline, feed.next()).await {
                Ok(News::Pod(now)) => {
                    if let Phase::Ended(as_now) = classify(&now) {
                        (ended, pod) = (as_now, now);
                    }
                }
                Ok(News::Gone(pod)) => return Remains::gone(pod),
                Ok(News::NoPod) => {}
                Ok(News::Unreachable(_)) => break,
                Err(_) => {
                    // The watch may be behind.
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    let last = call("read the pod", LAST_LOOK, || self.pods.get(&name)).await;
                    if let Ok(last) = last
                        && let Phase::Ended(as_now) = classify(&last)
                    {
                        return Remains::dying(as_now, Box::new(last));
                    }
                    break;
                }
            }
        }
        Remains::dying(ended, pod)
    }

    async fn out_of_time(&self, pod: Box<Pod>) -> Remains {
        // The end may have come with the last moment, and its news be on the way.
        let name = pod.metadata.name.clone().unwrap_or_default();
        let last = call("read the pod", LAST_LOOK, || self.pods.get(&name)).await;
        if let Ok(last) = last
            && let Phase::Ended(ended) = classify(&last)
        {
            return Remains::dying(ended, Box::new(last));
        }
        Remains {
            ended: Ended {
                status: Status::Timeout,
                reason: Some(Reason::Timeout),
                exit_code: -1,
                message: format!(
                    "the command did not end within {} s; its output and files so far are in the result",
                    self.plan.timeout().as_secs()
                ),
                retryable: false,
            },
            pod: Some(pod),
            alive: true,
        }
    }

    /// Reads the output and the files.
    async fn read(&mut self, feed: &mut PodFeed, remains: Remains) -> JobOutcome {
        let Remains { mut ended, pod, alive } = remains;
        if ended.reason == Some(Reason::CloneFailed) {
            clone::explain(&self.pods, pod.as_deref(), &mut ended).await;
        }
        let Some(pod) = pod.filter(|_| self.started.is_some()) else {
            return self.outcome(ended, Log::default(), Collected::default());
        };
        self.steps.reach(Progress::Collecting);
        self.image_id = image_id(&pod, MAIN);
        let still_running = ended.status == Status::Timeout;
        let time = match ended.status {
            Status::Succeeded | Status::Failed => self.limits.budgets.collection,
            Status::Timeout => WIND_UP,
            Status::Error => LAST_WORDS,
        };
        let deadline = Instant::now() + time;
        let ended_at = Instant::now();
        let name = pod.metadata.name.clone().unwrap_or_default();
        let cap = usize::try_from(self.limits.max_output_bytes).unwrap_or(usize::MAX);
        let output = logs::read(&self.pods, &name, MAIN, cap, deadline);
        let collection = Collection {
            pods: &self.pods,
            plan: self.plan,
            cap: self.limits.max_artifact_bytes,
            deadline,
            still_running,
        };
        let files = async {
            if self.plan.artifacts().is_none() {
                Collected::default()
            } else if alive {
                collection.collect(feed, &pod).await
            } else {
                Collected::failed("the pod ended before they were read")
            }
        };
        let (log, files) = tokio::join!(output, files);
        let mut outcome = self.outcome(ended, log, files);
        outcome.duration = ended_at.saturating_duration_since(self.started.unwrap_or(ended_at));
        outcome
    }

    fn outcome(&self, ended: Ended, log: Log, files: Collected) -> JobOutcome {
        let problems = [
            log.problem.is_some().then_some(Problem::LogUnavailable),
            files.failed.then_some(Problem::ArtifactsFailed),
        ];
        let problems = problems.into_iter().flatten().collect();
        let message = [Some(ended.message), log.problem, files.problem.clone()]
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        JobOutcome {
            status: ended.status,
            reason: ended.reason,
            retryable: ended.retryable,
            message,
            exit_code: ended.exit_code,
            truncated: Truncated { output: log.text.omitted_bytes > 0, artifacts: files.problem.is_some() },
            problems,
            output: log.text.text,
            omitted_bytes: log.text.omitted_bytes,
            artifacts: files.artifacts,
            duration: self.started.unwrap_or(self.began).elapsed(),
            job_uid: self.job_uid.clone(),
            image_id: self.image_id.clone(),
        }
    }
}

/// Whether an answer says for certain what became of a creation. A server that fails in the middle, or a proxy in
/// its place, may have passed it on.
fn is_verdict(answer: &Result<Job, kube::Error>) -> bool {
    match answer {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code < 500,
        Err(_) => false,
    }
}

/// A refusal is the namespace's doing (quota, Pod Security, validation, rights); silence is the server's.
fn not_created(error: &ApiError) -> Ended {
    let reason = match error.code() {
        Some(401) | None => Reason::ApiserverUnavailable,
        Some(_) => admission::refused_by(&error.to_string()),
    };
    Ended::error(reason, error.to_string())
}
