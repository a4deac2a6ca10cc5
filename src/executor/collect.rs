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
use crate::executor::archive::{Unpacked, unpack};
use crate::executor::classify::is_running;
use crate::executor::exec::{Command, End};
use crate::executor::feed::{News, PodFeed};
use crate::executor::outcome::Artifact;
use crate::plan::JobPlan;
use crate::plan::manifest::HELPER;

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
}

impl Collection<'_> {
    /// Waits for the helper container of `pod` and reads the work directory through it.
    pub(crate) async fn collect(&self, feed: &mut PodFeed, pod: &Pod) -> Collected {
        let name = match self.wait_for_helper(feed, pod).await {
            Ok(name) => name,
            Err(problem) => return missing(problem),
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
        let command = Command {
            pods: self.pods,
            pod,
            container: HELPER,
            argv: &["tar", "-cf", "-", "-C", self.plan.workdir(), "."],
        };
        let (sender, receiver) = mpsc::channel(CHUNKS);
        let (inputs, cap) = (self.plan.files().to_vec(), self.cap);
        let reader = spawn_blocking(move || {
            let mut stream = Chunks::new(receiver);
            let unpacked = unpack(&mut stream, &inputs, cap);
            // What follows the archive's end has to be taken, or the other side waits for ever.
            stream.discard();
            unpacked
        });
        let finished = command.receive(sender, self.deadline).await;
        let Unpacked { artifacts, left_out, problem: broken } = match reader.await {
            Ok(unpacked) => unpacked,
            Err(_) => return (missing("reading the archive was interrupted"), false),
        };
        let (problem, again) = match finished {
            Err(error) => {
                let again = matches!(error, ApiError::Unavailable { .. });
                (Some(error.to_string()), again)
            }
            Ok(finished) => match finished.end {
                End::Exited(0) => (broken, false),
                // tar's exit code for files that changed under it.
                End::Exited(1) if self.still_running => (broken, false),
                End::Exited(_) | End::TimedOut => (Some(finished.describe()), false),
                End::Failed(_) | End::Lost => (Some(finished.describe()), true),
            },
        };
        let problem = match (problem, left_out) {
            (Some(problem), _) => Some(incomplete(&problem)),
            (None, 0) => None,
            (None, n) => Some(format!(
                "{n} files were left out: all files together may have {cap} bytes and 1000 different names, and a hard link comes back only along with its file"
            )),
        };
        (Collected { artifacts, problem }, again)
    }
}

fn missing(problem: &str) -> Collected {
    Collected { artifacts: Vec::new(), problem: Some(incomplete(problem)) }
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
