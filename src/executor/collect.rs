//! Brings the job's files back: a tar stream out of the helper container.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use crate::executor::api::ApiError;
use crate::executor::archive::{Choice, Unpacked, unpack};
use crate::executor::classify::is_running;
use crate::executor::exec::{Command, End, Finished};
use crate::executor::feed::{News, PodFeed};
use crate::executor::listing::{self, Listed};
use crate::executor::outcome::Artifact;
use crate::plan::manifest::{HELPER, INJECT};
use crate::plan::{JobPlan, WantedArtifacts};

/// How long a command that ended may have to wait for the helper container to start.
const HELPER_START: Duration = Duration::from_secs(15);

/// How many chunks may wait for the archive's reader: 16 of 64 KiB.
const CHUNKS: usize = 16;

/// What to collect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collection<'a> {
    pub(crate) pods: &'a Api<Pod>,
    pub(crate) plan: &'a JobPlan,
    /// The most bytes of all files together.
    pub(crate) cap: u64,
    pub(crate) deadline: Instant,
    /// Files of a command that still runs may change while they are read.
    pub(crate) still_running: bool,
}

/// The files, and what is missing.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) artifacts: Vec<Artifact>,
    /// Why files are missing, when some are.
    pub(crate) problem: Option<String>,
    /// Whether they are missing because they could not be read, and not for a cap.
    pub(crate) failed: bool,
}

impl Collected {
    /// Nothing, and why.
    pub(crate) fn failed(problem: &str) -> Self {
        Self { artifacts: Vec::new(), problem: Some(incomplete(problem)), failed: true }
    }
}

