//! A Job of this gateway's that is on the cluster already, read back so that it can be seen to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ids::{DecisionId, HandleKey, ProcessId};
use crate::plan::ImageReference;
use crate::plan::artifacts::WantedArtifacts;
use crate::plan::image::ResolvedImage;
use crate::plan::job::{JobPlan, JobResources};
use crate::plan::manifest::{
    ANNOTATION_LIFE, LABEL_DECISION_ID, LABEL_OWNER, LABEL_PROCESS, LABEL_TOKEN, Life, MAIN,
};

/// A Job in the background that another process started.
#[derive(Debug)]
pub struct RecoveredJob {
    plan: JobPlan,
    uid: String,
    process: ProcessId,
    inputs: BTreeMap<String, String>,
}

/// What a Job lacks.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the Job has no usable {0}, so it cannot be followed to its end")]
pub struct NotRecoverable(pub(super) &'static str);

impl RecoveredJob {
    /// Reads a Job. Nothing in it is believed to be judged: the plan that comes out can be followed and ended,
    /// but there is no permit for it, so it can be neither created nor changed.
    ///
    /// # Errors
    /// [`NotRecoverable`] names what is missing; of a Job that this gateway made in the background, nothing is.
    pub fn read(job: Job) -> Result<Self, NotRecoverable> {
        let none = BTreeMap::new();
        let labels = job.metadata.labels.as_ref().unwrap_or(&none);
        let label = |name: &str| labels.get(name).map(String::as_str);
        let id =
            label(LABEL_DECISION_ID).and_then(DecisionId::recovered).ok_or(NotRecoverable("decision id"))?;
        if job.metadata.name != Some(format!("kubepermit-{}", id.hex())) {
            return Err(NotRecoverable("name"));
        }
        let process = label(LABEL_PROCESS).and_then(ProcessId::recovered).ok_or(NotRecoverable("process"))?;
        let handle = label(LABEL_TOKEN).zip(label(LABEL_OWNER));
        let handle = handle.and_then(|(token, owner)| HandleKey::recovered(token, owner));
        let handle = handle.ok_or(NotRecoverable("token or caller"))?;
        let uid = job.metadata.uid.clone().ok_or(NotRecoverable("UID"))?;
        let life = job.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_LIFE));
        let life: Life =
            life.and_then(|text| serde_json::from_str(text).ok()).ok_or(NotRecoverable("life"))?;
        // The cluster ends it by then, whatever the annotation says.
        let deadline = job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
        let deadline =
            deadline.and_then(|seconds| u64::try_from(seconds).ok()).ok_or(NotRecoverable("deadline"))?;
        let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let main = pod.and_then(|pod| pod.containers.iter().find(|container| container.name == MAIN));
        let main = main.ok_or(NotRecoverable("main container"))?;
        let reference: ImageReference =
            main.image.as_deref().and_then(|image| image.parse().ok()).ok_or(NotRecoverable("image"))?;
        let workdir = main.working_dir.clone().ok_or(NotRecoverable("work directory"))?;
        let requested = reference.key();
        let command = main.command.clone().unwrap_or_default();
        Ok(Self {
            uid,
            process,
            inputs: life.inputs.into_iter().collect(),
            plan: JobPlan {
                id,
                handle: Some(handle),
                image: ResolvedImage { requested, reference },
                command,
                env: BTreeMap::new(),
                // Their content is with the process that took the call, and nowhere else.
                files: Vec::new(),
                workdir,
                artifacts: WantedArtifacts::parse(life.artifacts.as_deref())
                    .map_err(|_| NotRecoverable("choice of artifacts"))?,
                // The clone, if there was one, is the cluster's by now; so are the volumes and the environment.
                clone: None,
                cache: None,
                extra_env_names: Vec::new(),
                timeout: Duration::from_secs(life.timeout_s.min(deadline)),
                resources: JobResources {
                    cpu_request_millis: 0,
                    memory_request_bytes: 0,
                    cpu_limit_millis: None,
                    memory_limit_bytes: None,
                },
                manifest: job,
                manifest_view: Value::Null,
                manifest_sha256: String::new(),
            },
        })
    }

    /// What is left to carry out.
    #[must_use]
    pub fn plan(&self) -> &JobPlan {
        &self.plan
    }

    /// UID of the Job.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The process that the Job says it belongs to.
    #[must_use]
    pub fn process(&self) -> &ProcessId {
        &self.process
    }

    /// Whether this file is an input that the command left as it was.
    #[must_use]
    pub fn is_input(&self, name: &str, content: &[u8]) -> bool {
        self.inputs.get(name).is_some_and(|digest| *digest == hex::encode(Sha256::digest(content)))
    }
}
