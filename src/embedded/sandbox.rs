//! Runs one container's command as a confined process of this machine.
//!
//! What confines it depends on what the kernel lets this user do, which [`Sandbox::probe`] finds out by running a
//! command. With user namespaces ([`Confinement::Namespaces`]) the command sees a root of its own: system programs
//! and libraries read-only, a small `/etc`, its own `/proc`, `/dev` and `/tmp`, and the folders it was given, at the
//! paths it was given; no network, unless it is given the machine's; no other process. Without them ([`Confinement::LandlockOnly`]) it sees the
//! machine's paths, of which Landlock opens only system programs, libraries and its own folders, and a seccomp
//! filter takes sockets away.
//!
//! In both it ends with its [`ContainerProcess`], and with the gateway, together with whatever it started.
//!
//! What Landlock leaves open: names and metadata of files elsewhere can be looked at, and a gateway user's own files
//! can have their permissions and times changed, though not their content read or written. As root that comes to
//! nothing, because the command runs as [`CONTAINER_UID`], which owns nothing else. There is also no `/dev/shm`, so
//! no POSIX semaphores, and a command that needs the absolute path of its folder must be told [`Sandbox::host_path`].
//!
//! This is not isolation for hostile code: the kernel is shared and so are the processor and the disk.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
mod access;
#[cfg(target_os = "linux")]
mod container;
mod exit;
#[cfg(target_os = "linux")]
mod filter;
pub mod launcher;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(not(target_os = "linux"))]
mod plain;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod staging;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod sweep;
#[cfg(target_os = "linux")]
mod user;
mod wire;

pub use exit::{Exit, StartError};
#[cfg(not(target_os = "linux"))]
pub use plain::ContainerProcess;
#[cfg(target_os = "linux")]
pub use process::ContainerProcess;
pub use wire::Applied;

/// The user and group that a container's command runs as. The distroless images' `nonroot`.
pub const CONTAINER_UID: u32 = 65532;

/// The longest host name that the kubelet gives a pod.
const HOST_NAME_CHARS: usize = 63;

/// How containers are kept apart from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    /// Namespaces and a root of its own.
    Namespaces,
    /// The machine's file tree behind Landlock, no sockets.
    LandlockOnly,
    /// Limits, a cleared environment and a process group of its own; only ever on request.
    Unconfined,
}

/// Starts containers with the confinement found by [`Sandbox::probe`].
#[derive(Debug, Clone)]
pub struct Sandbox {
    launcher: PathBuf,
    confinement: Confinement,
    applied: Applied,
}

/// One container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// The name that `hostname` shows: the pod's.
    pub hostname: String,
    /// The command and its arguments. A first word without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment; nothing of the gateway's is added.
    pub env: Vec<(String, String)>,
    /// Where the command starts, as a path in the container. Made if it does not exist.
    pub working_dir: PathBuf,
    /// The folders that the container is given.
    pub mounts: Vec<Mount>,
    /// Whether it may connect to where the machine can. It can never be connected to.
    pub network: bool,
    /// Bounds on what it may use.
    pub limits: Limits,
}

/// A folder given to a container, as an `emptyDir` volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The folder on the machine. If it is writable and the gateway runs as root, it is given to
    /// [`CONTAINER_UID`]; what is in it is left as it is. Without namespaces, that user must also be able to pass
    /// through the folders above it.
    pub host: PathBuf,
    /// Where the container sees it: absolute, without `..`.
    pub path: PathBuf,
    /// Whether the container may only read.
    pub read_only: bool,
}

/// Bounds on what one container may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory of all its processes together.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: None, processes: 512, open_files: 4096, file_bytes: 4 << 30 }
    }
}

/// What a container's standard input, output and error are connected to.
///
/// With [`Stdio::piped`] the other end is in the [`ContainerProcess`]. For a combined output give the same file, or
/// two clones of one pipe's writing end, twice.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
}

/// Why no container can be run here.
#[derive(Debug, thiserror::Error)]
#[error(
    "this machine cannot confine the embedded cluster's containers: with namespaces: {namespaces}; with Landlock \
     alone: {landlock}; `--embedded-unconfined` runs them without"
)]
pub struct WhyNot {
    namespaces: String,
    landlock: String,
}

impl Sandbox {
    /// Finds the best confinement that works here, by running `true` in it.
    ///
    /// `launcher` is this program: its `main` must begin with [`launcher::run_if_asked`].
    ///
    /// # Errors
    ///
    /// If neither works, with the reason for each.
    pub async fn probe(launcher: &Path) -> Result<Self, WhyNot> {
        let namespaces = match Self::try_out(launcher, Confinement::Namespaces).await {
            Ok(sandbox) => return Ok(sandbox),
            Err(why) => why,
        };
        let landlock = match Self::try_out(launcher, Confinement::LandlockOnly).await {
            Ok(sandbox) => return Ok(sandbox),
            Err(why) => why,
        };
        Err(WhyNot { namespaces, landlock })
    }

