//! Why a read gave nothing: a stable code, one sentence, and what to do.
//!
//! kubectl tells its cause in prose, and its exit code is 1 for nearly everything. The prose is looked at here,
//! in one table; what goes on to the caller is at most one sentence of the API server's own, cleaned, short and
//! without credentials. The rest of standard error stays here.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::executor::kubectl::kubeconfig::AccessError;
use crate::executor::text::shortened;
use crate::output;

/// A failed read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFailure {
    /// The class.
    pub reason: ReadReason,
    /// What is wrong, for a reader.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The classes of failed reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadReason {
    /// The machine has no kubectl.
    NotInstalled,
    /// kubectl could not be started.
    NotStarted,
    /// There is no kubeconfig to use, or it had better not be used.
    Kubeconfig,
    /// The kubeconfig has no such context.
    Context,
    /// The program that makes the credentials cannot run.
    CredentialPlugin,
    /// Too many reads run.
    Busy,
    /// The caller took the call back.
    Cancelled,
    /// It took too long.
    Timeout,
    /// kubectl was killed from outside.
    Killed,
    /// kubectl does not know a flag that it was given.
    TooOld,
    /// The API server cannot be reached.
    Unreachable,
    /// The API server's certificate is not trusted.
    Untrusted,
    /// The API server does not accept the credentials.
    Unauthorized,
    /// The credentials may not read this.
    Forbidden,
    /// There is no such object.
    NotFound,
    /// The cluster has no such kind.
    NoSuchKind,
    /// The container has not restarted, so it has no previous logs.
    NoPrevious,
    /// The pod has several containers.
    ChooseContainer,
    /// The pod has no such container.
    NoSuchContainer,
    /// The container has not begun, so it has no logs.
    NotRunning,
    /// The API server has too much to do.
    ServerBusy,
    /// The API server says no for another reason.
    Server,
    /// The list is too large to be held.
    TooLarge,
    /// Something else.
    Other,
}

impl ReadReason {
    /// The name on the wire and in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.about().0
    }

    /// The code, what is wrong, and what to do.
    fn about(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::NotInstalled => (
                "kubectl.not_installed",
                "the gateway's machine has no kubectl, so nothing can be read",
                "the operator has to install kubectl, or name it with KUBEPERMIT_KUBECTL or --kubectl",
            ),
            Self::NotStarted => (
                "kubectl.not_started",
                "kubectl could not be started",
                "the operator has to look at the program that KUBEPERMIT_KUBECTL, --kubectl or the PATH names",
            ),
            Self::Kubeconfig => (
                "kubectl.kubeconfig",
                "reads have no kubeconfig that may be used",
                "the operator has to mend it, or name another with KUBEPERMIT_READ_KUBECONFIG or --read-kubeconfig",
            ),
            Self::Context => (
                "kubectl.context",
                "the kubeconfig has no such context",
                "the operator has to name one of its contexts with KUBEPERMIT_CONTEXT or --context",
            ),
            Self::CredentialPlugin => (
                "kubectl.credential_plugin",
                "the program that the kubeconfig names for its credentials cannot run",
                "the operator has to name it by its absolute path, with the variables that it needs in the \
                 kubeconfig's own `env`: reads run without a PATH and with an empty HOME",
            ),
            Self::Busy => (
                "kubectl.busy",
                "too many reads are running",
                "call again in a few seconds, with fewer calls at once",
            ),
            Self::Cancelled => ("kubectl.cancelled", "the call was cancelled", ""),
            Self::Timeout => (
                "kubectl.timeout",
                "the read took too long and was ended",
                "ask for less (a namespace, a selector, fewer tail_lines), or call again",
            ),
            Self::Killed => (
                "kubectl.killed",
                "kubectl was ended from outside",
                "call again, for less at once: it may be the machine's memory",
            ),
            Self::TooOld => (
                "kubectl.too_old",
                "the gateway's kubectl does not know a flag that this read needs",
                "the operator has to install a newer kubectl",
            ),
            Self::Unreachable => (
                "kubectl.unreachable",
                "the cluster's API server cannot be reached",
                "call again later; if it stays so, the operator has to look at the kubeconfig's server",
            ),
            Self::Untrusted => (
                "kubectl.untrusted",
                "the API server's certificate is not one that the kubeconfig trusts",
                "the operator has to give the kubeconfig the cluster's certificate authority",
            ),
            Self::Unauthorized => (
                "kubectl.unauthorized",
                "the API server does not accept the gateway's credentials",
                "the operator has to renew them",
            ),
            Self::Forbidden => (
                "kubectl.forbidden",
                "the cluster does not let the gateway read this",
                "another call will not help; the operator may grant the right in the cluster",
            ),
            Self::NotFound => (
                "kubectl.not_found",
                "there is no such object",
                "list_pods and list_events show the exact names",
            ),
            Self::NoSuchKind => (
                "kubectl.no_such_kind",
                "the cluster has no objects of this kind",
                "describe_resource takes another kind",
            ),
            Self::NoPrevious => (
                "kubectl.no_previous",
                "the container has not restarted, so there are no logs of a previous instance",
                "leave `previous` out",
            ),
            Self::ChooseContainer => (
                "kubectl.choose_container",
                "the pod has more than one container",
                "name one of them in `container`",
            ),
            Self::NoSuchContainer => (
                "kubectl.no_such_container",
                "the pod has no such container",
                "describe_resource shows the pod's containers",
            ),
            Self::NotRunning => (
                "kubectl.not_running",
                "the container has not started, so it has no logs",
                "list_events and describe_resource show what it waits for",
            ),
            Self::ServerBusy => (
                "kubectl.server_busy",
                "the API server has too much to do",
                "call again in a few seconds, for less at once",
            ),
            Self::Server => ("kubectl.server", "the API server refused the request", ""),
            Self::TooLarge => (
                "kubectl.too_large",
                "the list is larger than 32 MiB, which is more than is read",
                "narrow the call with a namespace or a selector",
            ),
            Self::Other => (
                "kubectl.failed",
                "kubectl failed",
                "the operator finds more when running the recorded command by hand",
            ),
        }
    }
}

