//! Builds the container's root: a small file tree in memory with what a program needs of the machine, read-only,
//! and the container's own folders.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::pivot_root;

use super::wire::{Failure, Order, Step};

/// Where the new root is mounted until it is the root. Any folder would do; this one exists everywhere.
const BASE: &str = "/tmp";
/// Where the machine's root is while the new one is built.
const OLD: &str = "/old";

/// Programs and libraries. Distributions make some of these links into `/usr`; the links are copied.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What of `/etc` programs need and what says nothing about the machine's users, keys or networks.
const ETC: [&str; 13] = [
    "/etc/alternatives",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const NOTHING: Option<&str> = None;

/// Makes this process, which must be alone in its mount namespace, see the container's root.
pub fn build(order: &Order) -> Result<(), Failure> {
    change_root()?;
    for path in SYSTEM.iter().chain(&ETC) {
        show(Path::new(path)).step(format!("show `{path}`"))?;
    }
    write_etc(order).step("write /etc")?;
    make_devices().step("make /dev")?;
    make_proc()?;
    let mut read_only: Vec<PathBuf> = SYSTEM.iter().chain(&ETC).map(PathBuf::from).collect();
    let mut mounts: Vec<_> = order.mounts.iter().collect();
    // A folder inside another one comes after it.
    mounts.sort_by_key(|ordered| ordered.path.components().count());
    if !mounts.iter().any(|ordered| ordered.path == Path::new("/tmp")) {
        tmpfs("/tmp", "mode=1777,size=64m").step("make /tmp")?;
    }
    for ordered in &mounts {
        let step = || format!("show the folder at `{}`", ordered.path.display());
        fs::create_dir_all(&ordered.path).step(step())?;
        mount(
            Some(&in_old(&ordered.host)),
            &ordered.path,
            NOTHING,
            MsFlags::MS_BIND,
            NOTHING,
        )
        .step(step())?;
        if ordered.read_only {
            read_only.push(ordered.path.clone());
        }
    }
    // Runtimes make a working directory that the image lacks.
    fs::create_dir_all(&order.working_dir).step("make the working directory")?;
    leave_old_root()?;
    seal(&read_only)
}

fn change_root() -> Result<(), Failure> {
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )
    .step("keep mounts private")?;
    tmpfs(BASE, "mode=755,size=16m").step("make a root")?;
    let old = Path::new(BASE).join(OLD.trim_start_matches('/'));
    fs::create_dir(&old).step("make a place for the old root")?;
    pivot_root(BASE, &old).step("change the root")?;
    std::env::set_current_dir("/").step("enter the root")
}

fn leave_old_root() -> Result<(), Failure> {
    umount2(OLD, MntFlags::MNT_DETACH).step("leave the old root")?;
    fs::remove_dir(OLD).step("leave the old root")
}

fn in_old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Shows a file, folder or link of the machine at the same path, if it exists.
fn show(path: &Path) -> io::Result<()> {
    let source = in_old(path);
    let Ok(metadata) = fs::symlink_metadata(&source) else {
        return Ok(());
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    if metadata.is_symlink() {
        return symlink(fs::read_link(&source)?, path);
    }
    if metadata.is_dir() {
        fs::create_dir(path)?;
    } else {
        fs::write(path, "")?;
    }
    Ok(mount(
        Some(&source),
        path,
        NOTHING,
        MsFlags::MS_BIND | MsFlags::MS_REC,
        NOTHING,
    )?)
}

fn write_etc(order: &Order) -> io::Result<()> {
    let Order { uid, hostname, .. } = order;
    fs::create_dir_all("/etc")?;
    fs::write(
        "/etc/passwd",
        format!(
            "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{uid}:{uid}:nonroot:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
        ),
    )?;
    fs::write(
        "/etc/group",
        format!("root:x:0:\nnonroot:x:{uid}:\nnogroup:x:65534:\n"),
    )?;
    fs::write(
        "/etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    )?;
    fs::write("/etc/hostname", format!("{hostname}\n"))?;
    fs::write(
        "/etc/hosts",
        format!("127.0.0.1 localhost\n::1 localhost\n127.0.0.1 {hostname}\n"),
    )
}

fn make_devices() -> io::Result<()> {
    fs::create_dir("/dev")?;
    for name in DEVICES {
        show(&Path::new("/dev").join(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, Path::new("/dev").join(name))?;
    }
    Ok(tmpfs("/dev/shm", "mode=1777,size=64m")?)
}

fn make_proc() -> Result<(), Failure> {
    fs::create_dir("/proc").step("make /proc")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NOTHING).step("make /proc")
}

fn tmpfs(path: &str, options: &str) -> nix::Result<()> {
    // The folder is there already, or cannot be made, which the mount says.
    let _there = fs::create_dir(path);
    mount(
        Some("tmpfs"),
        path,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(options),
    )
}

/// Makes the mounts at and below these paths, and the root itself, read-only.
///
/// A bind mount takes its flags from its source and cannot be made read-only in one step; the kernel insists that
/// the flags it already has are kept. Mounts below came along with the folder.
fn seal(read_only: &[PathBuf]) -> Result<(), Failure> {
    let table = fs::read_to_string("/proc/self/mountinfo").step("list the mounts")?;
    for line in table.lines() {
        // proc_pid_mountinfo(5): id, parent, device, root, mount point, mount options.
        let mut fields = line.split(' ').skip(4);
        let (Some(point), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let point = PathBuf::from(unescape(point));
        if point == Path::new("/") || read_only.iter().any(|path| point.starts_with(path)) {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags_of(options);
            mount(NOTHING, &point, NOTHING, flags, NOTHING)
                .step(format!("make `{}` read-only", point.display()))?;
        }
    }
    Ok(())
}

fn flags_of(options: &str) -> MsFlags {
    options
        .split(',')
        .map(|option| match option {
            "nosuid" => MsFlags::MS_NOSUID,
            "nodev" => MsFlags::MS_NODEV,
            "noexec" => MsFlags::MS_NOEXEC,
            "noatime" => MsFlags::MS_NOATIME,
            "nodiratime" => MsFlags::MS_NODIRATIME,
            "relatime" => MsFlags::MS_RELATIME,
            _other => MsFlags::empty(),
        })
        .fold(MsFlags::empty(), |all, flag| all | flag)
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &str) -> String {
    field
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}