    /// Finds out whether this confinement works here, by running `true` in it.
    ///
    /// # Errors
    ///
    /// If it does not, with the reason.
    pub async fn try_out(launcher: &Path, confinement: Confinement) -> Result<Self, String> {
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .permissions(private)
            .tempdir()
            .map_err(|error| format!("make a folder: {error}"))?;
        let mut sandbox = Self { launcher: launcher.to_owned(), confinement, applied: Applied::default() };
        let spec = ContainerSpec {
            hostname: "probe".to_owned(),
            argv: vec!["true".to_owned()],
            env: Vec::new(),
            working_dir: PathBuf::from("/work"),
            mounts: vec![Mount {
                host: folder.path().to_owned(),
                path: PathBuf::from("/work"),
                read_only: false,
            }],
            network: false,
            limits: Limits::default(),
        };
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
        let mut process = sandbox.start(&spec, streams).await.map_err(|error| with_sources(&error))?;
        let exit = process.wait().await.map_err(|error| with_sources(&error))?;
        if exit.code() != 0 {
            return Err(format!("`true` ended with exit code {}", exit.code()));
        }
        sandbox.applied = process.applied();
        Ok(sandbox)
    }

    /// The confinement in use.
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// What the kernel had in force when the probe ran.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// The group that must be able to walk through the folders above those that a container is given: the
    /// container's, if it goes there by itself and is not of the gateway's own user.
    pub fn passing_group(&self) -> Option<u32> {
        match self.confinement {
            // They are mounted by whoever may enter them.
            Confinement::Namespaces => None,
            Confinement::LandlockOnly | Confinement::Unconfined => {
                nix::unistd::geteuid().is_root().then_some(CONTAINER_UID)
            }
        }
    }

    /// One sentence for the user who starts the gateway.
    pub fn describe(&self) -> &'static str {
        match (self.confinement, self.applied) {
            (Confinement::Namespaces, _) => {
                "containers run as local processes in namespaces of their own, with a private file tree, no network \
                 and no other process in sight; this is not isolation for hostile code"
            }
            (Confinement::LandlockOnly, applied) if applied.landlock_scopes => {
                "containers run as local processes behind Landlock and seccomp, with system programs and their own \
                 folders but no sockets, and without absolute paths such as `/work`; this is not isolation for \
                 hostile code"
            }
            (Confinement::LandlockOnly, _) => {
                "containers run as local processes behind Landlock and seccomp, with system programs and their own \
                 folders but no sockets, and without absolute paths such as `/work`; this kernel, older than Linux \
                 6.12, lets them signal this user's other processes; this is not isolation for hostile code"
            }
            (Confinement::Unconfined, applied) if applied.landlock => {
                "containers run as local processes UNCONFINED but for file access: they can use the network and \
                 reach this user's other processes"
            }
            (Confinement::Unconfined, _) => {
                "containers run as local processes UNCONFINED: they can read, change and send whatever this user can"
            }
        }
    }

    /// Starts a container.
    ///
    /// A second process of a running container, as `kubectl exec` starts, is one more start with the same mounts:
    /// it sees the same folders, not the same processes.
    ///
    /// # Errors
    ///
    /// If the command never ran; the [`StartError`] tells the class.
    pub async fn start(
        &self,
        spec: &ContainerSpec,
        streams: Streams,
    ) -> Result<ContainerProcess, StartError> {
        let order = self.order(spec)?;
        ContainerProcess::start(&self.launcher, &order, streams).await
    }

    /// The machine's path of a path in the container: `None` if no mount holds it.
    ///
    /// Without namespaces, containers see the machine's paths.
    pub fn host_path(mounts: &[Mount], inside: &Path) -> Option<PathBuf> {
        mounts
            .iter()
            .filter_map(|mount| Some((mount, inside.strip_prefix(&mount.path).ok()?)))
            .max_by_key(|(mount, _)| mount.path.components().count())
            .map(|(mount, rest)| mount.host.join(rest))
    }

    fn order(&self, spec: &ContainerSpec) -> Result<wire::Order, StartError> {
        for mount in &spec.mounts {
            check(&mount.path)?;
            if mount.path.parent().is_none() {
                return Err(StartError::Setup("a folder cannot be mounted as the root".to_owned()));
            }
        }
        check(&spec.working_dir)?;
        let working_dir = match self.confinement {
            Confinement::Namespaces => None,
            Confinement::LandlockOnly | Confinement::Unconfined => {
                Self::host_path(&spec.mounts, &spec.working_dir)
            }
        };
        let spec = ContainerSpec {
            hostname: host_name(&spec.hostname),
            working_dir: working_dir.unwrap_or_else(|| spec.working_dir.clone()),
            ..spec.clone()
        };
        let gateway = std::process::id();
        Ok(wire::Order { confinement: self.confinement, spec, uid: CONTAINER_UID, gateway })
    }
}

/// Paths in a container are absolute and lead nowhere else.
fn check(path: &Path) -> Result<(), StartError> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain {
        return Ok(());
    }
    Err(StartError::Setup(format!("`{}` must be absolute and without `..`", path.display())))
}

/// As much of a pod's name as the kernel takes, cut as the kubelet does it.
fn host_name(pod: &str) -> String {
    let cut: String = pod.chars().take(HOST_NAME_CHARS).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// An error with its causes, for a message that keeps no source.
fn with_sources(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
