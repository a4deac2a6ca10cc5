//! Landlock: what of the file tree a container's command may open, and, on newer kernels, whom it may signal.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::root::{DEVICES, ETC, SYSTEM};
use super::wire::{Failure, Level, Order, OrderedMount, Step};

/// The newest version whose rights are known here; older kernels enforce what they can.
const KNOWN: ABI = ABI::V6;

/// What of `/proc` programs read to learn about the machine, and their own entries. Not the others' entries.
const PROC: [&str; 9] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
];

/// What Landlock does for this container.
#[derive(Debug, Clone, Copy, Default)]
pub struct Restricted {
    /// Files are restricted.
    pub files: bool,
    /// Signals and abstract sockets are too.
    pub scopes: bool,
}

/// Restricts this process and what it will be.
pub fn restrict(order: &Order) -> Result<Restricted, Failure> {
    let status =
        ruleset(order).and_then(|rules| rules.restrict_self()).step("restrict files with Landlock")?;
    match (status.ruleset, order.level) {
        (RulesetStatus::FullyEnforced, _) => Ok(Restricted { files: true, scopes: true }),
        (RulesetStatus::PartiallyEnforced, _) => Ok(Restricted { files: true, scopes: false }),
        (RulesetStatus::NotEnforced, Level::Namespaces | Level::Unconfined) => Ok(Restricted::default()),
        (RulesetStatus::NotEnforced, Level::LandlockOnly) => {
            Err(Failure::setup("restrict files with Landlock", "this kernel has none, or it is switched off"))
        }
    }
}

fn ruleset(order: &Order) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(KNOWN);
    let read = AccessFs::from_read(KNOWN);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let devices = DEVICES.map(|name| Path::new("/dev").join(name));
    let ruleset = Ruleset::default()
        .handle_access(all)?
        // No rule allows a port: on kernels that know, this is a second lock on the network.
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(devices, device))?;
    // Paths that do not exist are passed over.
    let ruleset = match order.level {
        // All of this root is the container's; what it may write is what was mounted writable.
        Level::Namespaces => ruleset
            .add_rules(path_beneath_rules(["/"], read))?
            .add_rules(path_beneath_rules(["/proc"], read | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(["/tmp", "/dev/shm"], all))?,
        Level::LandlockOnly | Level::Unconfined => ruleset
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules(ETC, AccessFs::ReadFile | AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(PROC, AccessFs::ReadFile | AccessFs::ReadDir))?,
    };
    let place = |ordered: &OrderedMount| match order.level {
        Level::Namespaces => ordered.path.clone(),
        Level::LandlockOnly | Level::Unconfined => ordered.host.clone(),
    };
    let (read_only, writable): (Vec<_>, Vec<_>) = order.mounts.iter().partition(|ordered| ordered.read_only);
    ruleset
        .add_rules(path_beneath_rules(read_only.into_iter().map(place), read))?
        .add_rules(path_beneath_rules(writable.into_iter().map(place), all))
}
