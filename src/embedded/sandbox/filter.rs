//! The seccomp filter: takes system calls away that a container's command has no business with.
//!
//! A list of what is denied, not of what is allowed: the commands are anybody's, and what a language runtime needs
//! is not known here. The list is what opens the network, reaches into other processes, or has been the way into
//! most of the kernel's faults that an ordinary user could use.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::Confinement;
use super::wire::{Failure, Order, Step};

/// Calls denied whatever their arguments.
const DENIED: [i64; 39] = [
    // Another process's memory, files and registers.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    // The kernel's keys, which are not in any namespace.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Parts of the kernel with a long history of faults; io_uring also opens sockets past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
];

/// `clone` flags that make namespaces.
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// `TIOCSTI` and `TIOCLINUX`, whose types differ between C libraries. ioctl_tty(2), asm-generic/ioctls.h.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// The x32 calls are the x86-64 ones with this bit, and pass for x86-64 otherwise. Kernels built with them are rare.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
/// The x32 calls with numbers of their own: `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const X32_ONLY: [i64; 4] = [521, 528, 539, 540];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filter to this process and what it will be. Whether there was one for this processor.
///
/// `scopes` says that Landlock keeps signals inside already.
pub fn apply(order: &Order, scopes: bool) -> Result<bool, Failure> {
    if order.confinement == Confinement::Unconfined {
        return Ok(false);
    }
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Err(Failure::setup("filter system calls", "unknown on this processor"));
    };
    let denied = denied(order, scopes).step("filter system calls")?;
    // The arguments of `clone3` are behind a pointer, where a filter cannot look. C libraries that hear that the
    // kernel does not know it use `clone`.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, errno) in [(denied, libc::EPERM), (unknown, libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(and_x32(rules), SeccompAction::Allow, action, arch);
        let program = filter.and_then(BpfProgram::try_from).step("filter system calls")?;
        apply_filter(&program).step("filter system calls")?;
    }
    Ok(true)
}

fn denied(order: &Order, scopes: bool) -> Result<Rules, BackendError> {
    let mut rules: Rules = DENIED.map(|call| (call, Vec::new())).into_iter().collect();
    let namespaces = NAMESPACE_FLAGS.iter().map(|flag| {
        let bit = u64::from(flag.unsigned_abs());
        only_if(0, SeccompCmpOp::MaskedEq(bit), bit)
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    // Typing into the terminal that the gateway was started from.
    let terminal = TERMINAL_INPUT.map(|request| only_if(1, SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<Result<_, _>>()?);
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    match order.confinement {
        Confinement::Namespaces if order.spec.network => only_internet(&mut rules)?,
        Confinement::Namespaces => {
            rules.insert(libc::SYS_socket, vec![only_if(0, SeccompCmpOp::Ne, unix)?]);
        }
        Confinement::LandlockOnly | Confinement::Unconfined => {
            if order.spec.network {
                only_internet(&mut rules)?;
            } else {
                no_sockets(&mut rules)?;
            }
            if !scopes {
                no_signals(order, &mut rules)?;
            }
        }
    }
    Ok(rules)
}

/// With the machine's network: sockets of other families are denied, Unix ones included, since the machine's sockets
/// that have no path are in the same namespace then. The same goes for pairs of datagram sockets, as below.
fn only_internet(rules: &mut Rules) -> Result<(), BackendError> {
    let others = [libc::AF_INET, libc::AF_INET6].map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(others.into_iter().collect::<Result<_, _>>()?)?]);
    rules.insert(libc::SYS_socketpair, vec![datagrams()?]);
    Ok(())
}

fn datagrams() -> Result<SeccompRule, BackendError> {
    only_if(1, SeccompCmpOp::MaskedEq(0xf), u64::from(libc::SOCK_DGRAM.unsigned_abs()))
}

/// Without a network of its own.
fn no_sockets(rules: &mut Rules) -> Result<(), BackendError> {
    // Not even Unix sockets: Landlock does not keep a process from connecting to one that has a path, such as the
    // container runtime's. Pairs stay, which are connected to each other, except those of datagrams, which can send
    // to any name.
    rules.insert(libc::SYS_socket, Vec::new());
    rules.insert(libc::SYS_connect, Vec::new());
    rules.insert(libc::SYS_socketpair, vec![datagrams()?]);
    Ok(())
}

/// Without a PID namespace or Landlock's scopes: no signals to process groups or everybody, to the gateway, or to the
/// process that ends this container. The user's other processes can be signalled; there is no way to name them all.
fn no_signals(order: &Order, rules: &mut Rules) -> Result<(), BackendError> {
    let supervisor = std::os::unix::process::parent_id();
    let mut to_them = vec![only_if(0, SeccompCmpOp::Ge, 0x8000_0000)?];
    for pid in [order.gateway, supervisor] {
        to_them.push(only_if(0, SeccompCmpOp::Eq, u64::from(pid))?);
    }
    for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        rules.insert(call, to_them.clone());
    }
    // These can name a single thread, or a process for a later call.
    rules.insert(libc::SYS_tkill, Vec::new());
    rules.insert(libc::SYS_pidfd_open, Vec::new());
    Ok(())
}

/// A rule that holds if the lower half of this argument compares so.
fn only_if(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}

#[cfg(target_arch = "x86_64")]
fn and_x32(rules: Rules) -> Rules {
    let own = X32_ONLY.map(|call| (call | X32, Vec::new()));
    let shared: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    rules.into_iter().chain(shared).chain(own).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn and_x32(rules: Rules) -> Rules {
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::sandbox::{ContainerSpec, Limits};

    fn order(confinement: Confinement) -> Order {
        let spec = ContainerSpec {
            hostname: String::new(),
            argv: Vec::new(),
            env: Vec::new(),
            working_dir: "/".into(),
            mounts: Vec::new(),
            network: false,
            limits: Limits::default(),
        };
        Order { confinement, spec, uid: 1, gateway: 4321 }
    }

    /// Kernels before 6.12 cannot be had in a test; that the rules are there can be seen.
    #[test]
    fn signals_are_filtered_only_where_nothing_else_keeps_them_in() {
        for (confinement, scopes, filtered) in [
            (Confinement::LandlockOnly, false, true),
            (Confinement::LandlockOnly, true, false),
            (Confinement::Namespaces, false, false),
        ] {
            let rules = denied(&order(confinement), scopes).unwrap();
            assert_eq!(rules.contains_key(&libc::SYS_kill), filtered, "{confinement:?} {scopes}");
        }
        let gateway = only_if(0, SeccompCmpOp::Eq, 4321).unwrap();
        assert!(
            denied(&order(Confinement::LandlockOnly), false).unwrap()[&libc::SYS_kill].contains(&gateway)
        );
    }
}
