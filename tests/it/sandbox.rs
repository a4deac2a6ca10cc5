//! What a container's command can do on this machine and what it cannot.
//!
//! Each test runs in both confinements unless it says why not. As root, everything runs once more as an ordinary
//! user. `python3` is needed for sockets, memory and system calls that a shell does not reach.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kubepermit::embedded::sandbox::{
    CONTAINER_UID, Confinement, ContainerProcess, ContainerSpec, Exit, Limits, Mount, Sandbox, StartError,
    Streams,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BOTH: [Confinement; 2] = [Confinement::Namespaces, Confinement::LandlockOnly];

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
        (a.unwrap(), b.unwrap());
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (process.wait().await.unwrap(), text(out), text(err))
    }
}

#[tokio::test]
async fn a_command_runs_in_a_root_of_its_own() {
    let pod = shell(Confinement::Namespaces, "echo $$; pwd; id -u; id -un; hostname; exit 3").await;
    let (exit, out, err) = pod.run().await;
    assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Code(3), "1\n/work\n65532\nnonroot\npod-1\n", ""));
}

#[tokio::test]
async fn its_root_holds_programs_libraries_and_its_folders() {
    let script = "ls -A / | grep -v ^lib; ls -A /etc | grep -E 'passwd|shadow|group|ssh|hosts'; ls -A /dev /proc/self/task";
    let (_, out, err) = shell(Confinement::Namespaces, script).await.run().await;
    let root = "bin\ndev\netc\nproc\nsbin\ntmp\nusr\nwork\n";
    let etc = "group\nhosts\npasswd\n";
    let devices = "fd\nfull\nnull\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n";
    assert!(out.starts_with(&format!("{root}{etc}/dev:\n{devices}")), "{out}{err}");
    let processes = "echo /proc/[0-9]*; wc -l < /proc/net/dev; wc -l < /proc/sysvipc/shm";
    let (_, out, err) = shell(Confinement::Namespaces, processes).await.run().await;
    assert!(out.starts_with("/proc/1\n3\n1\n"), "{out}{err}");
}

#[tokio::test]
async fn the_probe_finds_what_works_and_says_what_it_is() {
    let sandbox = Sandbox::probe(launcher()).await.unwrap();
    assert_eq!(sandbox.confinement(), Confinement::Namespaces);
    assert!(sandbox.applied().landlock && sandbox.applied().seccomp);
    assert!(sandbox.describe().contains("namespaces"));
}

#[tokio::test]
async fn a_probe_without_a_launcher_names_what_was_tried_and_the_way_out() {
    let why = Sandbox::probe(Path::new("/usr/bin/true")).await.unwrap_err().to_string();
    for part in ["namespaces", "Landlock", "--embedded-unconfined"] {
        assert!(why.contains(part), "{why}");
    }
}

