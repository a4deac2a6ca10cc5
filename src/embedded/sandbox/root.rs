//! Builds the container's root: a small file tree in memory with what a program needs of the machine, read-only,
//! and the container's own folders.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::pivot_root;

use super::Mount;
use super::wire::{Failure, Order, Step};

/// Where the new root is mounted until it is the root. Any folder would do; this one exists everywhere.
const BASE: &str = "/tmp";
/// Where the machine's root is while the new one is built.
const OLD: &str = "/old";

/// Programs and libraries. Distributions make some of these links into `/usr`; the links are copied.
pub const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What of `/etc` programs need and what says nothing about the machine's users, keys or networks.
pub const ETC: [&str; 13] = [
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

/// How the machine finds names: for a container that may use its network.
pub const NAMES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Devices without a device behind them, by their names in `/dev`.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Bounds the mounts that one mount point in a system folder may cost where the kernel lays no folders over others.
const MAX_COPIED_ENTRIES: usize = 200;

const NOTHING: Option<&str> = None;

/// Makes this process, which must be alone in its mount namespace, see the container's root.
pub fn build(order: &Order) -> Result<(), Failure> {
    change_root()?;
    for path in SYSTEM.iter().chain(&ETC) {
        show(Path::new(path)).step(format!("show `{path}`"))?;
    }
    write_etc(order).step("write /etc")?;
    if order.spec.network {
        show_names().step("show how names are found")?;
    }
    make_devices().step("make /dev")?;
    make_proc()?;
    let mut mounts: Vec<&Mount> = order.spec.mounts.iter().collect();
    // A folder inside another one comes after it.
    mounts.sort_by_key(|ordered| ordered.path.components().count());
    let mut access: Vec<Shown> = SYSTEM.iter().chain(&ETC).map(|path| Shown::read_only(path)).collect();
    // Mounts of their own that are the container's to write to.
    access
        .extend(["/dev", "/proc", "/tmp"].map(|path| Shown { path: PathBuf::from(path), read_only: false }));
    if !mounts.iter().any(|ordered| ordered.path == Path::new("/tmp")) {
        tmpfs("/tmp", "mode=1777,size=64m").step("make /tmp")?;
    }
    // Where the ordered folders wait until the machine's root is gone: a name that no order can know.
    let waiting = PathBuf::from(format!("/.waiting-{}", uuid::Uuid::new_v4().simple()));
    let held = hold(&mounts, &waiting)?;
    leave_old_root()?;
    // From here on nothing of the machine can be reached by any path, so paths from the order, and links in folders
    // that a container has written to, can do no harm; nor can making folders, once the system's are read-only.
    seal(&access)?;
    for (ordered, held) in mounts.iter().zip(held) {
        let place = place(ordered, &held, &waiting)
            .step(format!("the embedded cluster cannot mount a folder at `{}`", ordered.path.display()))?;
        access.push(Shown { path: place, read_only: ordered.read_only });
        if ordered.read_only {
            // The next one may be for a place inside, which must not be made in the folder itself.
            seal(&access)?;
        }
    }
    // Runtimes make a working directory that the image lacks.
    mount_point(&order.spec.working_dir, &waiting).step("make the working directory")?;
    fs::remove_dir(waiting).step("clear up")?;
    access.push(Shown::read_only("/"));
    seal(&access)
}

/// A path and whether what is mounted at and below it is to be read-only.
struct Shown {
    path: PathBuf,
    read_only: bool,
}

impl Shown {
    fn read_only(path: &str) -> Self {
        Self { path: PathBuf::from(path), read_only: true }
    }
}

/// Keeps hold of the ordered folders in a place that leads nowhere else.
fn hold(mounts: &[&Mount], waiting: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir(waiting).step("make a place for folders")?;
    let hold = |(index, ordered): (usize, &&Mount)| {
        let held = waiting.join(index.to_string());
        fs::create_dir(&held).step("make a place for folders")?;
        bind(&in_old(&ordered.host), &held, MsFlags::empty())
            .step(format!("mount the folder `{}`", ordered.host.display()))?;
        Ok(held)
    };
    mounts.iter().enumerate().map(hold).collect()
}

/// Shows a held folder where it was ordered; the place, without links.
fn place(ordered: &Mount, held: &Path, waiting: &Path) -> io::Result<PathBuf> {
    let place = mount_point(&ordered.path, waiting)?;
    mount(Some(held), &place, NOTHING, MsFlags::MS_MOVE, NOTHING)?;
    fs::remove_dir(held)?;
    Ok(place)
}

/// Makes a folder and those above it; its path, without links. In the machine's folders, which are read-only,
/// nothing can be made: the nearest one that exists is replaced by one that holds the same and the new folder.
fn mount_point(path: &Path, waiting: &Path) -> io::Result<PathBuf> {
    match fs::create_dir_all(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            let nearest = path.ancestors().find(|ancestor| ancestor.is_dir()).ok_or(error)?;
            let missing = path.strip_prefix(nearest).map_err(io::Error::other)?;
            let nearest = fs::canonicalize(nearest)?;
            // Laid over others, a folder does not show what is mounted below it.
            if has_mounts_below(&nearest)? || lay_over(&nearest, missing, waiting).is_err() {
                copy_entries(&nearest, waiting)?;
                fs::create_dir_all(path)?;
            }
        }
        Err(error) => return Err(error),
    }
    fs::canonicalize(path)
}

