//! One run of kubectl, from its birth to the death of everything that it started.
//!
//! What is fixed for every run: an absolute program and no shell; exactly six variables, none of them ours;
//! private empty folders for home, work and temporary files; nothing on standard input; a process group of its
//! own, killed as a whole at the deadline, when the caller leaves, and when kubectl itself has ended.
//!
//! Three things cannot be had without unsafe code between fork and exec. When this program is killed outright
//! (SIGKILL), a running kubectl is not killed with it: it ends with its `--request-timeout`, or when it writes
//! to the pipe that nobody reads. And kubectl has no resource limits of its own: its output is capped here, its
//! time by the deadline, its number by the executor's places; its memory is not. And a descriptor that whoever
//! started this program left open for every program reaches kubectl, too; this program's own do not.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::executor::kubectl::capture::{Capture, Captured, Keep};
use crate::executor::kubectl::home::PrivateHome;

/// The most of an error that is read for its cause. The cause stands at its end.
const STDERR: Keep = Keep::End(64 * 1024);

/// How long the pipes may stay open, and a killed process stay undead, after the group was killed: only a
/// process that left the group can hold them, or a kernel that is stuck.
const AFTERMATH: Duration = Duration::from_millis(500);

pub(super) struct Spawn<'a> {
    /// Absolute.
    pub(super) program: &'a Path,
    pub(super) argv: &'a [String],
    /// The value of `KUBECONFIG`.
    pub(super) kubeconfig: &'a OsStr,
    pub(super) home: &'a PrivateHome,
    /// What to keep of standard output.
    pub(super) keep: Keep,
    pub(super) deadline: Duration,
}

/// How kubectl ended, and what it wrote.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that is not ours.
    Killed(i32),
    /// It was killed at the deadline.
    Deadline,
}

impl Spawn<'_> {
    /// Runs it. Dropping the future kills the whole group.
    ///
    /// # Errors
    /// The operating system's, when it does not start.
    pub(super) async fn run(&self) -> io::Result<Ended> {
        self.home.ensure()?;
        let mut child = self.command().spawn()?;
        // Dropped before `child`, which reaps: the group's number stays taken until then.
        let mut group = Group::of(&child)?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("its output has no pipes"));
        };
        let (mut output, mut errors) = (Capture::new(self.keep), Capture::new(STDERR));
        let in_time = {
            let reading = async { tokio::join!(output.fill(stdout), errors.fill(stderr)) };
            tokio::pin!(reading);
            let mut all_read = false;
            let exited = exited(&mut child, group.id);
            tokio::pin!(exited);
            let end = timeout(self.deadline, async {
                loop {
                    tokio::select! {
                        _ = &mut reading, if !all_read => all_read = true,
                        end = &mut exited => break end,
                    }
                }
            });
            let in_time = end.await;
            group.kill();
            if !all_read {
                let _ = timeout(AFTERMATH, reading).await;
            }
            in_time.ok().transpose()?
        };
        let status = timeout(AFTERMATH, child.wait()).await;
        let end = match (in_time, status) {
            (None, _) => End::Deadline,
            (Some(()), status) => {
                let status = status.map_err(|_| io::Error::other("its end cannot be told"))??;
                match (status.code(), status.signal()) {
                    (Some(code), _) => End::Exited(code),
                    (None, signal) => End::Killed(signal.unwrap_or_default()),
                }
            }
        };
        Ok(Ended { end, stdout: output.finish(), stderr: errors.finish() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(self.argv)
            .env_clear()
            .env("PATH", "/nonexistent")
            .env("HOME", self.home.home())
            .env("KUBECONFIG", self.kubeconfig)
            .env("KUBECTL_KUBERC", "false")
            .env("LC_ALL", "C")
            .env("TMPDIR", self.home.temporary())
            .current_dir(self.home.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// A process group that is killed once, at the latest when this is dropped.
struct Group {
    id: Pid,
    killed: bool,
}

impl Group {
    fn of(child: &Child) -> io::Result<Self> {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let id = pid.map(Pid::from_raw).ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { id, killed: false })
    }

    fn kill(&mut self) {
        if !std::mem::replace(&mut self.killed, true) {
            // Fails when nobody is left.
            let _ = killpg(self.id, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the end of the process and leaves it to be reaped: until then no other process can have its
/// number, so killing its group can hit nobody else.
#[cfg(target_os = "linux")]
async fn exited(_child: &mut Child, pid: Pid) -> io::Result<()> {
    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, waitid};
    let waiting = tokio::task::spawn_blocking(move || {
        loop {
            match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Err(Errno::EINTR) => {}
                other => return other.map(|_| ()).map_err(io::Error::from),
            }
        }
    });
    waiting.await.map_err(io::Error::other)?
}

/// The same where a process cannot be waited for without reaping it.
#[cfg(not(target_os = "linux"))]
async fn exited(child: &mut Child, _pid: Pid) -> io::Result<()> {
    child.wait().await.map(|_| ())
}
