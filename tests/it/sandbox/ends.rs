//! How a container ends, that it ends whole, and how it fails to start.

use super::*;

#[tokio::test]
async fn exit_codes_are_a_container_runtimes() {
    for &confinement in allowed() {
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
    for &confinement in allowed() {
        let pod = shell(confinement, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done").await;
        let mut process = pod.start().await;
        process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
        process.terminate().await.unwrap();
        assert_eq!(process.wait().await.unwrap(), Exit::Code(5), "{confinement:?}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_is_told_from_one_that_failed() {
    for &confinement in allowed() {
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

/// A script that leaves processes behind in every way there is, each with the mark in its command line.
fn strays(mark: &str) -> String {
    format!(
        "sleep {mark} & setsid sleep {mark} & (setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; :' &) ; \
         (sleep {mark} &) ; echo ready"
    )
}

#[tokio::test]
async fn nothing_outlives_the_command() {
    for &confinement in allowed() {
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
    for &confinement in allowed() {
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
async fn nothing_outlives_a_killed_launcher() {
    if !namespaces() {
        return;
    }
    let mark = mark();
    let pod = shell(Confinement::Namespaces, &format!("{}; sleep {mark}; :", strays(&mark))).await;
    let mut process = pod.start().await;
    process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    let launcher = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(launcher), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(process.wait().await.is_err());
    until(|| processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn nothing_outlives_a_killed_gateway() {
    // The killed process cannot clear its folders up.
    let folders = open_folder();
    let mut gateway = Command::new(std::env::current_exe().unwrap())
        .env("TMPDIR", folders.path())
        .args(["--ignored", "--exact", "--nocapture", "sandbox::ends::a_gateway_that_waits"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut marks = Vec::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(gateway.stdout.as_mut().unwrap())) {
        marks.extend(line.unwrap().split_once("mark ").map(|(_, mark)| mark.to_owned()));
        if marks.len() == allowed().len() {
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
    assert_eq!(marks.len(), allowed().len());
}

#[tokio::test]
#[ignore = "the process that nothing_outlives_a_killed_gateway kills"]
async fn a_gateway_that_waits() {
    let mut kept = Vec::new();
    for &confinement in allowed() {
        let mark = mark();
        let pod = shell(confinement, &format!("{}; sleep {mark}; :", strays(&mark))).await;
        kept.push((pod.start().await, pod));
        writeln!(std::io::stdout(), "\nmark {mark}").unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

async fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never came to be");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_fork_bomb_is_bounded_and_ends() {
    for &confinement in allowed() {
        let mark = mark();
        let script = format!("bomb() {{ bomb | bomb & }}; bomb; echo ready; sleep {mark}; :");
        let mut pod = shell(confinement, &script).await;
        pod.spec.limits.processes = 60;
        let mut process = pod.start().await;
        process.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        process.kill().await;
        let exit = tokio::time::timeout(Duration::from_secs(10), process.wait()).await.unwrap();
        // It may have ended by itself: the shell gives up when it cannot fork.
        exit.unwrap();
        assert_eq!(processes_with(&mark), Vec::<i32>::new(), "{confinement:?}");
    }
}
