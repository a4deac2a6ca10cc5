//! Which kubectl this is, and whether it reaches its server: one run of `kubectl version`.

use std::time::Duration;

use serde::Deserialize;

use crate::executor::kubectl::capture::Keep;
use crate::executor::kubectl::failure::{self, ReadFailure};
use crate::executor::kubectl::spawn::{End, Spawn};
use crate::executor::kubectl::{ReadReason, ReadTools};

/// A version is a few hundred bytes of JSON.
const MOST_BYTES: usize = 64 * 1024;

/// A version as Kubernetes writes it (`apimachinery` `version.Info`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::executor) struct Version {
    pub(in crate::executor) major: String,
    pub(in crate::executor) minor: String,
    pub(in crate::executor) git_version: String,
}

/// What came of the run.
#[derive(Debug)]
pub(in crate::executor) struct Versions {
    /// kubectl's own version, or why it is not known.
    pub(in crate::executor) client: Result<Version, ReadFailure>,
    /// The server's version, or why there is no answer of it.
    pub(in crate::executor) server: Result<Version, ReadFailure>,
}

/// What kubectl prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    client_version: Version,
    server_version: Option<Version>,
}

/// Runs `kubectl version` as reads are run: the same environment, the same credentials.
pub(in crate::executor) async fn versions(tools: &ReadTools, deadline: Duration) -> Versions {
    let neither = |failure: ReadFailure| Versions { client: Err(failure.clone()), server: Err(failure) };
    let Some(program) = &tools.program else {
        return neither(ReadFailure::of(ReadReason::NotInstalled));
    };
    let access = match &tools.access {
        Ok(access) => access,
        Err(error) => return neither(failure::no_access(error)),
    };
    let argv = [
        "version".to_owned(),
        format!("--context={}", access.context),
        format!("--request-timeout={}s", (deadline.as_secs() * 2 / 3).max(1)),
        format!("--cache-dir={}", tools.home.cache().display()),
        "--output=json".to_owned(),
    ];
    let spawn = Spawn {
        program,
        argv: &argv,
        kubeconfig: &access.kubeconfig,
        home: &tools.home,
        keep: Keep::Start { list: MOST_BYTES, text: MOST_BYTES },
        deadline,
    };
    let ended = match spawn.run().await {
        Ok(ended) => ended,
        Err(error) => return neither(failure::not_started(program, &error)),
    };
    let failed = match ended.end {
        End::Exited(_) => failure::of_stderr(&ended.stderr.bytes, access.is_nothing),
        End::Killed(signal) => failure::killed(signal),
        End::Deadline => failure::timed_out(deadline),
    };
    // Where the server does not answer, kubectl prints its own version and fails.
    match serde_json::from_slice::<Printed>(&ended.stdout.bytes) {
        Ok(Printed { client_version, server_version }) => {
            Versions { client: Ok(client_version), server: server_version.ok_or(failed) }
        }
        Err(_) => neither(failed),
    }
}
