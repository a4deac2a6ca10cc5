//! [`Permit`](crate::policy::Permit) of a read to kubectl to [`ReadOutcome`].
//!
//! ```text
//! slot -> spawn (cleared environment, private folders, own group, deadline, caps) -> failure | present
//! ```
//!
//! The plan's argv runs as it was judged. Everything else about the process is fixed here: nothing of this
//! program's environment, home, working directory or standard input reaches it.

mod capture;
mod events;
mod failure;
mod home;
mod kubeconfig;
mod pods;
mod present;
mod slots;
mod spawn;
mod table;
pub(in crate::executor) mod version;

pub use failure::{ReadFailure, ReadReason};
pub use home::PrivateHome;
pub use kubeconfig::{Access, AccessError, ReadSource};

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::plan::{KubectlPlan, Presentation};
use capture::Keep;
use slots::Slots;
use spawn::{End, Spawn};

/// Bounds of every read.
#[derive(Debug, Clone)]
pub struct ReadLimits {
    /// The most characters of kubectl's output in a result (`--max-output`).
    pub max_output: usize,
    /// From the start of kubectl to its death.
    pub deadline: Duration,
    /// How many kubectl may run at once: each takes about 50 MB and a tenth of a second of a processor.
    pub at_once: usize,
    /// How long a read waits for one of those places before it is told to come back.
    pub queue: Duration,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            max_output: 262_144,
            deadline: Duration::from_secs(30),
            at_once: 4,
            queue: Duration::from_secs(10),
        }
    }
}

/// What runs reads, and with which credentials. What is missing is told by each read.
#[derive(Debug)]
pub struct ReadTools {
    /// kubectl's absolute path; `None` where the machine has none.
    pub program: Option<PathBuf>,
    /// The kubeconfig and its context, or why there is none.
    pub access: Result<Access, AccessError>,
    /// The folders that kubectl sees.
    pub home: PrivateHome,
}

/// Runs admitted reads.
#[derive(Debug)]
pub struct KubectlExecutor {
    tools: ReadTools,
    limits: ReadLimits,
    slots: Slots,
}

/// The end of a read that was admitted.
#[derive(Debug, Clone)]
pub struct ReadOutcome {
    /// What was read, or why nothing was.
    pub end: Result<ReadText, ReadFailure>,
    /// The namespace that was read; `None` for all of them.
    pub namespace: Option<String>,
    /// kubectl's exit code, when it ran to its end.
    pub exit_code: Option<i32>,
    /// From admission to the end.
    pub duration: Duration,
}

/// What a read gives: text that is safe to show, within the cap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadText {
    /// At most the cap's characters, and where some are missing one line that says so.
    pub output: String,
    /// How many characters are missing; 0 when nothing was cut.
    pub omitted_characters: u64,
    /// How many characters are shown as escapes.
    pub replaced_characters: u64,
}

impl KubectlExecutor {
    /// An executor with these tools. Nothing is started yet.
    #[must_use]
    pub fn new(tools: ReadTools, limits: ReadLimits) -> Self {
        let slots = Slots::new(limits.at_once, limits.queue);
        Self { tools, limits, slots }
    }

    /// Runs an admitted read. When `cancel` fires, or the future is dropped, kubectl is killed.
    pub(super) async fn run(&self, plan: &KubectlPlan, cancel: CancellationToken) -> ReadOutcome {
        let started = Instant::now();
        let (end, exit_code) = tokio::select! {
            biased;
            () = cancel.cancelled() => (Err(ReadFailure::of(ReadReason::Cancelled)), None),
            end = self.read(plan) => end,
        };
        ReadOutcome {
            end,
            namespace: plan.namespace().map(str::to_owned),
            exit_code,
            duration: started.elapsed(),
        }
    }

    async fn read(&self, plan: &KubectlPlan) -> (Result<ReadText, ReadFailure>, Option<i32>) {
        let (program, access) = match self.tools() {
            Ok(tools) => tools,
            Err(failure) => return (Err(failure), None),
        };
        let Some(_slot) = self.slots.take().await else {
            return (Err(ReadFailure::of(ReadReason::Busy)), None);
        };
        let spawn = Spawn {
            program,
            argv: plan.argv(),
            kubeconfig: &access.kubeconfig,
            home: &self.tools.home,
            keep: keep(plan.presentation(), self.limits.max_output),
            deadline: self.limits.deadline,
        };
        let ended = match spawn.run().await {
            Ok(ended) => ended,
            Err(error) => return (Err(failure::not_started(program, &error)), None),
        };
        match ended.end {
            End::Exited(0) => {
                let read = present::present(
                    plan.presentation(),
                    plan.all_namespaces(),
                    ended.stdout,
                    &ended.stderr.bytes,
                    self.limits.max_output,
                );
                (read, Some(0))
            }
            End::Exited(code) => {
                (Err(failure::of_stderr(&ended.stderr.bytes, access.is_nothing)), Some(code))
            }
            End::Killed(signal) => (Err(failure::killed(signal)), None),
            End::Deadline => (Err(failure::timed_out(self.limits.deadline)), None),
        }
    }

    fn tools(&self) -> Result<(&PathBuf, &Access), ReadFailure> {
        let program = self.tools.program.as_ref();
        let program = program.ok_or_else(|| ReadFailure::of(ReadReason::NotInstalled))?;
        let access = self.tools.access.as_ref().map_err(failure::no_access)?;
        Ok((program, access))
    }
}

/// Which part of kubectl's output to hold in memory. A list in JSON is only of use whole.
fn keep(presentation: Presentation, max_output: usize) -> Keep {
    /// A pod in JSON has some 10 KB, an event 1 KB.
    const LIST: usize = 32 * 1024 * 1024;
    // A character of UTF-8 has at most 4 bytes; never less than what `describe` says of one object.
    let text = max_output.saturating_mul(4).clamp(1024 * 1024, LIST);
    match presentation {
        Presentation::Pods | Presentation::Events => Keep::Start { list: LIST, text },
        Presentation::Logs | Presentation::Describe => Keep::End(text),
    }
}
