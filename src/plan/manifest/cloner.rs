//! The container that clones a repository into the work directory before anything else runs. It alone sees the token.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, KeyToPath, ResourceRequirements, SecretVolumeSource, Volume, VolumeMount,
};

use crate::plan::ClonePlan;
use crate::plan::manifest::{BEFORE_FILE, CLONE, Parts, containers, volumes};
use crate::plan::process::literal;

const SCRIPT: &str = include_str!("clone.sh");

const TOKEN_VOLUME: &str = "clone-token";
/// Where the cloner, and nothing else, finds the token.
const TOKEN_DIR: &str = "/kubepermit-token";
/// The Secret's key `<host>`.
const TOKEN_FILE: &str = "token";
/// The Secret's key `<host>.ca.crt`: certificates to trust for this host, in place of the image's.
const CA_FILE: &str = "ca.crt";
/// What belongs to the user and to the group of every container may be read, by nobody else.
const TOKEN_MODE: i32 = 0o440;

/// A pack is unpacked in memory, delta by delta; most of the work is the network's.
const REQUESTS: [(&str, &str); 3] = [("cpu", "50m"), ("memory", "64Mi"), ("ephemeral-storage", "1Mi")];
const LIMITS: [(&str, &str); 3] = [("cpu", "1"), ("memory", "512Mi"), ("ephemeral-storage", "64Mi")];

/// What git would otherwise take from its image, or ask a person for (git(1), "Environment variables").
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_ALLOW_PROTOCOL", "https"),
    ("GIT_ASKPASS", ""),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_LFS_SKIP_SMUDGE", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_TRACE_REDACT", "1"),
    ("HOME", "/tmp"),
    ("LC_ALL", "C"),
];

/// The operator's variables for every job that also lead the cloner out of its network.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"];

/// The cloner.
pub(super) fn container(parts: &Parts<'_>, clone: &ClonePlan) -> Container {
    let candidates = clone.reference.candidates();
    let candidate = |index: usize| candidates.get(index).cloned().unwrap_or_default();
    let mut command = vec!["sh".to_owned(), "-c".to_owned(), SCRIPT.to_owned(), CLONE.to_owned()];
    command.extend([
        clone.url.to_string(),
        clone.url.host().origin(),
        candidate(0),
        candidate(1),
        place(parts.workdir, clone),
        format!("{TOKEN_DIR}/{TOKEN_FILE}"),
        format!("{TOKEN_DIR}/{CA_FILE}"),
        BEFORE_FILE.to_owned(),
    ]);
    command.extend(clone.submodules.iter().cloned());
    let proxies = PROXIES.iter().filter_map(|name| {
        let value = parts.settings.extras.env.get(*name)?;
        Some((*name, value.as_str()))
    });
    let env = ENVIRONMENT.into_iter().chain(proxies).map(|(name, value)| EnvVar {
        name: name.to_owned(),
        value: Some(literal(value)),
        value_from: None,
    });
    let token = VolumeMount {
        name: TOKEN_VOLUME.to_owned(),
        mount_path: TOKEN_DIR.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    };
    let mut mounts = volumes::helper_mounts(parts.workdir);
    mounts.push(token);
    Container {
        name: CLONE.to_owned(),
        image: Some(clone.image.key()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(command.iter().map(|word| literal(word)).collect()),
        working_dir: Some(parts.workdir.to_owned()),
        env: Some(env.collect()),
        resources: Some(ResourceRequirements {
            requests: Some(containers::amounts(&REQUESTS)),
            limits: Some(containers::amounts(&LIMITS)),
            claims: None,
        }),
        security_context: Some(containers::security_context(Some(true))),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// The token of this one host. A Secret or key that is missing leaves the volume empty, and the clone is anonymous.
pub(super) fn token_volume(clone: &ClonePlan) -> Volume {
    let host = clone.url.host().name();
    let item = |key: String, path: &str| KeyToPath { key, path: path.to_owned(), mode: Some(TOKEN_MODE) };
    Volume {
        name: TOKEN_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(clone.secret.clone()),
            default_mode: Some(TOKEN_MODE),
            items: Some(vec![item(host.to_owned(), TOKEN_FILE), item(format!("{host}.ca.crt"), CA_FILE)]),
            optional: Some(true),
        }),
        ..Volume::default()
    }
}

/// What git in the command's container needs: it refuses a repository of another user, and under a pod profile
/// without a fixed user the cloner's may be another.
pub(super) fn environment(workdir: &str, clone: &ClonePlan) -> [(String, String); 3] {
    [("COUNT", "1".to_owned()), ("KEY_0", "safe.directory".to_owned()), ("VALUE_0", place(workdir, clone))]
        .map(|(name, value)| (format!("GIT_CONFIG_{name}"), value))
}

fn place(workdir: &str, clone: &ClonePlan) -> String {
    format!("{workdir}/{}", clone.subdir)
}
