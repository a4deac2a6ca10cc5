//! The resource limits that the command starts with.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::wire::Order;

/// What one process may allocate above the container's memory limit.
const HEADROOM_BYTES: u64 = 1 << 30;

/// Sets soft and hard limits alike, so that the command cannot raise them again.
pub fn apply(order: &Order) -> nix::Result<()> {
    let limits = order.limits;
    at_most(Resource::RLIMIT_CORE, 0)?;
    at_most(Resource::RLIMIT_NOFILE, limits.open_files)?;
    at_most(Resource::RLIMIT_NPROC, limits.processes)?;
    at_most(Resource::RLIMIT_FSIZE, limits.file_bytes)?;
    if let Some(bytes) = limits.memory_bytes {
        // The supervisor counts and kills; this only stops what grows faster than it can count. Not RLIMIT_AS:
        // runtimes reserve far more address space than they use.
        at_most(Resource::RLIMIT_DATA, bytes.saturating_add(HEADROOM_BYTES))?;
    }
    Ok(())
}

fn at_most(resource: Resource, wanted: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = wanted.min(hard);
    setrlimit(resource, limit, limit)
}