impl Collection<'_> {
    /// Waits for the helper container of `pod` and reads the work directory through it.
    pub(crate) async fn collect(&self, feed: &mut PodFeed, pod: &Pod) -> Collected {
        let name = match self.wait_for_helper(feed, pod).await {
            Ok(name) => name,
            Err(problem) => return Collected::failed(problem),
        };
        let mut collected = Collected::default();
        for pause in [0, 200, 500] {
            sleep(Duration::from_millis(pause)).await;
            let again;
            (collected, again) = self.read(&name).await;
            if !again || Instant::now() >= self.deadline {
                break;
            }
        }
        collected
    }

    async fn wait_for_helper(&self, feed: &mut PodFeed, pod: &Pod) -> Result<String, &'static str> {
        let deadline = self.deadline.min(Instant::now() + HELPER_START);
        let mut current = Box::new(pod.clone());
        loop {
            match is_running(&current, HELPER) {
                Some(true) => return Ok(current.metadata.name.unwrap_or_default()),
                Some(false) => return Err("the helper container has ended"),
                None => {}
            }
            match timeout_at(deadline, feed.next()).await {
                Ok(News::Pod(pod)) => current = pod,
                Ok(News::NoPod) => {}
                Ok(News::Gone(_)) => return Err("the pod is gone"),
                Ok(News::Unreachable(_)) => return Err("the API server does not answer"),
                Err(_) => return Err("the helper container did not start in time"),
            }
        }
    }

    /// One attempt, and whether another may do better.
    async fn read(&self, pod: &str) -> (Collected, bool) {
        if !self.must_look_first() {
            let argv = ["tar", "-cf", "-", "-C", self.plan.workdir(), "."];
            return self.fetch(pod, &argv, None, 0).await;
        }
        let (chosen, left_out) = match self.choose(pod).await {
            Ok(Listed { chosen, left_out }) => (chosen, left_out),
            Err(failure) => return failure,
        };
        if chosen.is_empty() && left_out == 0 {
            return (Collected::default(), false);
        }
        let argv = ["sh", "-c", listing::FETCH, self.plan.workdir()];
        self.fetch(pod, &argv, Some(chosen), left_out).await
    }

    /// Whether the files have to be looked at before they are fetched: because the call chooses among them, or because
    /// some were there before the command and may be many.
    fn must_look_first(&self) -> bool {
        let placed = |name: &str| name != INJECT;
        let spec = self.plan.manifest().spec.as_ref().and_then(|job| job.template.spec.as_ref());
        let others = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        matches!(self.plan.artifacts(), WantedArtifacts::Matching(_))
            || others.map(|container| container.name.as_str()).any(placed)
    }

    /// Lists the work directory and chooses from it.
    async fn choose(&self, pod: &str) -> Result<Listed, (Collected, bool)> {
        let argv = ["sh", "-c", listing::LIST, self.plan.workdir()];
        let command = Command { pods: self.pods, pod, container: HELPER, argv: &argv };
        let (sender, mut receiver) = mpsc::channel::<Bytes>(CHUNKS);
        let reading = async {
            // One byte more than is looked at tells that there is more.
            let mut text = Vec::new();
            let mut cut = false;
            while let Some(chunk) = receiver.recv().await {
                cut |= text.len() + chunk.len() > listing::MOST_BYTES;
                if !cut {
                    text.extend_from_slice(&chunk);
                }
            }
            (text, cut)
        };
        let (finished, (text, cut)) = tokio::join!(command.receive(sender, self.deadline), reading);
        match self.verdict(finished) {
            (Some(problem), again) => return Err((Collected::failed(&problem), again)),
            (None, _) if cut => {
                return Err((Collected::failed("there are too many files to look through"), false));
            }
            (None, _) => {}
        }
        listing::choose(&text, self.plan.artifacts(), self.plan.files(), self.cap)
            .map_err(|problem| (Collected::failed(&problem), false))
    }

    /// Runs what writes an archive of files, and reads it. With `chosen` the names go in and only they count.
    async fn fetch(
        &self,
        pod: &str,
        argv: &[&str],
        chosen: Option<Vec<Bytes>>,
        left_out: u64,
    ) -> (Collected, bool) {
        let command = Command { pods: self.pods, pod, container: HELPER, argv };
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let (inputs, cap) = (self.plan.files().to_vec(), self.cap);
        let choice = match (self.plan.artifacts(), &chosen) {
            (WantedArtifacts::Matching(patterns), _) => Choice::Matching(patterns.clone()),
            (_, _) => Choice::Changed(inputs),
        };
        let reader = spawn_blocking(move || {
            let mut stream = Chunks::new(receiver);
            let unpacked = unpack(&mut stream, &choice, cap);
            // What follows the archive's end has to be taken, or the other side waits for ever.
            stream.discard();
            unpacked
        });
        let finished = match &chosen {
            Some(names) => command.exchange(names, sender, self.deadline).await,
            None => command.receive(sender, self.deadline).await,
        };
        let unpacked = match reader.await {
            Ok(unpacked) => unpacked,
            Err(_) => return (Collected::failed("reading the archive was interrupted"), false),
        };
        let Unpacked { artifacts, left_out: not_kept, problem: broken } = unpacked;
        let (problem, again) = self.verdict(finished);
        let problem = problem.or(broken);
        let failed = problem.is_some();
        let problem = match (problem, left_out + not_kept) {
            (Some(problem), _) => Some(incomplete(&problem)),
            (None, 0) => None,
            (None, n) => Some(format!(
                "{n} files were left out: all files together may have {cap} bytes and 1000 different names, and a hard link comes back only along with its file"
            )),
        };
        (Collected { artifacts, problem, failed }, again)
    }

    /// What is wrong with the end of a program in the helper, and whether another attempt may do better.
    fn verdict(&self, finished: Result<Finished, ApiError>) -> (Option<String>, bool) {
        match finished {
            Err(error) => {
                let again = matches!(error, ApiError::Unavailable { .. });
                (Some(error.to_string()), again)
            }
            Ok(finished) => match finished.end {
                End::Exited(0) => (None, false),
                // tar says with 1 that files changed under it, and xargs with 123 that tar said so.
                End::Exited(1 | 123) if self.still_running => (None, false),
                End::Exited(_) | End::TimedOut => (Some(finished.describe()), false),
                End::Failed(_) | End::Lost => (Some(finished.describe()), true),
            },
        }
    }
}

fn incomplete(problem: &str) -> String {
    format!("files may be missing: {problem}")
}

/// The received chunks as a blocking stream. It ends when the sender is gone, which a deadline brings about.
struct Chunks {
    receiver: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Chunks {
    fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { receiver, current: Bytes::new() }
    }

    fn discard(mut self) {
        while self.receiver.blocking_recv().is_some() {}
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.current.len());
        if let Some(target) = buffer.get_mut(..length) {
            self.current.copy_to_slice(target);
        }
        Ok(length)
    }
}
