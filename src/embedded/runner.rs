//! Turns a container's process, as the kubelet knows it, into one of the [sandbox](super::sandbox).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::net::unix::pipe;

use super::sandbox::{
    Confinement, ContainerProcess, ContainerSpec, Limits, Mount, Sandbox, StartError, Streams,
};

/// One process, complete: the same for the container's own process and for what is executed in it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The name that `hostname` shows.
    pub hostname: String,
    /// Program and arguments. The program is looked for in `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory inside the container.
    pub workdir: String,
    /// Directories that the container sees.
    pub mounts: Vec<Mount>,
    /// Whether it may use the machine's network.
    pub network: bool,
    /// Memory limit in bytes.
    pub memory_bytes: Option<u64>,
}

/// Where an image's own commands are inside the container.
pub const LINKS: &str = "/usr/local/bin";

/// Starts a process with its output in one pipe, in the order in which it was written, and no input: a container.
///
/// # Errors
/// When it cannot be started.
pub async fn start_container(
    sandbox: &Sandbox,
    launch: &Launch,
) -> Result<(ContainerProcess, pipe::Receiver), StartError> {
    let failed = |source| StartError::Launcher { step: "get its pipes", source };
    let (reader, writer) = io::pipe().map_err(failed)?;
    let second = writer.try_clone().map_err(failed)?;
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).map_err(failed)?;
    let streams = Streams { stdin: Stdio::null(), stdout: writer.into(), stderr: second.into() };
    Ok((sandbox.start(&spec(sandbox, launch), streams).await?, reader))
}

/// Starts a process with its streams in pipes of their own: an exec.
///
/// # Errors
/// When it cannot be started.
pub async fn start_exec(
    sandbox: &Sandbox,
    launch: &Launch,
    stdin: bool,
) -> Result<ContainerProcess, StartError> {
    let input = if stdin { Stdio::piped() } else { Stdio::null() };
    let streams = Streams { stdin: input, stdout: Stdio::piped(), stderr: Stdio::piped() };
    sandbox.start(&spec(sandbox, launch), streams).await
}

fn spec(sandbox: &Sandbox, launch: &Launch) -> ContainerSpec {
    let (argv, env) = match sandbox.confinement() {
        Confinement::Namespaces => (launch.argv.clone(), launch.env.clone()),
        Confinement::LandlockOnly | Confinement::Unconfined => (host_argv(launch), host_env(launch)),
    };
    ContainerSpec {
        hostname: launch.hostname.clone(),
        argv,
        env,
        working_dir: PathBuf::from(&launch.workdir),
        mounts: launch.mounts.clone(),
        network: launch.network,
        limits: Limits { memory_bytes: launch.memory_bytes, ..Limits::default() },
    }
}

/// Without a file tree of its own a container sees no mounts, so a word that names a path in one gets the
/// machine's path instead. What a shell does inside its own script this does not reach.
fn host_argv(launch: &Launch) -> Vec<String> {
    let on_host = |word: &String| {
        let inside = Path::new(word);
        let path = inside.is_absolute().then(|| Sandbox::host_path(&launch.mounts, inside)).flatten();
        path.map_or_else(|| word.clone(), |path| path.display().to_string())
    };
    launch.argv.iter().map(on_host).collect()
}

fn host_env(launch: &Launch) -> Vec<(String, String)> {
    let links = launch.mounts.iter().find(|mount| mount.path == Path::new(LINKS));
    let with_links = |(name, value): &(String, String)| match links {
        Some(mount) if name == "PATH" => (name.clone(), format!("{}:{value}", mount.host.display())),
        _ => (name.clone(), value.clone()),
    };
    launch.env.iter().map(with_links).collect()
}