#[tokio::test]
async fn the_machines_files_are_out_of_sight() {
    let home = open_folder();
    let elsewhere = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(elsewhere.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let secrets = [
        home.path().join(".ssh/id_ed25519"),
        home.path().join(".kube/config"),
        elsewhere.path().join("audit.jsonl"),
    ];
    for secret in &secrets {
        std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
        std::fs::write(secret, "secret").unwrap();
    }
    let mut hidden: Vec<String> = secrets.iter().map(|path| path.display().to_string()).collect();
    let me = std::process::id();
    hidden.extend([
        format!("/proc/{me}/environ"),
        format!("/proc/{me}/cmdline"),
        format!("/proc/{me}/root/etc/passwd"),
    ]);
    hidden.extend(["/etc/shadow", "/etc/fstab", "/root/.bashrc", "/var/log/dpkg.log"].map(String::from));
    for confinement in BOTH {
        for path in &hidden {
            let (exit, out, err) = pod(confinement, &["cat", path]).await.run().await;
            assert!(
                exit == Exit::Code(1) && out.is_empty() && !err.is_empty(),
                "{confinement:?} {path}: {out}{err}"
            );
        }
        for folder in
            ["/root", "/home", "/var", "/run", "/opt", "/srv", "/etc/ssh", &home.path().display().to_string()]
        {
            let (_, out, err) = pod(confinement, &["ls", "-A", folder]).await.run().await;
            assert!(out.is_empty() && !err.is_empty(), "{confinement:?} {folder}: {out}");
        }
    }
}

#[tokio::test]
async fn the_machines_sockets_are_out_of_reach() {
    let folder = open_folder();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = folder.path().join("socket");
    let unix = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    let log = folder.path().join("log");
    let datagrams = UnixDatagram::bind(&log).unwrap();
    std::fs::set_permissions(&log, PermissionsExt::from_mode(0o777)).unwrap();
    let name = format!("kubepermit-test-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = format!(
        r#"
import socket as s
def attempt(name, do):
    try: do(); print("REACHED", name)
    except OSError as error: print(name, error.errno)
attempt("tcp", lambda: s.create_connection(("127.0.0.1", {tcp})))
attempt("udp", lambda: s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {udp})))
attempt("raw", lambda: s.socket(s.AF_NETLINK, s.SOCK_RAW))
attempt("vsock", lambda: s.socket(s.AF_VSOCK, s.SOCK_STREAM))
attempt("unix", lambda: s.socket(s.AF_UNIX).connect("{path}"))
attempt("abstract", lambda: s.socket(s.AF_UNIX).connect("\0{name}"))
attempt("pair", lambda: s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)[0].sendto(b"x", "{log}"))
a, b = s.socketpair(); a.send(b"own"); print(b.recv(3).decode())
"#,
        tcp = tcp.local_addr().unwrap().port(),
        udp = udp.local_addr().unwrap().port(),
        path = path.display(),
        log = log.display(),
    );
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    unix.set_nonblocking(true).unwrap();
    hidden.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    for confinement in BOTH {
        let (exit, out, err) = pod(confinement, &["python3", "-c", &script]).await.run().await;
        assert_eq!(exit, Exit::Code(0), "{out}{err}");
        assert!(
            !out.contains("REACHED") && out.lines().count() == 8 && out.ends_with("own\n"),
            "{confinement:?}: {out}"
        );
        let mut byte = [0];
        assert!(tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err());
        assert!(udp.recv(&mut byte).is_err() && datagrams.recv(&mut byte).is_err());
    }
}

#[tokio::test]
async fn its_own_folders_are_writable_and_nothing_else_is() {
    for confinement in BOTH {
        let script =
            "echo hello > file && mkdir -p a/b && mv file a/b/ && echo x > $HOME/x && cat a/b/file $HOME/x";
        let pod = shell(confinement, script).await;
        assert_eq!(pod.run().await, (Exit::Code(0), "hello\nx\n".into(), String::new()), "{confinement:?}");
        let file = pod.folder.path().join("work/a/b/file");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello\n");
        if is_root() {
            assert_eq!(file.metadata().unwrap().uid(), CONTAINER_UID);
        }
        for folder in
            ["/", "/usr", "/usr/bin", "/usr/local/bin", "/etc", "/etc/ssl/certs", "/dev", "/var/tmp"]
        {
            let (exit, _, err) = pod_touch(confinement, folder).await;
            assert_eq!(exit, Exit::Code(1), "{confinement:?} {folder}: {err}");
        }
    }
    let (exit, _, err) = pod_touch(Confinement::Namespaces, "/usr").await;
    assert!(exit == Exit::Code(1) && err.contains("Read-only file system"), "{err}");
}

async fn pod_touch(confinement: Confinement, folder: &str) -> (Exit, String, String) {
    // Not `touch` on a name that may exist: setting times is beyond Landlock.
    pod(confinement, &["touch", &format!("{folder}/kubepermit-test-{}", mark())]).await.run().await
}

#[tokio::test]
async fn folders_appear_at_any_absolute_path() {
    let mut pod = shell(
        Confinement::Namespaces,
        "pwd; touch /srv/data/a /usr/src/app/b /work/in/c; touch /kubepermit/d; ls /usr/src/app /kubepermit; \
         ls /usr/bin/env /usr/src/kubepermit-test",
    )
    .await;
    for (name, path) in
        [("data", "/srv/data"), ("app", "/usr/src/app"), ("in", "/work/in"), ("ro", "/kubepermit")]
    {
        pod.spec.mounts.push(mount(&pod.folder, name, path));
    }
    pod.spec.mounts.last_mut().unwrap().read_only = true;
    std::fs::write(pod.folder.path().join("ro/given"), "").unwrap();
    pod.spec.working_dir = "/usr/src/app".into();
    let (_, out, err) = pod.run().await;
    assert_eq!(out, "/usr/src/app\n/kubepermit:\ngiven\n\n/usr/src/app:\nb\n/usr/bin/env\n");
    assert!(err.contains("'/kubepermit/d': Read-only file system"), "{err}");
    for file in ["data/a", "app/b", "in/c"] {
        assert!(pod.folder.path().join(file).exists(), "{file}");
    }
    assert!(!Path::new("/usr/src/app").exists());
}

