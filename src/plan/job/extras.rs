//! What an operator may configure for jobs beyond the common settings, and what a plan makes of it.

use std::collections::BTreeMap;

use crate::plan::{CacheAccess, path};
use crate::refusal::Reason;

/// A cloner, a cache, an environment: each absent by default.
#[derive(Debug, Clone, Default)]
pub struct JobExtras {
    /// Image with git and a shell (`MCP_K8S_CLONE_IMAGE`), as written.
    pub clone_image: Option<String>,
    /// Secret with a token for each git host (`MCP_K8S_CLONE_SECRET`).
    pub clone_secret: Option<String>,
    /// The volume that jobs share (`MCP_K8S_CACHE_PVC`).
    pub cache: Option<CacheVolume>,
    /// Variables of every job (`MCP_K8S_JOB_EXTRA_ENV`); a call's own win.
    pub env: BTreeMap<String, String>,
}

/// A PersistentVolumeClaim and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheVolume {
    /// The claim, in the jobs' namespace.
    pub claim: String,
    /// Where jobs see it.
    pub mount_path: String,
}

/// The cache as one job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCache {
    /// The claim and its place.
    pub volume: CacheVolume,
    /// Whether the job can only read.
    pub read_only: bool,
}

/// The cache of a job with this work directory.
///
/// # Errors
/// A reason with code `workdir.cache` when one would hide the other.
pub(super) fn cache(
    volume: Option<&CacheVolume>,
    access: CacheAccess,
    workdir: &str,
) -> Result<Option<PlannedCache>, Reason> {
    let read_only = match access {
        CacheAccess::None => return Ok(None),
        CacheAccess::Read => true,
        CacheAccess::Write => false,
    };
    let Some(volume) = volume else { return Ok(None) };
    if path::overlap(workdir, &volume.mount_path) {
        return Err(Reason::new(
            "workdir.cache",
            format!(
                "work directory `{workdir}` and the cache at `{}` are in each other's way",
                volume.mount_path
            ),
            "/workdir",
            "use another work directory, for example `/work`",
        ));
    }
    Ok(Some(PlannedCache { volume: volume.clone(), read_only }))
}