/// Lays a tree with nothing but the missing folder over the nearest one: an overlay, which user namespaces may
/// mount since Linux 5.11.
fn lay_over(nearest: &Path, missing: &Path, waiting: &Path) -> io::Result<()> {
    let lower = nearest.to_str().filter(|path| !path.contains([':', ',', '\\']));
    let lower = lower.ok_or(io::ErrorKind::InvalidInput)?;
    let above = waiting.join("above");
    tmpfs(&above, "mode=755,size=1m")?;
    let laid = fs::create_dir_all(above.join(missing)).and_then(|()| {
        let layers = format!("lowerdir={}:{lower}", above.display());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY;
        Ok(mount(Some("overlay"), nearest, Some("overlay"), flags, Some(layers.as_str()))?)
    });
    // The overlay keeps what it was made of.
    umount2(&above, MntFlags::MNT_DETACH)?;
    fs::remove_dir(&above)?;
    laid
}

/// Replaces a folder by a writable one in which each entry is mounted again.
fn copy_entries(nearest: &Path, waiting: &Path) -> io::Result<()> {
    let entries: Vec<fs::DirEntry> = fs::read_dir(nearest)?.collect::<Result<_, _>>()?;
    if entries.len() > MAX_COPIED_ENTRIES {
        return Err(io::Error::other(format!(
            "`{}` is read-only and has too many entries",
            nearest.display()
        )));
    }
    let original = waiting.join("original");
    fs::create_dir(&original)?;
    bind(nearest, &original, MsFlags::MS_REC)?;
    tmpfs(nearest, "mode=755,size=1m")?;
    for entry in entries {
        let name = entry.file_name();
        show_as(&original.join(&name), &nearest.join(&name))?;
    }
    umount2(&original, MntFlags::MNT_DETACH)?;
    fs::remove_dir(&original)
}

fn has_mounts_below(path: &Path) -> io::Result<bool> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points = table.lines().filter_map(|line| Some(PathBuf::from(unescape(line.split(' ').nth(4)?))));
    Ok(points.any(|point| point != path && point.starts_with(path)))
}

fn change_root() -> Result<(), Failure> {
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
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
    if fs::symlink_metadata(&source).is_err() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    show_as(&source, path)
}

fn show_as(source: &Path, path: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(source)?, path);
    }
    if kind.is_dir() {
        fs::create_dir(path)?;
    } else {
        fs::write(path, "")?;
    }
    bind(source, path, MsFlags::MS_REC)
}

fn bind(source: &Path, path: &Path, flags: MsFlags) -> io::Result<()> {
    Ok(mount(Some(source), path, NOTHING, MsFlags::MS_BIND | flags, NOTHING)?)
}

fn write_etc(order: &Order) -> io::Result<()> {
    let (uid, hostname) = (order.uid, &order.spec.hostname);
    fs::create_dir_all("/etc")?;
    fs::write(
        "/etc/passwd",
        format!(
            "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{uid}:{uid}:nonroot:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
        ),
    )?;
    fs::write("/etc/group", format!("root:x:0:\nnonroot:x:{uid}:\nnogroup:x:65534:\n"))?;
    fs::write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")?;
    fs::write("/etc/hostname", format!("{hostname}\n"))?;
    fs::write("/etc/hosts", format!("127.0.0.1 localhost\n::1 localhost\n127.0.0.1 {hostname}\n"))
}

/// Copies, as one of the two is often a link to where the container cannot look.
fn show_names() -> io::Result<()> {
    for name in NAMES {
        // A machine without the file finds names by its defaults.
        if let Ok(text) = fs::read(in_old(&follow(name))) {
            fs::write(name, text)?;
        }
    }
    fs::write("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
}

/// Where a link of the machine leads, if it is one.
fn follow(name: &str) -> PathBuf {
    let path = Path::new(name);
    match fs::read_link(in_old(path)) {
        Ok(target) if target.is_absolute() => target,
        Ok(target) => path.parent().unwrap_or(path).join(target),
        Err(_) => path.to_owned(),
    }
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
    tmpfs("/dev/shm", "mode=1777,size=64m")
}

fn make_proc() -> Result<(), Failure> {
    fs::create_dir("/proc").step("make /proc")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NOTHING).step("make /proc")
}

fn tmpfs(path: impl AsRef<Path>, options: &str) -> io::Result<()> {
    // The folder is there already, or cannot be made, which the mount says.
    let _there = fs::create_dir(path.as_ref());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("tmpfs"), path.as_ref(), Some("tmpfs"), flags, Some(options))?)
}

/// Makes mounts read-only: those whose nearest path in the list says so.
///
/// A bind mount takes its flags from its source and cannot be made read-only in one step; the kernel insists that
/// the flags it already has are kept. Mounts below came along with the folder.
fn seal(shown: &[Shown]) -> Result<(), Failure> {
    let table = fs::read_to_string("/proc/self/mountinfo").step("list the mounts")?;
    for line in table.lines() {
        // proc_pid_mountinfo(5): id, parent, device, root, mount point, mount options.
        let mut fields = line.split(' ').skip(4);
        let (Some(point), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let point = PathBuf::from(unescape(point));
        let above = shown.iter().filter(|shown| point.starts_with(&shown.path));
        let nearest = above.max_by_key(|shown| shown.path.components().count());
        let already = options.split(',').any(|option| option == "ro");
        if already || !nearest.is_some_and(|nearest| nearest.read_only) {
            continue;
        }
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags_of(options);
        mount(NOTHING, &point, NOTHING, flags, NOTHING)
            .step(format!("make `{}` read-only", point.display()))?;
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
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}
