//! The resource limits that the command starts with.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::wire::Order;

/// Sets soft and hard limits alike, so that the command cannot raise them again.
pub fn apply(order: &Order) -> nix::Result<()> {
    let limits = order.limits;
    at_most(Resource::RLIMIT_CORE, 0)?;
    at_most(Resource::RLIMIT_NOFILE, limits.open_files)?;
    at_most(Resource::RLIMIT_NPROC, limits.processes)?;
    at_most(Resource::RLIMIT_FSIZE, limits.file_bytes)?;
    Ok(())
}

fn at_most(resource: Resource, wanted: u64) -> nix::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let limit = wanted.min(hard);
    setrlimit(resource, limit, limit)
}
