//! One container where the launcher cannot work: a plain process with a cleared environment and a process group of
//! its own. Systems other than Linux, and only on request.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::Confinement;
use super::Streams;
use super::exit::{Exit, StartError};
use super::wire::{Applied, Order};

/// A running container. Dropping it kills its process group; a process that has left the group stays.
#[derive(Debug)]
pub struct ContainerProcess {
    group: Pid,
    child: Child,
    exit: Option<Exit>,
    /// The writing end of standard input, if it was to be piped.
    pub stdin: Option<ChildStdin>,
    /// The reading end of standard output, if it was to be piped.
    pub stdout: Option<ChildStdout>,
    /// The reading end of standard error, if it was to be piped.
    pub stderr: Option<ChildStderr>,
}

impl ContainerProcess {
    pub(super) async fn start(_launcher: &Path, order: &Order, streams: Streams) -> Result<Self, StartError> {
        match order.confinement {
            Confinement::Unconfined => {}
            Confinement::Namespaces | Confinement::LandlockOnly => {
                return Err(StartError::Setup("only Linux has the means".to_owned()));
            }
        }
        let [name, arguments @ ..] = order.spec.argv.as_slice() else {
            return Err(StartError::NotFound("the command is empty".to_owned()));
        };
        let mut child = Command::new(name)
            .args(arguments)
            .env_clear()
            .envs(order.spec.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&order.spec.working_dir)
            .stdin(streams.stdin)
            .stdout(streams.stdout)
            .stderr(streams.stderr)
            .process_group(0)
            .spawn()
            .map_err(|error| could_not_start(name, &error))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let group = Pid::from_raw(pid.ok_or_else(|| StartError::Setup("it has no process id".to_owned()))?);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Self { group, child, exit: None, stdin, stdout, stderr })
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.group.as_raw()
    }

    /// Nothing confines it.
    pub fn applied(&self) -> Applied {
        Applied::default()
    }

    /// Waits for the end of the command, and kills what is left of its process group. Safe to call again and to
    /// abandon.
    ///
    /// # Errors
    ///
    /// If the system does not tell.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = self.child.wait().await?;
        let _gone = killpg(self.group, Signal::SIGKILL);
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => return Err(io::Error::other("the command ended without a status")),
        };
        self.exit = Some(exit);
        Ok(exit)
    }

    /// Sends SIGTERM to the command.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub async fn terminate(&mut self) -> io::Result<()> {
        Ok(nix::sys::signal::kill(self.group, Signal::SIGTERM)?)
    }

    /// Kills the command and its process group. [`ContainerProcess::wait`] tells when the command is gone.
    pub async fn kill(&mut self) {
        self.kill_group();
    }

    fn kill_group(&self) {
        // Once it has been waited for, the number may be another group's.
        if self.exit.is_none() {
            let _gone = killpg(self.group, Signal::SIGKILL);
        }
    }
}

impl Drop for ContainerProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

fn could_not_start(name: &str, error: &io::Error) -> StartError {
    let message = format!("cannot run `{name}`: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => StartError::NotFound(message),
        io::ErrorKind::PermissionDenied => StartError::NotExecutable(message),
        _other => StartError::Setup(message),
    }
}
