//! What a container's command can do on this machine and what it cannot.
//!
//! Each test runs in both confinements unless it says why not. As root, everything runs once more as an ordinary
//! user. `python3` is needed for sockets, memory and system calls that a shell does not reach.

mod ends;
mod network;
mod reach;
mod runs;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kubepermit::embedded::sandbox::{
    CONTAINER_UID, Confinement, ContainerProcess, ContainerSpec, Exit, Limits, Mount, Sandbox, StartError,
    Streams,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The confinements that this machine allows.
fn allowed() -> &'static [Confinement] {
    match namespaces() {
        true => &[Confinement::Namespaces, Confinement::LandlockOnly],
        false => &[Confinement::LandlockOnly],
    }
}

/// Whether util-linux's `unshare` can do here what the launcher needs. Inside most containers, and where AppArmor
/// keeps user namespaces from ordinary users, it cannot.
fn namespaces() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--mount-proc",
            "true",
        ]);
        if is_root() {
            unshare.uid(CONTAINER_UID).gid(CONTAINER_UID);
        }
        unshare.current_dir("/").output().unwrap().status.success()
    })
}

/// The program that confines.
fn launcher() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_kubepermit"))
}

/// A container with `/work` and `/tmp`, not yet started.
struct Pod {
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    spec: ContainerSpec,
}

async fn pod(confinement: Confinement, argv: &[&str]) -> Pod {
    let sandbox = Sandbox::try_out(launcher(), confinement).await.unwrap();
    let folder = open_folder();
    let mounts = ["work", "tmp"].map(|name| mount(&folder, name, &format!("/{name}"))).to_vec();
    // Without a root of its own, a container finds its folders where they are on the machine.
    let home = match confinement {
        Confinement::Namespaces => PathBuf::from("/tmp"),
        Confinement::LandlockOnly | Confinement::Unconfined => folder.path().join("tmp"),
    };
    let spec = ContainerSpec {
        hostname: "pod-1".into(),
        argv: argv.iter().map(ToString::to_string).collect(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), home.to_str().unwrap().into())],
        working_dir: "/work".into(),
        mounts,
        network: false,
        limits: Limits::default(),
    };
    Pod { sandbox, folder, spec }
}

async fn shell(confinement: Confinement, script: &str) -> Pod {
    pod(confinement, &["sh", "-c", script]).await
}

fn mount(folder: &tempfile::TempDir, name: &str, path: &str) -> Mount {
    let host = folder.path().join(name);
    std::fs::create_dir(&host).unwrap();
    Mount { host, path: path.into(), read_only: false }
}

/// A folder that file permissions let everyone enter, so that only the confinement can keep anyone out.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

impl Pod {
    async fn start(&self) -> ContainerProcess {
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::piped() };
        self.sandbox.start(&self.spec, streams).await.unwrap()
    }

    async fn fail_to_start(&self) -> StartError {
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
        self.sandbox.start(&self.spec, streams).await.unwrap_err()
    }

    /// Runs it to its end: exit, standard output, standard error.
    async fn run(&self) -> (Exit, String, String) {
        let mut process = self.start().await;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        drop(process.stdin.take());
        let (a, b) = tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
        a.and(b).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (process.wait().await.unwrap(), text(out), text(err))
    }
}

#[tokio::test]
async fn the_probe_finds_what_works_and_says_what_it_is() {
    let sandbox = Sandbox::probe(launcher()).await.unwrap();
    assert_eq!(&sandbox.confinement(), allowed().first().unwrap());
    assert!(sandbox.applied().landlock && sandbox.applied().seccomp);
    assert_eq!(sandbox.describe().contains("namespaces"), namespaces());
}

#[tokio::test]
async fn a_probe_without_a_launcher_names_what_was_tried_and_the_way_out() {
    let why = Sandbox::probe(Path::new("/usr/bin/true")).await.unwrap_err().to_string();
    for part in ["namespaces", "Landlock", "--embedded-unconfined"] {
        assert!(why.contains(part), "{why}");
    }
}

fn nothing() -> Streams {
    Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() }
}

/// A number of seconds to sleep that nobody else sleeps.
fn mark() -> String {
    format!("300.{}", uuid::Uuid::new_v4().as_u128() % 1_000_000_000)
}

/// Process ids of command lines with this in them, other than this process's.
fn processes_with(mark: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let mut text = Vec::new();
        let read = std::fs::File::open(format!("/proc/{pid}/cmdline"))
            .and_then(|mut file| file.read_to_end(&mut text));
        read.is_ok() && String::from_utf8_lossy(&text).contains(mark)
    })
    .collect()
}

#[test]
fn all_of_this_holds_for_an_ordinary_user_too() {
    const ORDINARY: u32 = 64999;
    if !is_root() {
        return;
    }
    let run = |program: &Path, arguments: &[&str]| {
        Command::new(program).args(arguments).uid(ORDINARY).gid(ORDINARY).current_dir("/").output()
    };
    let me = std::env::current_exe().unwrap();
    if run(launcher(), &[]).is_err() || run(&me, &["--list"]).is_err() {
        // The build lies in a folder of root's alone.
        return;
    }
    let output = run(&me, &["sandbox::"]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
