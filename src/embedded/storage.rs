//! What the embedded cluster has only when it is asked for: Secrets, claims, and a network for one image.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, SecretVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::EmbeddedOptions;
use super::folder;
use super::store::Store;

/// A Secret's key is at most so long (the API server's own bound is 1 MiB for all together).
const MOST_KEY_BYTES: u64 = 1 << 20;

/// What is absent by default.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedExtras {
    /// Secrets by name, in every namespace: a folder each, of which every file is a key. They are mounted and never
    /// served.
    pub secrets: BTreeMap<String, PathBuf>,
    /// PersistentVolumeClaims of the first namespace. Each is a folder that goes when the cluster does.
    pub claims: Vec<String>,
    /// The image whose init containers may use this machine's network; no other container may.
    pub network_image: Option<String>,
}

/// The same, made.
#[derive(Debug, Default)]
pub struct Storage {
    secrets: BTreeMap<String, PathBuf>,
    claims: BTreeMap<(String, String), PathBuf>,
    /// See [`EmbeddedExtras::network_image`].
    pub network_image: Option<String>,
}

impl Storage {
    /// Makes the claims' folders below `home`.
    ///
    /// # Errors
    /// The file system's.
    pub fn make(home: &Path, passing: Option<u32>, options: &EmbeddedOptions) -> io::Result<Self> {
        let extras = &options.extras;
        let namespace = options.namespaces.first().map_or("default", String::as_str);
        let mut claims = BTreeMap::new();
        if !extras.claims.is_empty() {
            let all = home.join("claims");
            folder::make_private(&all, passing)?;
            for name in &extras.claims {
                let path = all.join(name);
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
                claims.insert((namespace.to_owned(), name.clone()), path);
            }
        }
        Ok(Self { secrets: extras.secrets.clone(), claims, network_image: extras.network_image.clone() })
    }

    /// Makes the API's objects: claims alone.
    pub fn publish(&self, store: &Store) {
        for (namespace, name) in self.claims.keys() {
            let metadata = ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            };
            let spec = Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteMany".to_owned()]),
                ..PersistentVolumeClaimSpec::default()
            });
            let status = Some(PersistentVolumeClaimStatus {
                phase: Some("Bound".to_owned()),
                ..PersistentVolumeClaimStatus::default()
            });
            // The map has no name twice.
            let _ = store.claims.create(PersistentVolumeClaim { metadata, spec, status });
        }
    }

    /// The folder of a claim.
    #[must_use]
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Path> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).map(PathBuf::as_path)
    }

    /// Copies what a volume asks for of a Secret into `path`, which is there, as the kubelet does.
    ///
    /// # Errors
    /// The kubelet's sentence, without what the Secret holds.
    pub fn project(&self, source: &SecretVolumeSource, path: &Path) -> Result<(), String> {
        let name = source.secret_name.as_deref().unwrap_or_default();
        let optional = source.optional.unwrap_or_default();
        let Some(secret) = self.secrets.get(name) else {
            return if optional { Ok(()) } else { Err(format!("secret {name:?} not found")) };
        };
        let io = |error: io::Error| format!("secret {name:?}: {error}");
        let keys: Vec<(String, String)> = match &source.items {
            Some(items) => items.iter().map(|item| (item.key.clone(), item.path.clone())).collect(),
            None => {
                let entries =
                    fs::read_dir(secret).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(io)?;
                let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
                names.map(|name| (name.clone(), name)).collect()
            }
        };
        for (key, place) in keys {
            // A key is a file's name, and a place one below the volume; the API server lets nothing else pass.
            if [&key, &place]
                .iter()
                .any(|name| name.is_empty() || name.contains('/') || name.starts_with(".."))
            {
                return Err(format!("secret {name:?}: {key:?} is not a key"));
            }
            let file = secret.join(&key);
            match fs::metadata(&file) {
                Ok(metadata) if metadata.is_file() && metadata.len() <= MOST_KEY_BYTES => {}
                Ok(_) => return Err(format!("secret {name:?}: {key:?} is not a file of at most 1 MiB")),
                Err(error) if error.kind() == io::ErrorKind::NotFound && optional => continue,
                Err(_) => return Err(format!("references non-existent secret key: {key}")),
            }
            let copy = path.join(&place);
            fs::copy(&file, &copy).map_err(io)?;
            // The container runs as a user of its own; the directories above let nobody else pass.
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o444)).map_err(io)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(io)
    }
}