impl ReadFailure {
    /// A failure in the class's own words.
    pub(in crate::executor) fn of(reason: ReadReason) -> Self {
        let (_, message, hint) = reason.about();
        Self { reason, message: message.to_owned(), hint: hint.to_owned() }
    }

    /// The same, and what another program said.
    fn because(reason: ReadReason, detail: &str) -> Self {
        let mut failure = Self::of(reason);
        let detail = quotable(detail);
        if !detail.is_empty() {
            failure.message = format!("{}: {detail}", failure.message);
        }
        failure
    }
}

/// kubectl did not start.
pub(super) fn not_started(program: &Path, error: &io::Error) -> ReadFailure {
    ReadFailure::because(ReadReason::NotStarted, &format!("{}: {error}", program.display()))
}

/// There is no cluster to ask.
pub(super) fn no_access(error: &AccessError) -> ReadFailure {
    let reason = match error {
        AccessError::NoContext { .. } | AccessError::Missing { .. } => ReadReason::Context,
        AccessError::File { .. }
        | AccessError::Colon { .. }
        | AccessError::Insecure { .. }
        | AccessError::Write(_) => ReadReason::Kubeconfig,
    };
    ReadFailure { message: quotable(&error.to_string()), ..ReadFailure::of(reason) }
}

/// It was killed at its deadline.
pub(super) fn timed_out(deadline: Duration) -> ReadFailure {
    ReadFailure::because(ReadReason::Timeout, &format!("after {} s", deadline.as_secs_f64()))
}

/// It was killed by somebody else.
pub(super) fn killed(signal: i32) -> ReadFailure {
    ReadFailure::because(ReadReason::Killed, &format!("signal {signal}"))
}

/// What kubectl's standard error tells. `is_nothing`: no cluster is known, and it was led nowhere.
pub(super) fn of_stderr(stderr: &[u8], is_nothing: bool) -> ReadFailure {
    let text = String::from_utf8_lossy(stderr);
    let line = verdict(&text);
    if is_nothing && (line.contains("kubepermit.invalid") || text.contains("kubepermit.invalid")) {
        return ReadFailure {
            message: "no cluster is known for reads".to_owned(),
            ..ReadFailure::of(ReadReason::Kubeconfig)
        };
    }
    let (reason, detail) = classify(&text, line);
    ReadFailure::because(reason, detail)
}

/// The line with which kubectl ends: before it stand warnings and, in klog's form, each failed attempt.
fn verdict(text: &str) -> &str {
    const BEGINNINGS: [&str; 6] = [
        "Error from server",
        "Unable to connect to the server",
        "The connection to the server",
        "error:",
        "Error:",
        "Error ",
    ];
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_verdict = |line: &&str| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    lines().rfind(is_verdict).or_else(|| lines().next_back()).unwrap_or_default()
}

