//! The typed call: what the arguments say, after they passed the tool's schema.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ids::DecisionId;

/// A call whose arguments passed their tool's JSON Schema.
///
/// INVARIANT (tool-call): made by schema/ only; its fields cannot be changed afterwards.
#[derive(Debug, Clone)]
pub struct ToolCall {
    id: DecisionId,
    tool: &'static str,
    arguments: Arguments,
}

/// The arguments of each tool.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// `run_job`.
    RunJob(RunJob),
}

/// The arguments of `run_job`, syntactically valid and not yet interpreted.
#[derive(Debug, Clone, Default)]
pub struct RunJob {
    /// The image reference as the caller wrote it.
    pub image: String,
    /// The argv of the container, at least one element.
    pub command: Vec<String>,
    /// Files to place before the command starts.
    pub files: Vec<InputFile>,
    /// Environment variables of the main container.
    pub env: BTreeMap<String, String>,
    /// Resource limits as Kubernetes quantities, unparsed.
    pub limits: RequestedLimits,
    /// Wall clock of the command in seconds; absent and 0 mean the configured default.
    pub timeout_s: Option<u64>,
    /// Absolute path of the work directory; absent means `/work`.
    pub workdir: Option<String>,
}

/// One input file.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// Path relative to the work directory, unchecked.
    pub path: String,
    /// The decoded content.
    pub content: Bytes,
    /// Octal permission bits as written (`"0755"`); absent means `0644`.
    pub mode: Option<String>,
}

/// `limits`, as written.
#[derive(Debug, Clone, Default)]
pub struct RequestedLimits {
    /// A Kubernetes cpu quantity.
    pub cpu: Option<String>,
    /// A Kubernetes memory quantity.
    pub memory: Option<String>,
}

impl ToolCall {
    pub(in crate::schema) fn new(id: DecisionId, tool: &'static str, arguments: Arguments) -> Self {
        Self { id, tool, arguments }
    }

    /// The id that this call carries to its end.
    #[must_use]
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// The tool's name in the catalogue.
    #[must_use]
    pub fn tool(&self) -> &'static str {
        self.tool
    }

    /// The typed arguments.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The arguments as the policy sees them: every field present, file contents and environment values
    /// replaced by their digest and length.
    #[must_use]
    pub fn redacted(&self) -> Value {
        match &self.arguments {
            Arguments::RunJob(job) => job.redacted(),
        }
    }
}

impl RunJob {
    fn redacted(&self) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| json!({ "path": file.path, "mode": file.mode, "content": digest(&file.content) }))
            .collect();
        let env: serde_json::Map<String, Value> =
            self.env.iter().map(|(name, value)| (name.clone(), digest(value.as_bytes()))).collect();
        json!({
            "image": self.image,
            "command": self.command,
            "files": files,
            "env": env,
            "limits": { "cpu": self.limits.cpu, "memory": self.limits.memory },
            "timeout_s": self.timeout_s,
            "workdir": self.workdir,
        })
    }
}

/// `{sha256, len}`: stands for content that a record or a policy must not hold.
fn digest(content: &[u8]) -> Value {
    json!({ "sha256": hex::encode(Sha256::digest(content)), "len": content.len() })
}
