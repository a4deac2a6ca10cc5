//! Landlock: what of the file tree a container's command may open, and, on newer kernels, whom it may signal.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::root::{DEVICES, ETC, NAMES, SYSTEM};
use super::wire::{Failure, Order, Step};
use super::{Confinement, Mount};

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
    let asked = order.confinement != Confinement::Unconfined;
    match (status.ruleset, order.confinement) {
        (RulesetStatus::FullyEnforced, _) => Ok(Restricted { files: true, scopes: asked }),
        (RulesetStatus::PartiallyEnforced, _) => Ok(Restricted { files: true, scopes: false }),
        (RulesetStatus::NotEnforced, Confinement::Namespaces | Confinement::Unconfined) => {
            Ok(Restricted::default())
        }
        (RulesetStatus::NotEnforced, Confinement::LandlockOnly) => {
            Err(Failure::setup("restrict files with Landlock", "this kernel has none, or it is switched off"))
        }
    }
}

fn ruleset(order: &Order) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(KNOWN);
    let read = AccessFs::from_read(KNOWN);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let devices = DEVICES.map(|name| Path::new("/dev").join(name));
    let ruleset = Ruleset::default().handle_access(all)?;
    let ruleset = match order.confinement {
        // No rule allows a port: on kernels that know, this is a second lock on the network.
        Confinement::Namespaces | Confinement::LandlockOnly => {
            let ports = match order.spec.network {
                true => AccessNet::BindTcp.into(),
                false => AccessNet::from_all(KNOWN),
            };
            ruleset.handle_access(ports)?.scope(Scope::from_all(KNOWN))?
        }
        Confinement::Unconfined => ruleset,
    };
    let ruleset = ruleset.create()?.add_rules(path_beneath_rules(devices, device))?;
    // Paths that do not exist are passed over.
    let ruleset = match order.confinement {
        // All of this root is the container's; what it may write is what was mounted writable.
        Confinement::Namespaces => ruleset
            .add_rules(path_beneath_rules(["/"], read))?
            .add_rules(path_beneath_rules(["/proc"], read | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(["/tmp", "/dev/shm"], all))?,
        Confinement::LandlockOnly | Confinement::Unconfined => ruleset
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules(ETC, AccessFs::ReadFile | AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(PROC, AccessFs::ReadFile | AccessFs::ReadDir))?,
    };
    let ruleset = match (order.spec.network, order.confinement) {
        (true, Confinement::LandlockOnly | Confinement::Unconfined) => {
            ruleset.add_rules(path_beneath_rules(NAMES, AccessFs::ReadFile))?
        }
        (true, Confinement::Namespaces) | (false, _) => ruleset,
    };
    let place = |ordered: &Mount| match order.confinement {
        Confinement::Namespaces => ordered.path.clone(),
        Confinement::LandlockOnly | Confinement::Unconfined => ordered.host.clone(),
    };
    let (read_only, writable): (Vec<_>, Vec<_>) =
        order.spec.mounts.iter().partition(|ordered| ordered.read_only);
    ruleset
        .add_rules(path_beneath_rules(read_only.into_iter().map(place), read))?
        .add_rules(path_beneath_rules(writable.into_iter().map(place), all))
}
