//! The resource limits that the command starts with.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;

use super::Confinement;
use super::wire::Order;

/// What one process may allocate above the container's memory limit.
const HEADROOM_BYTES: u64 = 1 << 30;

/// Sets soft and hard limits alike, so that the command cannot raise them again.
pub fn apply(order: &Order) -> nix::Result<()> {
    let limits = order.spec.limits;
    at_most(Resource::RLIMIT_CORE, 0)?;
    at_most(Resource::RLIMIT_NOFILE, limits.open_files)?;
    at_most(Resource::RLIMIT_NPROC, limits.processes.saturating_add(counted_already(order.confinement)))?;
    at_most(Resource::RLIMIT_FSIZE, limits.file_bytes)?;
    if let Some(bytes) = limits.memory_bytes {
        // The supervisor counts and kills; this only stops what grows faster than it can count. Not RLIMIT_AS:
        // runtimes reserve far more address space than they use.
        at_most(Resource::RLIMIT_DATA, bytes.saturating_add(HEADROOM_BYTES))?;
    }
    Ok(())
}

/// The limit counts the user's processes, not the container's. In a user namespace of its own a container is counted
/// apart (since Linux 5.14); otherwise there must be room for those that the user has already.
fn counted_already(confinement: Confinement) -> u64 {
    match confinement {
        Confinement::Namespaces => 0,
        Confinement::LandlockOnly | Confinement::Unconfined => tasks_of_this_user(),
    }
}

fn tasks_of_this_user() -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    let me = geteuid().as_raw();
    let threads = entries.flatten().filter_map(|entry| {
        let tasks = fs::metadata(entry.path().join("task")).ok().filter(|tasks| tasks.uid() == me)?;
        // One for each thread, besides the folder's own two.
        Some(tasks.nlink().saturating_sub(2))
    });
    threads.fold(0, u64::saturating_add)
}

fn at_most(resource: Resource, wanted: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = wanted.min(hard);
    setrlimit(resource, limit, limit)
}
