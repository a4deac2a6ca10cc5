//! From a container's spec to the process that runs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};

use super::expand::expand;
use crate::embedded::images::{Image, SEARCH_PATH};
use crate::embedded::quantity;
use crate::embedded::runner::{LINKS, Launch};
use crate::embedded::sandbox::Mount;

/// What a container's process is made of, besides its spec.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The image.
    pub image: &'a Image,
    /// The pod's volumes on the host, by name.
    pub volumes: &'a BTreeMap<String, PathBuf>,
    /// A host directory with links to the image's commands.
    pub links: &'a Path,
    /// The pod's address.
    pub pod_ip: &'a str,
    /// Whether the container may use the machine's network.
    pub network: bool,
}

/// The process of `container`.
///
/// # Errors
/// A sentence for `CreateContainerConfigError`, as the kubelet words it.
pub fn prepare(pod: &Pod, container: &Container, around: Surroundings<'_>) -> Result<Launch, String> {
    check_user(pod, container)?;
    let env = environment(pod, container, around)?;
    let words = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|word| expand(word, &env)).collect()
    };
    let (command, args) = (words(&container.command), words(&container.args));
    let argv = match (command.is_empty(), args.is_empty()) {
        (true, true) => around.image.command.clone(),
        // The images have no entrypoint: arguments alone are the whole command.
        _ => command.into_iter().chain(args).collect(),
    };
    let mut mounts =
        vec![Mount { host: around.links.to_owned(), path: PathBuf::from(LINKS), read_only: true }];
    for mount in container.volume_mounts.iter().flatten() {
        let volume = around.volumes.get(&mount.name).ok_or_else(|| {
            format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name)
        })?;
        let host = match mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
            Some(sub) => {
                let host = volume.join(sub);
                std::fs::create_dir_all(&host).map_err(|_| {
                    format!("failed to create subPath directory for volumeMount {:?}", mount.name)
                })?;
                host
            }
            None => volume.clone(),
        };
        mounts.push(Mount {
            host,
            path: PathBuf::from(&mount.mount_path),
            // The kubelet mounts a Secret so in any case.
            read_only: mount.read_only.unwrap_or_default() || is_secret(pod, &mount.name),
        });
    }
    let limit = container.resources.as_ref().and_then(|r| r.limits.as_ref()).and_then(|l| l.get("memory"));
    Ok(Launch {
        network: around.network,
        hostname: pod.metadata.name.clone().unwrap_or_default(),
        argv,
        env: env.into_iter().collect(),
        workdir: container
            .working_dir
            .clone()
            .filter(|dir| !dir.is_empty())
            .unwrap_or_else(|| "/".to_owned()),
        mounts,
        memory_bytes: limit.and_then(|limit| quantity::units(&limit.0)),
    })
}

fn is_secret(pod: &Pod, volume: &str) -> bool {
    let mut volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.any(|known| known.name == volume && known.secret.is_some())
}

/// Refuses what the kubelet refuses. Which user a container runs as is for the sandbox: always the same one.
fn check_user(pod: &Pod, container: &Container) -> Result<(), String> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = container.security_context.as_ref();
    let user = own.and_then(|s| s.run_as_user).or_else(|| of_pod.and_then(|s| s.run_as_user));
    let non_root = own.and_then(|s| s.run_as_non_root).or_else(|| of_pod.and_then(|s| s.run_as_non_root));
    match (non_root, user) {
        (Some(true), Some(0)) => Err("container's runAsUser breaks non-root policy".to_owned()),
        (Some(true), None) => Err("container has runAsNonRoot and image will run as root".to_owned()),
        (Some(true), Some(_)) | (Some(false) | None, _) => Ok(()),
    }
}

/// The environment: the image's, then the container's, in which later variables may name earlier ones.
fn environment(
    pod: &Pod,
    container: &Container,
    around: Surroundings<'_>,
) -> Result<BTreeMap<String, String>, String> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let mut env = BTreeMap::from([
        ("PATH".to_owned(), SEARCH_PATH.to_owned()),
        ("HOSTNAME".to_owned(), name),
        ("HOME".to_owned(), "/".to_owned()),
    ]);
    for source in container.env_from.iter().flatten() {
        let config_map = source.config_map_ref.as_ref().map(|r| ("configmap", &r.name, r.optional));
        let secret = source.secret_ref.as_ref().map(|r| ("secret", &r.name, r.optional));
        if let Some((kind, name, optional)) = config_map.or(secret)
            && optional != Some(true)
        {
            return Err(format!("{kind} {name:?} not found"));
        }
    }
    // References see the container's own variables only, not the image's.
    let mut own = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        if let Some(value) = value_of(pod, variable, around, &own)? {
            own.insert(variable.name.clone(), value);
        }
    }
    env.extend(own);
    Ok(env)
}

fn value_of(
    pod: &Pod,
    variable: &EnvVar,
    around: Surroundings<'_>,
    earlier: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    let Some(source) = &variable.value_from else {
        return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), earlier)));
    };
    if let Some(key) = &source.secret_key_ref {
        return absent("secret", &key.name, key.optional);
    }
    if let Some(key) = &source.config_map_key_ref {
        return absent("configmap", &key.name, key.optional);
    }
    let Some(field) = &source.field_ref else {
        return Err(format!(
            "environment variable {:?} has a source that the embedded cluster lacks",
            variable.name
        ));
    };
    let meta = &pod.metadata;
    let value = match field.field_path.as_str() {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => Some(crate::embedded::node::NODE_NAME.to_owned()),
        "spec.serviceAccountName" => pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()),
        "status.hostIP" => Some(crate::embedded::node::NODE_IP.to_owned()),
        "status.podIP" => Some(around.pod_ip.to_owned()),
        other => return Err(format!("unsupported fieldPath: {other}")),
    };
    Ok(Some(value.unwrap_or_default()))
}

fn absent(kind: &str, name: &str, optional: Option<bool>) -> Result<Option<String>, String> {
    if optional == Some(true) { Ok(None) } else { Err(format!("{kind} {name:?} not found")) }
}
