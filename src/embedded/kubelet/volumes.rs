//! A pod's volumes: private directories of its own, Secrets copied into some, and claims that it shares.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, Volume};

use crate::embedded::folder;
use crate::embedded::storage::Storage;

/// Makes the pod's volumes under `directory`, which is made, too; the group `passing` may walk through it.
///
/// # Errors
/// A sentence for the `FailedMount` event.
pub fn prepare(
    pod: &Pod,
    directory: &Path,
    passing: Option<u32>,
    storage: &Storage,
) -> Result<BTreeMap<String, PathBuf>, String> {
    folder::make_private(directory, passing).map_err(|error| format!("MountVolume.SetUp failed: {error}"))?;
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    volumes.map(|volume| Ok((volume.name.clone(), make(volume, directory, namespace, storage)?))).collect()
}

fn make(volume: &Volume, directory: &Path, namespace: &str, storage: &Storage) -> Result<PathBuf, String> {
    let name = &volume.name;
    let failed = |why: &str| format!("MountVolume.SetUp failed for volume {name:?} : {why}");
    let missing = |kind: &str, object: &str| failed(&format!("{kind} {object:?} not found"));
    if let Some(map) = volume.config_map.as_ref().filter(|map| map.optional != Some(true)) {
        return Err(missing("configmap", &map.name));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let found = storage.claim(namespace, &claim.claim_name).map(Path::to_owned);
        return found.ok_or_else(|| missing("persistentvolumeclaim", &claim.claim_name));
    }
    let optional = volume.config_map.is_some() || volume.secret.is_some();
    if volume.empty_dir.is_none() && !optional {
        return Err(failed("the embedded cluster has no such kind of volume"));
    }
    let path = directory.join(name);
    let io = |e: std::io::Error| failed(&e.to_string());
    fs::create_dir_all(&path).map_err(io)?;
    // As an emptyDir is: any user of the pod may write. The directories above let nobody else pass.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(io)?;
    if let Some(secret) = &volume.secret {
        storage.project(secret, &path).map_err(|why| failed(&why))?;
    }
    Ok(path)
}
