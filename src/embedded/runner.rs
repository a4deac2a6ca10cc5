//! Starts one process of a container.
//!
//! This is the seam to the confinement: it turns a [`Launch`] into a running [`Process`].

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// One process, complete: the same for the container's own process and for what is executed in it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments. The program is looked for in `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory inside the container.
    pub workdir: String,
    /// Directories that the container sees.
    pub mounts: Vec<Mount>,
    /// User and group, when the pod names them.
    pub user: Option<(u32, u32)>,
    /// Memory limit in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether the container may write outside its volumes.
    pub read_only_root: bool,
}

/// A host directory at a place inside the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The directory on the host.
    pub host: PathBuf,
    /// Absolute path inside the container.
    pub path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// How a process is confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// Not at all.
    None,
}

/// Where the output of a process goes.
#[derive(Debug)]
pub enum Output {
    /// Standard output and error into one pipe, in the order in which they were written.
    Combined(pipe::Receiver),
    /// Two pipes.
    Separate(ChildStdout, ChildStderr),
}

/// A running process. Dropping it kills it and everything it started.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Option<Pid>,
    /// Its standard input, when one was asked for.
    pub stdin: Option<ChildStdin>,
    /// Its output.
    pub output: Option<Output>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 and the signal's number for a killed process, as container runtimes report it.
    pub code: i32,
    /// Whether it was killed for its memory, as far as that can be known.
    pub out_of_memory: bool,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error("exec: {program:?}: executable file not found in $PATH")]
    NoProgram {
        /// The program's name.
        program: String,
    },
    /// It exists but cannot be started.
    #[error("exec: {program:?}: {source}")]
    Exec {
        /// The program's name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// Pipes or the confinement could not be set up.
    #[error("cannot prepare the process")]
    Prepare(#[source] io::Error),
}

impl Confinement {
    /// Starts a process with its output in one pipe and no input: a container.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_container(&self, launch: &Launch) -> Result<Process, StartError> {
        let (reader, writer) = io::pipe().map_err(StartError::Prepare)?;
        let second = writer.try_clone().map_err(StartError::Prepare)?;
        let stdio = (Stdio::null(), Stdio::from(writer), Stdio::from(second));
        let mut process = self.start(launch, stdio)?;
        let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(StartError::Prepare)?;
        process.output = Some(Output::Combined(reader));
        Ok(process)
    }

    /// Starts a process with its streams in pipes of their own: an exec.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_exec(&self, launch: &Launch, stdin: bool) -> Result<Process, StartError> {
        let input = if stdin { Stdio::piped() } else { Stdio::null() };
        self.start(launch, (input, Stdio::piped(), Stdio::piped()))
    }

    fn start(&self, launch: &Launch, stdio: (Stdio, Stdio, Stdio)) -> Result<Process, StartError> {
        let Self::None = self;
        let argv = launch.with_host_paths();
        let [program, arguments @ ..] = argv.as_slice() else {
            return Err(StartError::NoProgram {
                program: String::new(),
            });
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(launch.env.iter().map(|(k, v)| (k, v)));
        command
            .stdin(stdio.0)
            .stdout(stdio.1)
            .stderr(stdio.2)
            .process_group(0)
            .kill_on_drop(true);
        if let Some(directory) = launch.host_workdir() {
            command.current_dir(directory);
        }
        let mut child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StartError::NoProgram {
                program: program.clone(),
            },
            _ => StartError::Exec {
                program: program.clone(),
                source,
            },
        })?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let output = match (child.stdout.take(), child.stderr.take()) {
            (Some(out), Some(err)) => Some(Output::Separate(out, err)),
            _ => None,
        };
        Ok(Process {
            group,
            stdin: child.stdin.take(),
            output,
            child,
        })
    }
}

impl Launch {
    /// Without confinement nothing can be mounted, so a word that starts with a mounted path gets the
    /// host's path instead. What a shell does inside its own script it does not reach.
    fn with_host_paths(&self) -> Vec<String> {
        self.argv
            .iter()
            .map(|word| self.host_path(word).unwrap_or_else(|| word.clone()))
            .collect()
    }

    fn host_workdir(&self) -> Option<String> {
        self.host_path(&self.workdir)
            .or_else(|| Some(self.workdir.clone()).filter(|d| PathBuf::from(d).is_dir()))
    }

    fn host_path(&self, word: &str) -> Option<String> {
        self.mounts.iter().find_map(|mount| {
            let rest = word.strip_prefix(mount.path.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", mount.host.display()))
        })
    }
}

impl Process {
    /// Asks the process, and what it started, to end.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Ends the process and what it started.
    pub fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Waits for the process' end; what it leaves behind is killed.
    pub async fn wait(&mut self) -> Exit {
        use std::os::unix::process::ExitStatusExt as _;

        let status = self.child.wait().await;
        self.kill();
        // From here on the number may belong to another process.
        self.group = None;
        let code = match status {
            Ok(status) => status
                .code()
                .or_else(|| status.signal().map(|s| s.saturating_add(128))),
            Err(_) => None,
        };
        Exit {
            code: code.unwrap_or(137),
            out_of_memory: false,
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It has ended already when this fails.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
