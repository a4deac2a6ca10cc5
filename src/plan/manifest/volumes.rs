//! The volumes of a job's pod: empty directories that end with it, each of bounded size; and, where they are asked
//! for, the cloner's token and the cache.

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::plan::PlannedCache;
use crate::plan::manifest::{CONTROL_DIR, Parts, cloner};

const WORK: &str = "work";
const TMP: &str = "tmp";
const CONTROL: &str = "control";
const CACHE: &str = "cache";

/// Where programs expect a place to write.
const TMP_DIR: &str = "/tmp";

const WORK_SIZE: &str = "1Gi";
const TMP_SIZE: &str = "512Mi";
const CONTROL_SIZE: &str = "1Mi";

/// The node evicts a pod whose volumes, logs and writable layers together exceed its containers' limits:
/// the volumes above and half a gibibyte of log.
pub(super) const MAIN_STORAGE_LIMIT: &str = "2Gi";
/// Without a request of its own a container would request its whole limit, which few nodes have to give.
pub(super) const MAIN_STORAGE_REQUEST: &str = "64Mi";

pub(super) fn volumes(parts: &Parts<'_>) -> Vec<Volume> {
    let mut volumes = vec![empty_dir(WORK, WORK_SIZE)];
    if parts.workdir != TMP_DIR {
        volumes.push(empty_dir(TMP, TMP_SIZE));
    }
    volumes.push(empty_dir(CONTROL, CONTROL_SIZE));
    volumes.extend(parts.clone.map(cloner::token_volume));
    volumes.extend(parts.cache.map(cache));
    volumes
}

/// The work directory and `/tmp`, one mount when they are the same; and the cache.
pub(super) fn main_mounts(parts: &Parts<'_>) -> Vec<VolumeMount> {
    let mut mounts = vec![work_mount(parts.workdir)];
    if parts.workdir != TMP_DIR {
        mounts.push(mount(TMP, TMP_DIR));
    }
    mounts.extend(parts.cache.map(|cache| VolumeMount {
        read_only: cache.read_only.then_some(true),
        ..mount(CACHE, &cache.volume.mount_path)
    }));
    mounts
}

/// The work directory, at the path that the command knows, and the control directory.
pub(super) fn helper_mounts(workdir: &str) -> Vec<VolumeMount> {
    vec![work_mount(workdir), mount(CONTROL, CONTROL_DIR)]
}

fn work_mount(workdir: &str) -> VolumeMount {
    mount(WORK, workdir)
}

/// Read-only by the mount alone: a claim that is attached read-only on a node is so for all of its pods.
fn cache(cache: &PlannedCache) -> Volume {
    Volume {
        name: CACHE.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: cache.volume.claim.clone(),
            read_only: None,
        }),
        ..Volume::default()
    }
}

fn empty_dir(name: &str, size: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: Some(Quantity(size.to_owned())) }),
        ..Volume::default()
    }
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}
