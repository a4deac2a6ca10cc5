//! What a record says, before it is encoded: the shapes that the pipeline fills in.
//!
//! `schemas/audit-record.json` is the outside view of the same. Every record is built here from named
//! fields; nothing else can add one.

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::audit::redact;
use crate::caller::Caller;
use crate::ids::DecisionId;
use crate::refusal::{Reason, Stage};

/// One call as the pipeline reports it: who asked for what, and what was decided.
///
/// Has no `Debug`: the arguments must not reach a log by accident.
#[derive(Clone)]
pub struct Entry {
    /// The call's id, shared by its two records.
    pub decision_id: DecisionId,
    /// Who called.
    pub caller: Caller,
    /// The tool's name as the caller wrote it; it may be anything.
    pub tool: String,
    /// `ToolCall::redacted()`, or [`unparsed`](crate::audit::unparsed) for a call that never became one.
    /// Redacted once more before it is written.
    pub arguments: Value,
    /// What was decided, and by which stage.
    pub decision: DecisionSummary,
    /// Facts of the plan: image key, namespace, job name, SHA-256 of the manifest. Null before a plan exists.
    pub subject: Value,
}

/// The decision on a call.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DecisionSummary {
    /// Whether the call may run.
    pub allow: bool,
    /// The stage that refused; `None` when allowed.
    pub stage: Option<Stage>,
    /// Why not. Recorded whole when they are the policy's; of those before it, which may quote the call, only
    /// the code and the part of the field that the schema knows.
    pub reasons: Vec<Reason>,
    /// The policy's warnings.
    pub warn: Vec<Reason>,
    /// Which bundle decided; `None` when none was asked.
    pub policy_revision: Option<String>,
}

/// How an admitted call ended.
#[derive(Debug, Clone, Serialize)]
pub struct OutcomeSummary {
    /// How it ended.
    pub status: OutcomeStatus,
    /// The finer class (`oom_killed`), when there is one.
    pub reason: Option<String>,
    /// The command's exit code; -1 when it has none, `None` when the call has no command.
    pub exit_code: Option<i32>,
    /// From admission to the end, in milliseconds.
    pub duration_ms: u64,
    /// The output, never its text.
    pub output: Option<OutputSummary>,
    /// The artifacts, never their content.
    pub artifacts: Vec<ArtifactSummary>,
    /// UID of the Kubernetes Job, when one was created.
    pub job_uid: Option<String>,
    /// The image's digest as the node reported it, when it ran.
    pub image_id: Option<String>,
    /// One sentence for a reader; empty when there is nothing to add. Must not quote the call's content; at
    /// most 1000 characters are recorded.
    pub message: String,
}

/// `status` of an outcome record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeStatus {
    /// It did what was asked; a command exited with 0.
    Succeeded,
    /// The command ended otherwise.
    Failed,
    /// The command's wall clock ran out.
    Timeout,
    /// The infrastructure kept it from running or from being seen to its end.
    Error,
    /// This process gave the call up before it knew its end.
    Abandoned,
}

/// An output by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputSummary {
    /// SHA-256 of the bytes that were returned, in lowercase hexadecimal.
    pub sha256: String,
    /// How many bytes were returned.
    pub len: u64,
    /// How much was left out: bytes before them (a job), or characters at any place (a read).
    pub omitted: u64,
}

/// An artifact by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactSummary {
    /// Path relative to the work directory.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, in lowercase hexadecimal.
    pub sha256: String,
}

impl OutputSummary {
    /// Summarises the returned `output`, before which `omitted` bytes were left out.
    #[must_use]
    pub fn of(output: &[u8], omitted: u64) -> Self {
        Self { sha256: sha256_hex(output), len: byte_count(output), omitted }
    }
}

impl ArtifactSummary {
    /// Summarises the artifact `name`.
    #[must_use]
    pub fn of(name: impl Into<String>, content: &[u8]) -> Self {
        Self { name: name.into(), size: byte_count(content), sha256: sha256_hex(content) }
    }
}

impl OutcomeSummary {
    /// The outcome of a call that was dropped before it was closed.
    pub(in crate::audit) fn abandoned() -> Self {
        Self {
            status: OutcomeStatus::Abandoned,
            reason: None,
            exit_code: None,
            duration_ms: 0,
            output: None,
            artifacts: Vec::new(),
            job_uid: None,
            image_id: None,
            message: "given up before its outcome was known".to_owned(),
        }
    }
}

/// A record's own members in the order in which they are written; the envelope (`ts`, `v`, `seq`, `prev`,
/// `hash`) is put around them by the writer.
pub(in crate::audit) type Members = Vec<(&'static str, Value)>;

/// First record of each process in each file.
pub(in crate::audit) fn start(instance: &str) -> Members {
    vec![
        ("kind", json!("start")),
        ("instance", json!(instance)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("pid", json!(std::process::id())),
    ]
}

/// Last record of a clean shutdown.
pub(in crate::audit) fn stop(instance: &str) -> Members {
    vec![("kind", json!("stop")), ("instance", json!(instance))]
}

/// The decision on one call, redacted.
pub(in crate::audit) fn decision(entry: Entry, instance: &str, record_commands: bool) -> Option<Members> {
    let Entry { decision_id, caller, tool, arguments, mut decision, subject } = entry;
    decision.reasons = redact::reasons(decision.stage, decision.reasons);
    let arguments = if decision.stage == Some(Stage::Schema) {
        redact::unchecked_arguments(arguments)
    } else {
        redact::arguments(arguments, record_commands)
    };
    Some(vec![
        ("kind", json!("decision")),
        ("instance", json!(instance)),
        ("decision_id", serde_json::to_value(decision_id).ok()?),
        ("caller", serde_json::to_value(caller).ok()?),
        ("tool", Value::String(tool)),
        ("arguments", arguments),
        ("decision", serde_json::to_value(decision).ok()?),
        ("subject", redact::subject(subject, record_commands)),
    ])
}

/// The end of one admitted call.
pub(in crate::audit) fn outcome(
    decision_id: DecisionId,
    outcome: &OutcomeSummary,
    instance: &str,
) -> Option<Members> {
    let outcome = OutcomeSummary { message: redact::message(&outcome.message), ..outcome.clone() };
    Some(vec![
        ("kind", json!("outcome")),
        ("instance", json!(instance)),
        ("decision_id", serde_json::to_value(decision_id).ok()?),
        ("outcome", serde_json::to_value(outcome).ok()?),
    ])
}

/// SHA-256 in lowercase hexadecimal.
pub(in crate::audit) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A length as a record states it.
pub(in crate::audit) fn byte_count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
