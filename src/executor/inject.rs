//! Places the input files: a tar stream into the init container that waits for them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::time::{Instant, sleep};

use crate::executor::api::{ApiError, call};
use crate::executor::archive::pack;
use crate::executor::classify::{Ended, Phase, classify, init_exit_code};
use crate::executor::exec::{Command, End};
use crate::executor::outcome::{Reason, Status};
use crate::plan::JobPlan;
use crate::plan::manifest::{INJECT, READY_FILE};

/// How long one look at the pod may take.
const LOOK: Duration = Duration::from_secs(3);

/// How often the stream is tried. Unpacking twice gives the same files.
const ATTEMPTS: u32 = 2;

/// Unpacks the plan's files in the init container of `pod`, and lets the command start.
///
/// # Errors
/// The job's [`Ended`] when the files are not known to be in place.
pub(crate) async fn inject(
    pods: &Api<Pod>,
    pod: &str,
    plan: &JobPlan,
    deadline: Instant,
) -> Result<(), Ended> {
    let failed = |message: String| {
        Ended::error(Reason::InjectFailed, format!("the input files could not be placed: {message}"))
    };
    if plan.files().is_empty() {
        // A Job that was found again: its files were with the process that took the call.
        let text = "they were with a server that has ended; submit the job again";
        return Err(failed(text.to_owned()));
    }
    let mtime = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let archive = pack(plan.files(), mtime).map_err(|error| failed(error.to_string()))?;
    let script = script(READY_FILE);
    let command = Command { pods, pod, container: INJECT, argv: &["sh", "-c", &script, plan.workdir()] };
    let mut message = String::new();
    for attempt in 1..=ATTEMPTS {
        let retry = match command.send(&archive, deadline).await {
            Ok(finished) => {
                message = finished.describe();
                match finished.end {
                    End::Exited(0) => return Ok(()),
                    End::Exited(_) => false,
                    End::Failed(_) | End::Lost => true,
                    End::TimedOut => false,
                }
            }
            Err(error) => {
                message = error.to_string();
                matches!(error, ApiError::Unavailable { .. })
            }
        };
        // The pod knows better: the container ends with success only once everything is unpacked.
        sleep(Duration::from_millis(200)).await;
        if let Ok(pod) = call("read the pod", LOOK, || pods.get(pod)).await {
            if init_exit_code(&pod, INJECT) == Some(0) {
                return Ok(());
            }
            match classify(&pod) {
                Phase::Ended(ended) if ended.status == Status::Error => return Err(ended),
                // The command got its turn, so the files are in place.
                Phase::Running | Phase::Ended(_) => return Ok(()),
                Phase::Starting(_) | Phase::Stuck(_) | Phase::AwaitingFiles => {}
            }
        }
        if !retry || attempt == ATTEMPTS || Instant::now() >= deadline {
            break;
        }
    }
    Err(failed(message))
}

/// What unpacks the stream into the directory `$0` and then says so.
///
/// GNU tar takes the umask off the modes unless it is root's or has -p, BusyBox' one always does: hence the
/// umask. -o: the owner is who unpacks.
fn script(ready: &str) -> String {
    format!("umask 0; tar -xopf - -C \"$0\" && : > {ready}")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use bytes::Bytes;

    use super::script;
    use crate::executor::archive::pack;
    use crate::plan::PlannedFile;

    fn planned(path: &str, mode: u32, content: &str) -> PlannedFile {
        PlannedFile { path: path.to_owned(), mode, content: Bytes::from(content.to_owned()) }
    }

    /// Unpacks as a helper with these programs and a strict umask would, and gives each file's mode.
    fn modes_after(programs: &Path) -> Vec<u32> {
        let files = [
            planned("run.sh", 0o755, "#!/bin/sh\n"),
            planned("deep/er/secret", 0o640, "x"),
            planned("all", 0o777, ""),
        ];
        let place = tempfile::tempdir().unwrap();
        let ready = place.path().join("ready");
        let work = place.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let strict = format!("umask 077; {}", script(ready.to_str().unwrap()));
        let mut shell = Command::new(programs.join("sh"));
        if nix::unistd::geteuid().is_root() {
            // Root's tar keeps the modes by itself; a helper is never root.
            for at in [place.path(), &work] {
                std::os::unix::fs::chown(at, Some(65532), Some(65532)).unwrap();
            }
            shell.uid(65532).gid(65532);
        }
        let mut child = shell
            .args(["-c", &strict, work.to_str().unwrap()])
            .env_clear()
            .env("PATH", programs)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&pack(&files, 0).unwrap().concat()).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(ready.exists());
        let mode = |file: &PlannedFile| {
            std::fs::metadata(work.join(&file.path)).unwrap().permissions().mode() & 0o7777
        };
        files.iter().map(mode).collect()
    }

    #[test]
    fn modes_survive_the_machines_tar() {
        assert_eq!(modes_after(Path::new("/bin")), [0o755, 0o640, 0o777]);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test says why it skips")]
    fn modes_survive_busybox() {
        let Some(busybox) =
            ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from).into_iter().find(|at| at.exists())
        else {
            eprintln!("there is no busybox on this machine");
            return;
        };
        let programs = tempfile::tempdir().unwrap();
        std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for applet in ["sh", "tar"] {
            symlink(&busybox, programs.path().join(applet)).unwrap();
        }
        assert_eq!(modes_after(programs.path()), [0o755, 0o640, 0o777]);
    }
}