#[tokio::test]
async fn a_link_in_a_folder_leads_no_mount_out_of_the_root() {
    let mut pod = shell(Confinement::Namespaces, "exit 0").await;
    let outside = open_folder();
    std::fs::set_permissions(outside.path(), PermissionsExt::from_mode(0o777)).unwrap();
    for (index, root) in ["", "/old", "/held", "/proc/1/root"].iter().enumerate() {
        let link = pod.folder.path().join(format!("work/link{index}"));
        std::os::unix::fs::symlink(format!("{root}{}", outside.path().display()), link).unwrap();
        pod.spec.mounts.push(mount(&pod.folder, &format!("m{index}"), &format!("/work/link{index}/made")));
        let _either_way = pod.sandbox.start(&pod.spec, nothing()).await;
        pod.spec.mounts.pop();
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

fn nothing() -> Streams {
    Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() }
}

#[tokio::test]
async fn paths_must_be_absolute_and_plain() {
    for path in ["work", "/work/../etc", ""] {
        let mut pod = shell(Confinement::Namespaces, "exit 0").await;
        pod.spec.mounts.push(mount(&pod.folder, "x", path));
        assert!(
            matches!(pod.fail_to_start().await, StartError::Setup(message) if message.contains("absolute"))
        );
    }
}

#[tokio::test]
async fn exit_codes_are_a_container_runtimes() {
    for confinement in BOTH {
        for (script, exit, code) in [
            ("exit 0", Exit::Code(0), 0),
            ("exit 3", Exit::Code(3), 3),
            ("exit 255", Exit::Code(255), 255),
            ("sh -c 'kill -9 $$'", Exit::Code(137), 137),
        ] {
            // The shell is kept from making its last command its own process.
            let (found, _, err) = shell(confinement, &format!("{script}; exit $?")).await.run().await;
            assert_eq!((found, found.code()), (exit, code), "{confinement:?} {script}: {err}");
        }
        let mut process = shell(confinement, "sleep 300").await.start().await;
        process.kill().await;
        let exit = tokio::time::timeout(Duration::from_secs(10), process.wait()).await.unwrap().unwrap();
        assert_eq!(
            (exit, exit.code(), process.wait().await.unwrap()),
            (Exit::Signal(9), 137, Exit::Signal(9))
        );
    }
    // The first process of a PID namespace gets only signals that it handles, as in any container.
    let mut process = shell(Confinement::LandlockOnly, "kill -TERM $$; sleep 9").await.start().await;
    assert_eq!(process.wait().await.unwrap().code(), 143);
}

#[tokio::test]
async fn a_request_to_end_can_be_handled() {
    for confinement in BOTH {
        let pod = shell(confinement, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done").await;
        let mut process = pod.start().await;
        process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
        process.terminate().await.unwrap();
        assert_eq!(process.wait().await.unwrap(), Exit::Code(5), "{confinement:?}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_is_told_from_one_that_failed() {
    for confinement in BOTH {
        let mut pod = shell(confinement, "").await;
        let script = pod.folder.path().join("work/script");
        std::fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
        for (argv, mode, code) in [
            (vec!["kubepermit-no-such-program"], 0o755, 127),
            (vec!["/usr/bin/kubepermit-no-such-program"], 0o755, 127),
            (vec!["./script"], 0o644, 126),
            (vec!["./script"], 0o755, 127),
            (vec!["/usr/bin"], 0o755, 126),
            (vec![], 0o755, 127),
        ] {
            std::fs::set_permissions(&script, PermissionsExt::from_mode(mode)).unwrap();
            pod.spec.argv = argv.iter().map(ToString::to_string).collect();
            let error = pod.fail_to_start().await;
            assert_eq!(error.exit_code(), code, "{confinement:?} {argv:?}: {error}");
        }
    }
    let mut pod = shell(Confinement::LandlockOnly, "exit 0").await;
    pod.spec.working_dir = "/work/no/such".into();
    let error = pod.fail_to_start().await;
    assert!(matches!(error, StartError::WorkingDir(_)) && error.exit_code() == 128, "{error}");
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    for confinement in BOTH {
        let mut pod = pod(confinement, &["/usr/bin/env"]).await;
        pod.spec.env =
            [("B", "2 words"), ("A", "line\nbreak"), ("EMPTY", "")].map(|(k, v)| (k.into(), v.into())).into();
        let (exit, out, _) = pod.run().await;
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            (exit, lines),
            (Exit::Code(0), vec!["A=line", "B=2 words", "EMPTY=", "break"]),
            "{confinement:?}"
        );
    }
}

#[tokio::test]
async fn secrets_are_not_in_any_command_line() {
    for confinement in BOTH {
        let mut pod = shell(confinement, "echo ready; sleep 300; exit").await;
        let secret = format!("secret-{}", uuid::Uuid::new_v4());
        pod.spec.env.push(("TOKEN".into(), secret.clone()));
        let mut process = pod.start().await;
        process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
        assert_eq!(processes_with(&secret), Vec::<i32>::new());
        assert!(Path::new(&format!("/proc/{}", process.pid())).exists());
    }
}

#[tokio::test]
async fn only_the_three_streams_are_open() {
    // As a shell or a service manager may leave one to the gateway.
    let left_open = std::fs::File::open("/etc/passwd").unwrap();
    fcntl(&left_open, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    for confinement in BOTH {
        // The fourth is the open directory itself.
        let (_, out, err) = pod(confinement, &["ls", "/proc/self/fd"]).await.run().await;
        assert_eq!((out.as_str(), err.as_str()), ("0\n1\n2\n3\n", ""), "{confinement:?}");
    }
}

/// Numbers of x86-64.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn rights_and_dangerous_calls_are_gone() {
    let calls = r#"
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
gateway = int(sys.argv[1])
def call(name, *arguments):
    print(name, "DONE" if libc.syscall(*arguments) >= 0 else ctypes.get_errno())
call("unshare", 272, 0x10000000)
call("clone", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("ptrace", 101, 16, gateway, 0, 0)
call("io_uring_setup", 425, 1, 0)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
call("keyctl", 250, 0, -3, 0)
call("x32_socket", 0x40000000 | 41, 2, 1, 0)
call("kill", 62, gateway, 0)
for line in open("/proc/self/status"):
    if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs")): print(line.strip())
"#;
    let me = std::process::id().to_string();
    for (confinement, kill) in [(Confinement::Namespaces, 3), (Confinement::LandlockOnly, 1)] {
        let (_, out, err) = pod(confinement, &["python3", "-c", calls, &me]).await.run().await;
        let none = "0000000000000000";
        let expected = format!(
            "unshare 1\nclone 1\nclone3 38\nptrace 1\nio_uring_setup 1\nmount 1\nkeyctl 1\nx32_socket 1\nkill {kill}\n\
             CapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\n"
        );
        assert_eq!(out, expected, "{confinement:?}: {err}");
    }
}

#[tokio::test]
async fn roots_groups_are_left() {
    // Only root can leave a group.
    if !is_root() {
        return;
    }
    nix::unistd::setgroups(&[nix::unistd::Gid::from_raw(4)]).unwrap();
    for confinement in BOTH {
        let (_, out, err) = pod(confinement, &["id", "-G"]).await.run().await;
        assert_eq!(out, format!("{CONTAINER_UID}\n"), "{confinement:?}: {err}");
    }
}

#[tokio::test]
async fn threads_and_processes_work() {
    let script = "import threading, subprocess\n\
         t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n\
         print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')";
    for confinement in BOTH {
        let (_, out, err) = pod(confinement, &["python3", "-c", script]).await.run().await;
        assert_eq!((out.as_str(), err.as_str()), ("thread\nchild\n", ""), "{confinement:?}");
    }
    // Needs a /dev/shm of its own.
    let script = "import multiprocessing.pool as p; print(p.Pool(3).map(abs, [-1, -2]))";
    let (_, out, err) = pod(Confinement::Namespaces, &["python3", "-c", script]).await.run().await;
    assert_eq!(out, "[1, 2]\n", "{err}");
}

/// A script that leaves processes behind in every way there is, each with the mark in its command line.
fn strays(mark: &str) -> String {
    format!(
        "sleep {mark} & setsid sleep {mark} & (setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; :' &) ; \
         (sleep {mark} &) ; echo ready"
    )
}

/// A number of seconds to sleep that nobody else sleeps.
fn mark() -> String {
    format!("300.{}", uuid::Uuid::new_v4().as_u128() % 1_000_000_000)
}

#[tokio::test]
async fn nothing_outlives_the_command() {
    for confinement in BOTH {
        let mark = mark();
        let (exit, _, _) = run_detached(confinement, &format!("{}; sleep 0.1; exit 4", strays(&mark))).await;
        assert_eq!((exit, processes_with(&mark)), (Exit::Code(4), vec![]), "{confinement:?}");
    }
}

/// Strays keep the output open, so it goes nowhere.
async fn run_detached(confinement: Confinement, script: &str) -> (Exit, String, String) {
    let pod = shell(confinement, script).await;
    let mut process = pod.sandbox.start(&pod.spec, nothing()).await.unwrap();
    (process.wait().await.unwrap(), String::new(), String::new())
}

#[tokio::test]
async fn nothing_outlives_a_kill_or_the_handle() {
    for confinement in BOTH {
        for dropped in [false, true] {
            let mark = mark();
            let pod = shell(confinement, &format!("{}; sleep {mark}; :", strays(&mark))).await;
            let mut process = pod.start().await;
            process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
            until(|| processes_with(&mark).len() >= 5).await;
            if dropped {
                drop(process);
                until(|| processes_with(&mark).is_empty()).await;
            } else {
                process.kill().await;
                let exit = tokio::time::timeout(Duration::from_secs(10), process.wait()).await.unwrap();
                assert_eq!(exit.unwrap(), Exit::Signal(9));
                assert_eq!(processes_with(&mark), Vec::<i32>::new(), "{confinement:?}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_outlives_a_killed_gateway() {
    // The killed process cannot clear its folders up.
    let folders = open_folder();
    let mut gateway = Command::new(std::env::current_exe().unwrap())
        .env("TMPDIR", folders.path())
        .args(["--ignored", "--exact", "--nocapture", "sandbox::a_gateway_that_waits"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut marks = Vec::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(gateway.stdout.as_mut().unwrap())) {
        marks.extend(line.unwrap().split_once("mark ").map(|(_, mark)| mark.to_owned()));
        if marks.len() == BOTH.len() {
            break;
        }
    }
    for mark in &marks {
        until(|| processes_with(mark).len() >= 5).await;
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    for mark in &marks {
        until(|| processes_with(mark).is_empty()).await;
    }
    assert_eq!(marks.len(), BOTH.len());
}

#[tokio::test]
#[ignore = "the process that nothing_outlives_a_killed_gateway kills"]
async fn a_gateway_that_waits() {
    let mut kept = Vec::new();
    for confinement in BOTH {
        let mark = mark();
        let pod = shell(confinement, &format!("{}; sleep {mark}; :", strays(&mark))).await;
        kept.push((pod.start().await, pod));
        writeln!(std::io::stdout(), "\nmark {mark}").unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
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

async fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never came to be");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn all_output_arrives_and_one_file_can_take_both_streams() {
    for confinement in BOTH {
        let (exit, out, _) = shell(confinement, "head -c 10485760 /dev/zero").await.run().await;
        assert_eq!((exit, out.len()), (Exit::Code(0), 10 << 20), "{confinement:?}");
        let pod = shell(confinement, "echo out; echo err >&2; echo out").await;
        let log = pod.folder.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let streams =
            Streams { stdin: Stdio::null(), stdout: file.try_clone().unwrap().into(), stderr: file.into() };
        pod.sandbox.start(&pod.spec, streams).await.unwrap().wait().await.unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "out\nerr\nout\n", "{confinement:?}");
    }
}

#[tokio::test]
async fn a_second_process_in_the_same_folders_takes_a_tar_stream() {
    for confinement in BOTH {
        let mut pod = shell(confinement, "while ! [ -e a/file ]; do sleep 0.02; done; cat a/file").await;
        let mut first = pod.start().await;
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o644);
        builder.append_data(&mut header, "a/file", &b"hello"[..]).unwrap();
        pod.spec.argv = ["tar", "-xf", "-"].map(String::from).into();
        let mut second = pod.start().await;
        let mut stdin = second.stdin.take().unwrap();
        stdin.write_all(&builder.into_inner().unwrap()).await.unwrap();
        drop(stdin);
        assert_eq!(second.wait().await.unwrap(), Exit::Code(0));
        assert_eq!(first.wait().await.unwrap(), Exit::Code(0));
        let mut out = String::new();
        first.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
        assert_eq!(out, "hello", "{confinement:?}");
    }
}

#[tokio::test]
async fn memory_is_counted_over_all_processes() {
    let grow = |mebibytes: u32| {
        format!("x = bytearray({mebibytes} << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\n")
    };
    let one = grow(200);
    let many = format!(
        "import os, time\nfor _ in range(4):\n  if os.fork() == 0: break\n{}time.sleep(30)",
        grow(40)
    );
    let shared =
        format!("{}import os\npids = [os.fork() for _ in range(3)]\nimport time; time.sleep(0.3)", grow(70));
    for confinement in BOTH {
        for (script, exit) in
            [(&one, Exit::OutOfMemory), (&many, Exit::OutOfMemory), (&shared, Exit::Code(0))]
        {
            let mut pod = pod(confinement, &["python3", "-c", script]).await;
            pod.spec.limits.memory_bytes = Some(128 << 20);
            let mut process = pod.sandbox.start(&pod.spec, nothing()).await.unwrap();
            assert_eq!(process.wait().await.unwrap(), exit, "{confinement:?} {script}");
        }
    }
    assert_eq!(Exit::OutOfMemory.code(), 137);
}

#[tokio::test]
async fn limits_hold() {
    let script = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done; exit 0";
    // Alone in its user namespace, a container's processes are counted apart from the user's others.
    let mut processes = shell(Confinement::Namespaces, script).await;
    processes.spec.limits.processes = 30;
    let mut process = processes.start().await;
    let mut err = String::new();
    process.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
    assert!(err.contains("Cannot fork"), "{err}");
    for confinement in BOTH {
        let mut pod =
            shell(confinement, "ulimit -c; ulimit -n; ulimit -f; ulimit -Hn; head -c 3000 /dev/zero > f")
                .await;
        pod.spec.limits = Limits { open_files: 77, file_bytes: 1024, ..Limits::default() };
        let (exit, out, _) = pod.run().await;
        assert_eq!((exit, out.as_str()), (Exit::Code(153), "0\n77\n2\n77\n"), "{confinement:?}");
        assert_eq!(pod.folder.path().join("work/f").metadata().unwrap().len(), 1024);
    }
}

#[tokio::test]
async fn unconfined_is_only_a_cleared_environment_and_limits() {
    let pod = shell(Confinement::Unconfined, "pwd; env | sort | head -1; exit 3").await;
    let (exit, out, _) = pod.run().await;
    let work = pod.folder.path().join("work");
    assert_eq!((exit, out), (Exit::Code(3), format!("{0}\nHOME={1}\n", work.display(), pod.spec.env[1].1)));
    assert!(!pod.sandbox.applied().seccomp && pod.sandbox.describe().contains("UNCONFINED"));
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

/// Not a test: prints what a start costs. `cargo test --release --test it -- --ignored --nocapture cost`.
#[tokio::test]
#[ignore = "measures"]
async fn the_cost_of_a_start() {
    for confinement in BOTH {
        let pod = pod(confinement, &["true"]).await;
        let (mut starts, mut runs) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            let begin = Instant::now();
            let mut process = pod.sandbox.start(&pod.spec, nothing()).await.unwrap();
            starts.push(begin.elapsed());
            process.wait().await.unwrap();
            runs.push(begin.elapsed());
        }
        starts.sort();
        runs.sort();
        writeln!(
            std::io::stdout(),
            "{confinement:?}: median start {:?}, to the end {:?}",
            starts[25],
            runs[25]
        )
        .unwrap();
    }
}
