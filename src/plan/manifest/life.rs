//! What a Job carries so that it can be found again, followed to its end by another process, and told from one
//! that nobody answers for. Never a token, a caller's name or a file's content.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::PlannedFile;
use crate::plan::budgets::Budgets;
use crate::plan::manifest::{
    ANNOTATION_EXPIRES_AT, ANNOTATION_LIFE, LABEL_OWNER, LABEL_PROCESS, LABEL_TOKEN, Parts,
    TTL_AFTER_FINISHED_S,
};

/// How much later than its own deadline a Job counts as expired: its call may have waited for its turn, and
/// clocks differ.
const SLACK: Duration = Duration::from_secs(600);

/// An object's annotations may have 256 KiB. Beyond this the input files are not listed, and come back along
/// with the others should another process have to finish the job.
const MOST_INPUTS_BYTES: usize = 128 * 1024;

/// The annotation of a Job in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::plan) struct Life {
    /// The command's own wall clock.
    pub timeout_s: u64,
    /// The input files: path, and SHA-256 of the content in hexadecimal.
    pub inputs: Vec<(String, String)>,
    /// The globs of the files that come back, as the call gave them.
    pub artifacts: Option<Vec<String>>,
}

/// The labels of the Job itself; its pod needs none of the added ones.
pub(super) fn labels(parts: &Parts<'_>, mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if let Some(process) = parts.process {
        labels.insert(LABEL_PROCESS.to_owned(), process.as_str().to_owned());
    }
    if let Some(handle) = parts.handle {
        labels.insert(LABEL_TOKEN.to_owned(), handle.token().to_owned());
        labels.insert(LABEL_OWNER.to_owned(), handle.owner().to_owned());
    }
    labels
}

pub(super) fn annotations(parts: &Parts<'_>) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([(ANNOTATION_EXPIRES_AT.to_owned(), expires_at(parts))]);
    if parts.handle.is_some() {
        let life = Life {
            timeout_s: parts.timeout.as_secs(),
            inputs: inputs(parts.files),
            artifacts: parts.wanted.written(),
        };
        // Two numbers and strings: it cannot fail, and without it the Job would only not be recoverable.
        if let Ok(life) = serde_json::to_string(&life) {
            annotations.insert(ANNOTATION_LIFE.to_owned(), life);
        }
    }
    annotations
}

/// The call's own time, its Job's deadline, the time that the cluster keeps an ended Job, and some more.
fn expires_at(parts: &Parts<'_>) -> String {
    let kept = Duration::from_secs(u64::try_from(TTL_AFTER_FINISHED_S).unwrap_or_default());
    let life = [kept, SLACK].into_iter().fold(Budgets::JOB.deadline(parts.timeout), Duration::saturating_add);
    let seconds = parts.id.minted_at().saturating_add(life.as_secs());
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or(Timestamp::MAX).to_string()
}

fn inputs(files: &[PlannedFile]) -> Vec<(String, String)> {
    let listed: Vec<(String, String)> =
        files.iter().map(|file| (file.path.clone(), hex::encode(Sha256::digest(&file.content)))).collect();
    let size: usize = listed.iter().map(|(path, digest)| path.len() + digest.len() + 8).sum();
    if size > MOST_INPUTS_BYTES { Vec::new() } else { listed }
}
