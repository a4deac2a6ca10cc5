//! Validated JSON to typed [`Arguments`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ids::{DecisionId, JobToken};
use crate::refusal::Reason;
use crate::schema::call::{
    Arguments, CancelJob, CloneRequest, FetchJob, InputFile, RequestedLimits, RunJob, SubmitJob, ToolCall,
};

const RUN_JOB: &str = "run_job";
const SUBMIT_JOB: &str = "submit_job";
const FETCH_JOB: &str = "fetch_job";
const CANCEL_JOB: &str = "cancel_job";
const LIST_PODS: &str = "list_pods";
const POD_LOGS: &str = "pod_logs";
const DESCRIBE_RESOURCE: &str = "describe_resource";
const LIST_EVENTS: &str = "list_events";

/// Whether the program can carry this tool out.
pub(super) fn is_implemented(tool: &str) -> bool {
    [RUN_JOB, SUBMIT_JOB, FETCH_JOB, CANCEL_JOB, LIST_PODS, POD_LOGS, DESCRIBE_RESOURCE, LIST_EVENTS]
        .contains(&tool)
}

/// The typed call. `arguments` has passed the tool's schema; what a schema cannot say is checked here.
pub(super) fn typed(id: DecisionId, tool: &str, arguments: Value) -> Result<ToolCall, Reason> {
    let (tool, arguments) = match tool {
        RUN_JOB => {
            let wire: RunJobWire = serde_json::from_value(arguments).map_err(shape)?;
            (RUN_JOB, Arguments::RunJob(wire.decode()?))
        }
        SUBMIT_JOB => {
            let wire: RunJobWire = serde_json::from_value(arguments).map_err(shape)?;
            (SUBMIT_JOB, Arguments::SubmitJob(SubmitJob { job: wire.decode()?, token: JobToken::mint() }))
        }
        FETCH_JOB => {
            let HandleWire { job_token, wait_s } = serde_json::from_value(arguments).map_err(shape)?;
            let wait_s = wait_s.map(|seconds| whole_number(&seconds, "wait_s")).transpose()?.unwrap_or(0);
            (FETCH_JOB, Arguments::FetchJob(FetchJob { token: token(&job_token)?, wait_s }))
        }
        CANCEL_JOB => {
            let HandleWire { job_token, wait_s: _ } = serde_json::from_value(arguments).map_err(shape)?;
            (CANCEL_JOB, Arguments::CancelJob(CancelJob { token: token(&job_token)? }))
        }
        LIST_PODS => (LIST_PODS, Arguments::ListPods(read(arguments)?)),
        POD_LOGS => (POD_LOGS, Arguments::PodLogs(read(arguments)?)),
        DESCRIBE_RESOURCE => (DESCRIBE_RESOURCE, Arguments::DescribeResource(read(arguments)?)),
        LIST_EVENTS => (LIST_EVENTS, Arguments::ListEvents(read(arguments)?)),
        // A wiring mistake must look like one: the catalogue refuses such a tool when it starts.
        other => {
            return Err(Reason::new(
                "schema.unimplemented",
                format!("the tool `{other}` has no code"),
                "",
                "",
            ));
        }
    };
    Ok(ToolCall::new(id, tool, arguments))
}

/// The arguments of a read: flat, and every number in them an integer by the schema.
fn read<T: DeserializeOwned>(mut arguments: Value) -> Result<T, Reason> {
    for (name, value) in arguments.as_object_mut().into_iter().flatten() {
        if value.is_number() {
            *value = whole_number(value, name)?.into();
        }
    }
    serde_json::from_value(arguments).map_err(shape)
}

/// A job's token as it stands in JSON, and how long to wait for the job's end.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandleWire {
    job_token: String,
    wait_s: Option<Value>,
}

/// The schema's pattern says the same; this is what the rest relies on.
fn token(text: &str) -> Result<JobToken, Reason> {
    JobToken::parse(text).ok_or_else(|| {
        Reason::new(
            "schema.pattern",
            "the value is not a job's token",
            "/job_token",
            "give the `job_token` that submit_job returned, whole",
        )
    })
}

/// `run_job`'s arguments as they stand in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunJobWire {
    image: String,
    command: Vec<String>,
    #[serde(default)]
    files: Vec<FileWire>,
    #[serde(default)]
    env: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    limits: LimitsWire,
    timeout_s: Option<Value>,
    workdir: Option<String>,
    artifacts: Option<Vec<String>>,
    clone: Option<CloneRequest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileWire {
    path: String,
    content_b64: String,
    mode: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct LimitsWire {
    cpu: Option<String>,
    memory: Option<String>,
}

impl RunJobWire {
    fn decode(self) -> Result<RunJob, Reason> {
        let files = self
            .files
            .into_iter()
            .enumerate()
            .map(|(index, file)| file.decode(index))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(RunJob {
            image: self.image,
            command: self.command,
            files,
            env: self.env,
            limits: RequestedLimits { cpu: self.limits.cpu, memory: self.limits.memory },
            timeout_s: self.timeout_s.map(|seconds| whole_number(&seconds, "timeout_s")).transpose()?,
            workdir: self.workdir,
            artifacts: self.artifacts,
            clone: self.clone,
        })
    }
}

impl FileWire {
    fn decode(self, index: usize) -> Result<InputFile, Reason> {
        let content = STANDARD.decode(self.content_b64.as_bytes()).map_err(|error| {
            Reason::new(
                "schema.base64",
                format!("the content is not base64: {error}"),
                format!("/files/{index}/content_b64"),
                "encode the file's bytes with the standard alphabet and padding",
            )
        })?;
        Ok(InputFile { path: self.path, content: Bytes::from(content), mode: self.mode })
    }
}

/// JSON Schema's `integer` allows `30.0`; so does this.
fn whole_number(value: &Value, field: &str) -> Result<u64, Reason> {
    let number = value.as_u64().or_else(|| {
        let float = value.as_f64()?;
        // The schema's maximum (2^31 - 1) keeps the conversion exact.
        (float.fract() == 0.0 && (0.0..=2_147_483_647.0).contains(&float)).then_some(float as u64)
    });
    number.ok_or_else(|| {
        Reason::new(
            "schema.type",
            "the value is not a whole number",
            format!("/{field}"),
            "give an integer that is not negative",
        )
    })
}

/// The schema and the types disagree: ours to mend, and a refusal until then.
fn shape(error: serde_json::Error) -> Reason {
    Reason::new(
        "schema.shape",
        format!("the arguments passed the schema but cannot be read: {error}"),
        "",
        "report this: the tool's schema and its code disagree",
    )
}
