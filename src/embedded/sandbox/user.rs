//! Who the launcher is, how it stops being root, and what a user namespace shows.

use std::fs;

use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};

use super::wire::{Failure, Step};

/// A user and a group id on the machine.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    uid: Uid,
    gid: Gid,
}

impl Identity {
    /// The ones in force.
    pub fn current() -> Self {
        Self { uid: geteuid(), gid: getegid() }
    }
}

/// Whether this process is root, as far as it can see.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Gives root up for good: no groups, then the group, then the user, in the only order that works.
pub fn become_unprivileged(id: u32) -> Result<(), Failure> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    setgroups(&[]).step("leave root's groups")?;
    setresgid(gid, gid, gid).step("leave root's group")?;
    setresuid(uid, uid, uid).step("stop being root")?;
    if setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
        return Err(Failure::setup("stop being root", "root could be had back"));
    }
    // The kernel gives a process that changed its user to root in /proc, where its id maps are written.
    prctl::set_dumpable(true).step("own the process's entries in /proc")
}

/// In the user namespace just made, shows the identity of the machine as `inside`, and nobody else.
pub fn map(inside: u32, on_the_machine: Identity) -> Result<(), Failure> {
    prctl::set_dumpable(true).step("own the process's entries in /proc")?;
    // A group may only be mapped without privilege once nobody can leave groups that deny access.
    fs::write("/proc/self/setgroups", "deny").step("close the list of groups")?;
    let Identity { uid, gid } = on_the_machine;
    fs::write("/proc/self/gid_map", format!("{inside} {gid} 1")).step("map the group")?;
    fs::write("/proc/self/uid_map", format!("{inside} {uid} 1")).step("map the user")
}
