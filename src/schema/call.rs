//! The typed call: what the arguments say, after they passed the tool's schema.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ids::{DecisionId, HandleKey, JobToken, ProcessId};

/// A call whose arguments passed their tool's JSON Schema.
///
/// INVARIANT (tool-call): made by schema/ only; its fields cannot be changed afterwards.
#[derive(Debug, Clone)]
pub struct ToolCall {
    id: DecisionId,
    tool: &'static str,
    arguments: Arguments,
    origin: Option<Origin>,
}

/// Where a call comes from, for what outlives it: a Job carries both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Digest of the caller.
    pub owner: String,
    /// The process that took the call.
    pub process: ProcessId,
}

/// The arguments of each tool.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// `run_job`.
    RunJob(RunJob),
    /// `submit_job`.
    SubmitJob(SubmitJob),
    /// `fetch_job`.
    FetchJob(FetchJob),
    /// `cancel_job`.
    CancelJob(CancelJob),
    /// `list_pods`.
    ListPods(ListPods),
    /// `pod_logs`.
    PodLogs(PodLogs),
    /// `describe_resource`.
    DescribeResource(DescribeResource),
    /// `list_events`.
    ListEvents(ListEvents),
}

/// The arguments of `list_pods`, not yet interpreted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListPods {
    /// The namespace; absent asks for all of them.
    pub namespace: Option<String>,
    /// A label selector in Kubernetes' grammar.
    pub selector: Option<String>,
    /// A field selector.
    pub field_selector: Option<String>,
}

/// The arguments of `pod_logs`, not yet interpreted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodLogs {
    /// The namespace.
    pub namespace: String,
    /// The pod.
    pub name: String,
    /// One of its containers; absent is kubectl's default.
    pub container: Option<String>,
    /// How many of the newest lines; absent means 100.
    pub tail_lines: Option<u64>,
    /// The instance before the last restart.
    #[serde(default)]
    pub previous: bool,
    /// Only lines newer than so many seconds.
    pub since_seconds: Option<u64>,
}

/// The arguments of `describe_resource`, not yet interpreted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescribeResource {
    /// The namespace.
    pub namespace: String,
    /// One of the schema's kinds.
    pub kind: String,
    /// The object.
    pub name: String,
}

/// The arguments of `list_events`, not yet interpreted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListEvents {
    /// The namespace; absent asks for all of them.
    pub namespace: Option<String>,
    /// Only events of type Warning.
    #[serde(default)]
    pub warnings_only: bool,
    /// Only events about objects of this kind.
    pub for_kind: Option<String>,
    /// Only events about objects of this name.
    pub for_name: Option<String>,
}

/// The arguments of `submit_job`, not yet interpreted, and the token that its caller will get.
#[derive(Debug, Clone)]
pub struct SubmitJob {
    /// The same as `run_job`'s.
    pub job: RunJob,
    /// Minted with the call, so that the plan, and with it the policy, knows what the Job will carry.
    pub token: JobToken,
}

/// The arguments of `fetch_job`.
#[derive(Debug, Clone)]
pub struct FetchJob {
    /// Which job.
    pub token: JobToken,
    /// How long to wait for its end, as asked.
    pub wait_s: u64,
}

/// The arguments of `cancel_job`.
#[derive(Debug, Clone)]
pub struct CancelJob {
    /// Which job.
    pub token: JobToken,
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
    /// Globs of the files that come back; absent means those that are new or changed.
    pub artifacts: Option<Vec<String>>,
    /// A repository to clone into the work directory first.
    pub clone: Option<CloneRequest>,
}

/// `clone`, syntactically valid and not yet interpreted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloneRequest {
    /// The repository's https URL.
    pub repo_url: String,
    /// A branch, a tag or a commit's id.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Where to, relative to the work directory; absent means `repo`.
    pub subdir: Option<String>,
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
        Self { id, tool, arguments, origin: None }
    }

    /// The same call, with where it comes from.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// Where the call comes from; a call that outlives itself cannot be planned without.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The token that this call's caller is to be told: that of a `submit_job`.
    #[must_use]
    pub fn new_token(&self) -> Option<&JobToken> {
        match &self.arguments {
            Arguments::SubmitJob(submitted) => Some(&submitted.token),
            _ => None,
        }
    }

    /// The job in the background that the call is about, in the hands of its caller.
    #[must_use]
    pub fn handle(&self) -> Option<HandleKey> {
        let token = match &self.arguments {
            Arguments::SubmitJob(SubmitJob { token, .. })
            | Arguments::FetchJob(FetchJob { token, .. })
            | Arguments::CancelJob(CancelJob { token }) => token,
            Arguments::RunJob(_)
            | Arguments::ListPods(_)
            | Arguments::PodLogs(_)
            | Arguments::DescribeResource(_)
            | Arguments::ListEvents(_) => return None,
        };
        Some(HandleKey::new(token, &self.origin()?.owner))
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
            Arguments::SubmitJob(submitted) => submitted.job.redacted(),
            Arguments::FetchJob(fetch) => {
                json!({ "job_token": token_view(&fetch.token), "wait_s": fetch.wait_s })
            }
            Arguments::CancelJob(cancel) => json!({ "job_token": token_view(&cancel.token) }),
            Arguments::ListPods(read) => json!(read),
            Arguments::PodLogs(read) => json!(read),
            Arguments::DescribeResource(read) => json!(read),
            Arguments::ListEvents(read) => json!(read),
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
            "artifacts": self.artifacts,
            "clone": self.clone.as_ref().map(CloneRequest::redacted),
        })
    }
}

impl CloneRequest {
    /// A URL that holds a credential is refused by the plan, and must not be in the refusal's record.
    fn redacted(&self) -> Value {
        let may_hold_one = self.repo_url.contains(['@', '?', '#', '%']);
        let url = if may_hold_one { json!({ "len": self.repo_url.len() }) } else { json!(self.repo_url) };
        json!({ "repo_url": url, "ref": self.reference, "subdir": self.subdir })
    }
}

/// `{digest, len}`: stands for a token, which is a key; the Job that it leads to carries the same digest.
fn token_view(token: &JobToken) -> Value {
    json!({ "digest": token.digest(), "len": token.reveal().len() })
}

/// `{sha256, len}`: stands for content that a record or a policy must not hold.
fn digest(content: &[u8]) -> Value {
    json!({ "sha256": hex::encode(Sha256::digest(content)), "len": content.len() })
}
