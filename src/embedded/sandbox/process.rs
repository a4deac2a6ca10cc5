//! The gateway's side of one container: starting its launcher, waiting, killing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::Streams;
use super::exit::{Exit, StartError};
use super::wire::{
    Applied, Ended, Failure, FailureKind, HIDDEN_WORD, Order, ROLE_SUPERVISE, Report, TERMINATE, encode,
};

/// A launcher that takes longer to come to its first step is taken for dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running container. Dropping it kills it, with everything that it started.
#[derive(Debug)]
pub struct ContainerProcess {
    pid: i32,
    applied: Applied,
    reports: Lines<BufReader<OwnedReadHalf>>,
    lifeline: OwnedWriteHalf,
    launcher: Child,
    exit: Option<Exit>,
    /// The writing end of standard input, if it was to be piped.
    pub stdin: Option<ChildStdin>,
    /// The reading end of standard output, if it was to be piped.
    pub stdout: Option<ChildStdout>,
    /// The reading end of standard error, if it was to be piped.
    pub stderr: Option<ChildStderr>,
}

impl From<Failure> for StartError {
    fn from(failure: Failure) -> Self {
        match failure.kind {
            FailureKind::NotFound => Self::NotFound(failure.message),
            FailureKind::NotExecutable => Self::NotExecutable(failure.message),
            FailureKind::WorkingDir => Self::WorkingDir(failure.message),
            FailureKind::Setup => Self::Setup(failure.message),
        }
    }
}

impl ContainerProcess {
    /// Starts a launcher, gives it the order and waits until the command runs.
    pub(super) async fn start(launcher: &Path, order: &Order, streams: Streams) -> Result<Self, StartError> {
        let failed = |step| move |source| StartError::Launcher { step, source };
        let (name, listener) = listen().map_err(failed("listen"))?;
        let mut child = Command::new(launcher)
            .args([HIDDEN_WORD, ROLE_SUPERVISE, &name])
            .env_clear()
            .stdin(streams.stdin)
            .stdout(streams.stdout)
            .stderr(streams.stderr)
            // An interrupt from the keyboard is for the gateway, which ends its containers in its own time.
            .process_group(0)
            .spawn()
            .map_err(failed("start"))?;
        // Taken now: waiting closes the handle of standard input.
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stream = tokio::select! {
            stream = accept(&listener, child.id()) => stream,
            status = child.wait() => Err(match status {
                Ok(status) => io::Error::other(format!("it ended early: {status}")),
                Err(error) => error,
            }),
            () = tokio::time::sleep(CONNECT_TIMEOUT) => Err(io::ErrorKind::TimedOut.into()),
        };
        let (reports, mut lifeline) = stream.map_err(failed("connect"))?.into_split();
        let order = encode(order).map_err(failed("take the order"))?;
        lifeline.write_all(&order).await.map_err(failed("take the order"))?;
        let mut reports = BufReader::new(reports).lines();
        let (pid, applied) = match next(&mut reports).await.map_err(failed("report the start"))? {
            Report::Started { pid, applied } => (pid, applied),
            Report::Failed(failure) => return Err(failure.into()),
            Report::Exited(_) => {
                return Err(failed("report the start")(io::Error::other("it reported an end first")));
            }
        };
        Ok(Self { pid, applied, reports, lifeline, launcher: child, exit: None, stdin, stdout, stderr })
    }

    /// The process id on the machine.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What of the kernel's means were in force when the command started.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Waits for the end of the command, and of everything that it started. Safe to call again and to abandon.
    ///
    /// # Errors
    ///
    /// If the launcher was killed from outside, so that nobody knows how the command ended.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = match next(&mut self.reports).await? {
            Report::Exited(ended) => exit(ended)?,
            Report::Started { .. } => return Err(io::Error::other("the launcher reported a second start")),
            Report::Failed(failure) => return Err(io::Error::other(failure.message)),
        };
        self.exit = Some(exit);
        // The launcher is on its way out; it is reaped here or by the runtime.
        let _status = self.launcher.wait().await?;
        Ok(exit)
    }

    /// Sends SIGTERM to the command. Like the first process of any container, it may ignore it.
    ///
    /// # Errors
    ///
    /// If the launcher is gone, and with it the command.
    pub async fn terminate(&mut self) -> io::Result<()> {
        self.lifeline.write_all(&[TERMINATE]).await
    }

    /// Kills the command and everything that it started. [`ContainerProcess::wait`] tells when they are gone.
    pub async fn kill(&mut self) {
        // An error says that the launcher is gone already.
        let _gone = self.lifeline.shutdown().await;
    }
}

/// A socket without a file, whose name nobody can guess.
fn listen() -> io::Result<(String, UnixListener)> {
    let name = format!("kubepermit-{}", uuid::Uuid::new_v4());
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((name, UnixListener::from_std(listener)?))
}

/// Accepts the launcher's connection. Names of such sockets can be listed by anyone on the machine, so whoever else
/// connects is turned away.
async fn accept(listener: &UnixListener, launcher: Option<u32>) -> io::Result<UnixStream> {
    let launcher = launcher.and_then(|pid| i32::try_from(pid).ok());
    loop {
        let (stream, _address) = listener.accept().await?;
        if launcher.is_some() && stream.peer_cred()?.pid() == launcher {
            return Ok(stream);
        }
    }
}

async fn next(reports: &mut Lines<BufReader<OwnedReadHalf>>) -> io::Result<Report> {
    let line = reports.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_str(&line)?)
}

fn exit(ended: Ended) -> io::Result<Exit> {
    match ended {
        Ended { out_of_memory: true, .. } => Ok(Exit::OutOfMemory),
        Ended { code: Some(code), .. } => Ok(Exit::Code(code)),
        Ended { signal: Some(signal), .. } => Ok(Exit::Signal(signal)),
        Ended { .. } => Err(io::Error::other("the launcher reported an end without a status")),
    }
}
