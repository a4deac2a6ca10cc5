//! What a container sees of the machine, and what it cannot reach.

use super::*;

#[tokio::test]
async fn its_root_holds_programs_libraries_and_its_folders() {
    if !namespaces() {
        return;
    }
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
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
    if namespaces() {
        let (exit, _, err) = pod_touch(Confinement::Namespaces, "/usr").await;
        assert!(exit == Exit::Code(1) && err.contains("Read-only file system"), "{err}");
    }
}

async fn pod_touch(confinement: Confinement, folder: &str) -> (Exit, String, String) {
    // Not `touch` on a name that may exist: setting times is beyond Landlock.
    pod(confinement, &["touch", &format!("{folder}/kubepermit-test-{}", mark())]).await.run().await
}

#[tokio::test]
async fn folders_appear_at_any_absolute_path() {
    if !namespaces() {
        return;
    }
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

/// A mount hides what is below it, and the folders above it are there, as in any container.
#[tokio::test]
async fn folders_appear_inside_system_folders() {
    if !namespaces() {
        return;
    }
    for path in [
        "/lib/x",
        "/bin/x",
        "/usr/bin/x/y",
        "/usr/lib/x",
        "/sbin/x",
        "/etc/ssl/certs/x",
        "/held",
        "/old",
        "/usr/share",
    ] {
        let script = format!("pwd; touch {path}/a && ls {path} && ls /usr/bin/env /lib/os-release; ls -A /");
        let mut pod = shell(Confinement::Namespaces, &script).await;
        pod.spec.mounts.push(mount(&pod.folder, "there", path));
        pod.spec.working_dir = path.into();
        let (_, out, err) = pod.run().await;
        let existing = Path::new(path).ancestors().find(|above| above.exists()).unwrap();
        let real =
            std::fs::canonicalize(existing).unwrap().join(Path::new(path).strip_prefix(existing).unwrap());
        let here = [path.to_owned(), real.display().to_string().trim_end_matches('/').to_owned()];
        let (first, rest) = out.split_once('\n').unwrap_or_default();
        // A shell may show either name of a folder behind a link.
        assert!(here.iter().any(|name| name == first), "{path}: {out}{err}");
        assert!(rest.starts_with("a\n/lib/os-release\n/usr/bin/env\n"), "{path}: {out}{err}");
        assert!(!out.contains("waiting"), "{path}: {out}");
        assert!(pod.folder.path().join("there/a").exists(), "{path}");
        let (exit, _, err) = pod_touch(Confinement::Namespaces, "/usr/bin").await;
        assert_eq!(exit, Exit::Code(1), "{err}");
    }
}

/// A folder for reading is not changed by what is mounted inside.
#[tokio::test]
async fn a_folder_inside_a_read_only_one_leaves_it_as_it_is() {
    if !namespaces() {
        return;
    }
    let mut pod = shell(Confinement::Namespaces, "touch /given/in/a; ls /given; touch /given/b").await;
    let given = Mount { read_only: true, ..mount(&pod.folder, "given", "/given") };
    std::fs::write(given.host.join("file"), "").unwrap();
    // As the gateway's own user is in the container when it is not root.
    std::fs::set_permissions(&given.host, PermissionsExt::from_mode(0o777)).unwrap();
    pod.spec.mounts.push(given);
    pod.spec.mounts.push(mount(&pod.folder, "inside", "/given/in"));
    let (_, out, err) = pod.run().await;
    assert_eq!(out, "file\nin\n", "{err}");
    assert!(err.contains("Read-only file system"), "{err}");
    assert_eq!(std::fs::read_dir(pod.folder.path().join("given")).unwrap().count(), 1);
    assert!(pod.folder.path().join("inside/a").exists());
}

/// As in any container: what a mount hides is gone.
#[tokio::test]
async fn a_folder_over_the_libraries_says_why_nothing_starts() {
    let libraries = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    if !namespaces() || !Path::new(&libraries).exists() {
        return;
    }
    let mut pod = shell(Confinement::Namespaces, "exit 0").await;
    pod.spec.mounts.push(mount(&pod.folder, "there", &libraries));
    match pod.fail_to_start().await {
        StartError::NotFound(why) => assert!(why.contains("is a folder mounted over it?"), "{why}"),
        other => panic!("{other}"),
    }
    let mut pod = shell(Confinement::Namespaces, "exit 0").await;
    pod.spec.mounts.push(mount(&pod.folder, "there", "/usr/bin/env"));
    let why = pod.fail_to_start().await.to_string();
    assert!(why.contains("the embedded cluster cannot mount a folder at `/usr/bin/env`"), "{why}");
}

#[tokio::test]
async fn a_link_in_a_folder_leads_no_mount_out_of_the_root() {
    if !namespaces() {
        return;
    }
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

#[tokio::test]
async fn paths_must_be_absolute_and_plain() {
    for path in ["work", "/work/../etc", ""] {
        let mut pod = shell(Confinement::LandlockOnly, "exit 0").await;
        pod.spec.mounts.push(mount(&pod.folder, "x", path));
        assert!(
            matches!(pod.fail_to_start().await, StartError::Setup(message) if message.contains("absolute"))
        );
    }
}

#[tokio::test]
async fn secrets_are_not_in_any_command_line() {
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
    if line.startswith(("CapPrm", "CapEff", "CapAmb", "NoNewPrivs")): print(line.strip())
"#;
    let me = std::process::id().to_string();
    for &confinement in allowed() {
        // ESRCH where the gateway is out of sight, EPERM where it is out of reach.
        let kill = if confinement == Confinement::Namespaces { 3 } else { 1 };
        let (_, out, err) = pod(confinement, &["python3", "-c", calls, &me]).await.run().await;
        let none = "0000000000000000";
        let expected = format!(
            "unshare 1\nclone 1\nclone3 38\nptrace 1\nio_uring_setup 1\nmount 1\nkeyctl 1\nx32_socket 1\nkill {kill}\n\
             CapPrm:\t{none}\nCapEff:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\n"
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
    for &confinement in allowed() {
        let (_, out, err) = pod(confinement, &["id", "-G"]).await.run().await;
        assert_eq!(out, format!("{CONTAINER_UID}\n"), "{confinement:?}: {err}");
    }
}
