//! What a pod's volumes take of the disk, and the message of the eviction when that is too much.
//!
//! Counted is what a walk finds, as the kubelet does without project quotas: blocks, so that a hole in a file is
//! nothing, and a file with several names once. A file without a name any more is not found, and neither is what
//! lies in a folder that a job has closed to its own user, unless the gateway runs as root. Logs are bounded
//! elsewhere, and no container has another layer to write to.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use nix::fcntl::OFlag;
use nix::libc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::embedded::quantity;

/// The shortest pause between two counts.
const PAUSE: Duration = Duration::from_millis(500);

/// A pause is this many times as long as the count before it, so that many files do not keep a core busy.
const PAUSE_PER_COUNT: u32 = 9;

/// `stat` counts blocks of this many bytes, whatever the file system's own are.
const BLOCK_BYTES: u64 = 512;

/// What a pod may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Each volume's folder and, where it has one, its limit.
    volumes: Vec<(String, PathBuf, Option<Limit>)>,
    /// Of all volumes together.
    total: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    text: String,
    bytes: u64,
}

impl Bounds {
    /// The bounds that a pod's spec sets; `None` when it sets none.
    #[must_use]
    pub fn of(spec: &PodSpec, folders: &BTreeMap<String, PathBuf>) -> Option<Self> {
        let limit = |name: &str| {
            let volume = spec.volumes.iter().flatten().find(|volume| volume.name == name)?;
            let text = &volume.empty_dir.as_ref()?.size_limit.as_ref()?.0;
            // Kubernetes takes a limit of zero for none.
            let bytes = quantity::units(text).filter(|bytes| *bytes > 0)?;
            Some(Limit { text: text.clone(), bytes })
        };
        let volumes: Vec<_> =
            folders.iter().map(|(name, folder)| (name.clone(), folder.clone(), limit(name))).collect();
        let total = total_limit(spec);
        let any = total.is_some() || volumes.iter().any(|(_, _, limit)| limit.is_some());
        any.then_some(Self { volumes, total })
    }

    /// Counts until the pod uses more than it may while `active` holds; then the eviction's message.
    pub async fn exceeded(self: Arc<Self>, active: impl Fn() -> bool) -> String {
        let mut pause = PAUSE;
        loop {
            sleep(pause).await;
            if !active() {
                continue;
            }
            let begun = Instant::now();
            let bounds = Arc::clone(&self);
            if let Ok(Some(message)) = spawn_blocking(move || bounds.check()).await {
                return message;
            }
            pause = PAUSE.max(begun.elapsed().saturating_mul(PAUSE_PER_COUNT));
        }
    }

    /// The eviction's message, in the kubelet's words, blank at the end included, if too much is used now.
    fn check(&self) -> Option<String> {
        let mut total = 0_u64;
        for (name, folder, limit) in &self.volumes {
            let used = disk_usage(folder);
            total = total.saturating_add(used);
            if let Some(limit) = limit.as_ref().filter(|limit| used > limit.bytes) {
                return Some(format!(
                    "Usage of EmptyDir volume {name:?} exceeds the limit {:?}. ",
                    limit.text
                ));
            }
        }
        let limit = self.total.filter(|limit| total > *limit)?;
        Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
            quantity::binary(limit)
        ))
    }
}

/// The sum of the containers' limits, or the highest that is needed while the pod initializes, if any names one.
fn total_limit(spec: &PodSpec) -> Option<u64> {
    let limit = |container: &Container| {
        let limits = container.resources.as_ref()?.limits.as_ref()?;
        quantity::units(&limits.get("ephemeral-storage")?.0)
    };
    let (mut sidecars, mut highest) = (None::<u64>, None::<u64>);
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    };
    for container in spec.init_containers.iter().flatten() {
        let with = add(sidecars, limit(container));
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = with;
        }
        highest = highest.max(with);
    }
    spec.containers.iter().map(limit).fold(sidecars, add).max(highest)
}

/// Bytes on the disk at and below `top`; the highest number if something lies so deep that it cannot be reached.
///
/// A container may be at work in it: a folder that it replaces by a link after it was listed is not entered.
fn disk_usage(top: &Path) -> u64 {
    let Ok(top) = fs::canonicalize(top) else {
        return 0;
    };
    let mut total = 0_u64;
    let mut known = HashSet::new();
    let mut left = vec![top.clone()];
    while let Some(folder) = left.pop() {
        let entries = match open_inside(&folder, &top) {
            // Listed through the descriptor, so that what is listed is what was looked at.
            Ok(Some(opened)) => (fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd())), opened),
            Ok(None) => continue,
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => return u64::MAX,
            Err(_gone_or_closed) => continue,
        };
        let (Ok(list), _opened) = entries else {
            continue;
        };
        for entry in list.flatten() {
            let Ok(about) = entry.metadata() else {
                continue;
            };
            if about.nlink() == 1 || about.is_dir() || known.insert((about.dev(), about.ino())) {
                total = total.saturating_add(about.blocks().saturating_mul(BLOCK_BYTES));
            }
            if about.is_dir() {
                left.push(folder.join(entry.file_name()));
            }
        }
    }
    total
}

/// Opens a folder, unless its path leads out of `top`.
fn open_inside(folder: &Path, top: &Path) -> io::Result<Option<File>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(folder)?;
    let path = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
    Ok(path.starts_with(top).then_some(opened))
}

#[cfg(test)]
mod tests;
