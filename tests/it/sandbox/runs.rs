//! What a container's command finds when it runs, and its limits.

use super::*;

#[tokio::test]
async fn a_command_runs_in_a_root_of_its_own() {
    if !namespaces() {
        return;
    }
    let pod = shell(Confinement::Namespaces, "echo $$; pwd; id -u; id -un; hostname; exit 3").await;
    let (exit, out, err) = pod.run().await;
    assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Code(3), "1\n/work\n65532\nnonroot\npod-1\n", ""));
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    for &confinement in allowed() {
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
async fn threads_and_processes_work() {
    let script = "import threading, subprocess\n\
         t = threading.Thread(target=lambda: print('thread', flush=True)); t.start(); t.join()\n\
         print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')";
    for &confinement in allowed() {
        let (_, out, err) = pod(confinement, &["python3", "-c", script]).await.run().await;
        assert_eq!((out.as_str(), err.as_str()), ("thread\nchild\n", ""), "{confinement:?}");
    }
    // Needs a /dev/shm of its own.
    let script = "import multiprocessing.pool as p; print(p.Pool(3).map(abs, [-1, -2]))";
    if namespaces() {
        let (_, out, err) = pod(Confinement::Namespaces, &["python3", "-c", script]).await.run().await;
        assert_eq!(out, "[1, 2]\n", "{err}");
    }
}

#[tokio::test]
async fn all_output_arrives_and_one_file_can_take_both_streams() {
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
    if namespaces() {
        // Alone in its user namespace, a container's processes are counted apart from the user's others.
        let mut pod = shell(Confinement::Namespaces, script).await;
        pod.spec.limits.processes = 30;
        let mut process = pod.start().await;
        let mut err = String::new();
        process.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
        assert!(err.contains("Cannot fork"), "{err}");
    }
    for &confinement in allowed() {
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("import socket; socket.create_connection(('127.0.0.1', {port}))");
    let (exit, _, err) = self::pod(Confinement::Unconfined, &["python3", "-c", &script]).await.run().await;
    assert_eq!(exit, Exit::Code(0), "{err}");
}

/// Not a test: prints what a start costs. `cargo test --release --test it -- --ignored --nocapture cost`.
#[tokio::test]
#[ignore = "measures"]
async fn the_cost_of_a_start() {
    for &confinement in allowed() {
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

#[tokio::test]
async fn the_program_and_the_folders_may_lie_where_only_the_gateway_can_go() {
    let private = tempfile::tempdir().unwrap();
    std::fs::set_permissions(private.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let copy = private.path().join("kubepermit");
    std::fs::copy(launcher(), &copy).unwrap();
    for &confinement in allowed() {
        Sandbox::try_out(&copy, confinement).await.unwrap();
    }
    if namespaces() {
        let mut pod = shell(Confinement::Namespaces, "echo hello > file").await;
        pod.spec.mounts = vec![mount(&private, "work", "/work")];
        assert_eq!(pod.run().await, (Exit::Code(0), String::new(), String::new()));
        assert_eq!(std::fs::read_to_string(private.path().join("work/file")).unwrap(), "hello\n");
    }
}

/// A control group counts a file in memory whether it is mapped or not.
#[tokio::test]
async fn files_in_memory_count_too() {
    let hold = "import os, time\n\
                f = os.memfd_create('x')\n\
                for _ in range(SIZE): os.write(f, b'x' * (1 << 20))\n\
                time.sleep(1)";
    let map = "import mmap, os, time\n\
               f = os.memfd_create('x'); os.ftruncate(f, 40 << 20); m = mmap.mmap(f, 40 << 20)\n\
               exec('for _ in range(40): m.write(b\"x\" * (1 << 20))'); time.sleep(1)";
    for &confinement in allowed() {
        let sized = |size: &str| hold.replace("SIZE", size);
        // One that is open and mapped counts once.
        for (script, exit) in
            [(sized("100"), Exit::OutOfMemory), (sized("10"), Exit::Code(0)), (map.to_owned(), Exit::Code(0))]
        {
            let mut pod = pod(confinement, &["python3", "-c", &script]).await;
            pod.spec.limits.memory_bytes = Some(64 << 20);
            let (found, _, err) = pod.run().await;
            assert_eq!(found, exit, "{confinement:?} {script}: {err}");
        }
    }
    if namespaces() {
        let script =
            "head -c 40000000 /dev/zero > /dev/shm/x; head -c 40000000 /dev/zero > /tmp/x; sleep 2; exit 0";
        let mut pod = shell(Confinement::Namespaces, script).await;
        pod.spec.mounts.retain(|mount| mount.path != Path::new("/tmp"));
        pod.spec.limits.memory_bytes = Some(64 << 20);
        assert_eq!(pod.run().await.0, Exit::OutOfMemory);
        // A volume is the disk's, even where the machine keeps it in memory.
        let script = "head -c 80000000 /dev/zero > /tmp/x; sleep 1; exit 0";
        let mut pod = shell(Confinement::Namespaces, script).await;
        pod.spec.limits.memory_bytes = Some(64 << 20);
        assert_eq!(pod.run().await.0, Exit::Code(0));
    }
}
