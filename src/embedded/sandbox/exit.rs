//! How a container ended, or why it never began.

use std::io;

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Killed for using more memory than its limit.
    OutOfMemory,
}

impl Exit {
    /// The exit code as container runtimes report it: 128 and the signal's number for a killed container.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::OutOfMemory => 128 + 9,
        }
    }
}

/// Why a container's command never ran.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such program.
    #[error("{0}")]
    NotFound(String),
    /// The program cannot be run.
    #[error("{0}")]
    NotExecutable(String),
    /// The working directory cannot be entered.
    #[error("{0}")]
    WorkingDir(String),
    /// The confinement could not be set up.
    #[error("the container could not be confined: {0}")]
    Setup(String),
    /// The launcher could not be started, or broke off.
    #[error("the container's launcher failed while it should {step}")]
    Launcher {
        /// What it should have done.
        step: &'static str,
        /// What went wrong.
        source: io::Error,
    },
}

impl StartError {
    /// The exit code that a shell and `docker run` give this: 127 for a missing program, 126 for one that cannot be
    /// run, 128 for the rest. Kubernetes reports all of them as 128 with the reason `StartError`.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(_) => 126,
            Self::WorkingDir(_) | Self::Setup(_) | Self::Launcher { .. } => 128,
        }
    }
}
