//! What the gateway and its launcher say to each other.
//!
//! The gateway listens on an abstract Unix socket with a random name and starts the launcher with that name as an
//! argument. It accepts one connection, and only from the process it has just started. Over it goes one [`Order`];
//! back come [`Report`]s, one JSON text a line. The connection is also the lifeline: its end, for whatever reason,
//! is the order to kill the container.
//!
//! Why not an inherited descriptor: without `unsafe` a child inherits only 0, 1 and 2, and those belong to the
//! container's command. Why not arguments or the environment: `/proc/<pid>/cmdline` is readable by every user.

#![cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has launchers to speak to"))]

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};

use super::{Confinement, ContainerSpec};

/// The first argument that turns the program into a launcher.
pub const HIDDEN_WORD: &str = "__container";
/// The second argument of the process that the gateway starts.
pub const ROLE_SUPERVISE: &str = "supervise";
/// The second argument of the process that turns into the container's command.
pub const ROLE_CONTAINER: &str = "container";
/// The byte that asks the launcher to pass on SIGTERM.
pub const TERMINATE: u8 = b't';

/// No order is longer: the kernel allows about 2 MiB of arguments and environment, JSON may grow that sixfold.
const MAX_ORDER_BYTES: u32 = 16 << 20;

/// One container to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// How much confinement.
    pub confinement: Confinement,
    /// What to run. Without namespaces, the working directory is one of the machine's.
    pub spec: ContainerSpec,
    /// The user and group id seen inside, and the one on the machine when started as root.
    pub uid: u32,
    /// The gateway's process id, which the command must not be able to signal.
    pub gateway: u32,
}

/// What the launcher tells the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The command runs.
    Started {
        /// Its process id on the machine.
        pid: i32,
        /// What confines it.
        applied: Applied,
    },
    /// The command never ran. The last report.
    Failed(Failure),
    /// The command ended. The last report.
    Exited(Ended),
}

/// Which of the kernel's means were in force when the command started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Landlock denies files outside the container's own.
    pub landlock: bool,
    /// Landlock also stops signals and abstract sockets (Linux 6.12).
    pub landlock_scopes: bool,
    /// A seccomp filter is in force.
    pub seccomp: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Whether the launcher killed it for using more memory than it may.
    pub out_of_memory: bool,
}

/// Why a command could not be started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Failure {
    /// The class, for the exit code.
    pub kind: FailureKind,
    /// What happened.
    pub message: String,
}

/// The classes of [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No such program.
    NotFound,
    /// There is a file of that name, but it cannot be run.
    NotExecutable,
    /// The working directory cannot be entered.
    WorkingDir,
    /// The confinement could not be set up.
    Setup,
}

impl Failure {
    /// The confinement could not be set up: which step, and what the kernel said.
    pub fn setup(step: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self { kind: FailureKind::Setup, message: format!("{step}: {error}") }
    }
}

/// Turns an error of one step of the setup into a [`Failure`] that names the step.
pub trait Step<T> {
    /// Names the step.
    fn step(self, step: impl std::fmt::Display) -> Result<T, Failure>;
}

impl<T, E: std::fmt::Display> Step<T> for Result<T, E> {
    fn step(self, step: impl std::fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::setup(step, error))
    }
}

/// An order as it goes over the wire: its length in four bytes, most significant first, then JSON.
pub fn encode(order: &Order) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(order)?;
    let length =
        u32::try_from(json.len()).ok().filter(|length| *length <= MAX_ORDER_BYTES).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "command and environment together are too long")
        })?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(json);
    Ok(bytes)
}

/// Reads what [`encode`] wrote.
pub fn read_order(from: &mut impl Read) -> io::Result<Order> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_ORDER_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the order is too long"));
    }
    let mut json = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Sends one report.
pub fn send_report(mut to: &UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    to.write_all(&line)
}
