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
    let mtime = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let archive = pack(plan.files(), mtime).map_err(|error| failed(error.to_string()))?;
    // -p: without it a tar that is not root's takes the umask off the modes. -o: the owner is who unpacks.
    let script = format!("tar -xopf - -C \"$0\" && : > {READY_FILE}");
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