/// The class, and the part of the line that a caller may read.
fn classify<'a>(text: &str, line: &'a str) -> (ReadReason, &'a str) {
    let has = |needle: &str| line.contains(needle);
    // `kubectl logs` words it the second way.
    let said = line.strip_prefix("Error from server");
    if let Some(rest) = said.or_else(|| line.strip_prefix("error: error from server")) {
        return of_server(rest);
    }
    let removed = has("auth plugin has been removed") || has("no Auth Provider found");
    if has("executable ") && has("exec:") || has("exec plugin") || removed {
        return (ReadReason::CredentialPlugin, "");
    }
    if has("must be logged in to the server") || has("Unauthorized") {
        return (ReadReason::Unauthorized, "");
    }
    if has("x509:") || has("tls: failed to verify") {
        return (ReadReason::Untrusted, after(line, "x509: "));
    }
    if has("context \"") && has("does not exist") || has("context was not found") || has("no context exists")
    {
        return (ReadReason::Context, "");
    }
    if has("error loading config file") || has("invalid configuration") {
        return (ReadReason::Kubeconfig, "");
    }
    if has("unknown flag") || has("unknown shorthand flag") || has("unknown command") {
        return (ReadReason::TooOld, line);
    }
    if has("the server doesn't have a resource type") || has("could not find the requested resource") {
        return (ReadReason::NoSuchKind, "");
    }
    if has("a container name must be specified") {
        return (ReadReason::ChooseContainer, after(line, "choose one of: "));
    }
    if has("is not valid for pod") || has("not found in pod") {
        return (ReadReason::NoSuchContainer, after(line, "out of: "));
    }
    if let Some(cause) = unreachable(text) {
        return (ReadReason::Unreachable, cause);
    }
    (ReadReason::Other, line.trim_start_matches("error: "))
}

/// `Error from server (NotFound): pods "a" not found`, from the parenthesis on: a `Status` of the API server.
fn of_server(rest: &str) -> (ReadReason, &str) {
    let (class, said) = match rest.strip_prefix(" (").and_then(|rest| rest.split_once("): ")) {
        Some((class, said)) => (class, said),
        None => ("", rest.trim_start_matches(": ")),
    };
    let has = |needle: &str| said.contains(needle);
    match class {
        "NotFound" => (ReadReason::NotFound, said),
        "Forbidden" => (ReadReason::Forbidden, said),
        "Unauthorized" => (ReadReason::Unauthorized, ""),
        "TooManyRequests" => (ReadReason::ServerBusy, said),
        "Timeout" | "ServerTimeout" | "ServiceUnavailable" => (ReadReason::ServerBusy, said),
        _ if has("previous terminated container") => (ReadReason::NoPrevious, ""),
        _ if has("a container name must be specified") => {
            (ReadReason::ChooseContainer, after(said, "choose one of: "))
        }
        _ if has("is not valid for pod") => (ReadReason::NoSuchContainer, said),
        _ if has("is waiting to start") || has("ContainerCreating") || has("PodInitializing") => {
            (ReadReason::NotRunning, said)
        }
        _ => (ReadReason::Server, said),
    }
}

/// In which way the connection failed. The address is the operator's to know.
fn unreachable(text: &str) -> Option<&'static str> {
    const CAUSES: [(&str, &str); 9] = [
        ("connection refused", "the connection is refused"),
        ("was refused - did you specify the right host or port", "the connection is refused"),
        ("no such host", "its name does not resolve"),
        ("server misbehaving", "its name does not resolve"),
        ("network is unreachable", "the network is unreachable"),
        ("no route to host", "there is no route to it"),
        ("Client.Timeout exceeded", "it does not answer"),
        ("context deadline exceeded", "it does not answer"),
        ("i/o timeout", "it does not answer"),
    ];
    let known = CAUSES.iter().find(|(needle, _)| text.contains(needle)).map(|(_, cause)| *cause);
    known.or_else(|| text.contains("Unable to connect to the server").then_some(""))
}

fn after<'a>(line: &'a str, mark: &str) -> &'a str {
    line.split_once(mark).map_or("", |(_, rest)| rest)
}

/// One short line without credentials, addresses, and characters that a reader cannot see.
fn quotable(text: &str) -> String {
    let (text, _) = output::redact(text);
    let words = text.split(' ').map(|word| if word.contains("://") { "[address]" } else { word });
    shortened(&output::clean(&words.collect::<Vec<_>>().join(" ")).text)
}

#[cfg(test)]
mod tests;
