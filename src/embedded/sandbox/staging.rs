//! Makes the folders that an order names reachable for the unprivileged user who will mount them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::wire::{Failure, Order, Step};

/// Where the folders are shown. The container's root is built over it later, so it may be any folder of any system.
const STAGE: &str = "/tmp";

const NOTHING: Option<&str> = None;

/// Replaces the folders' paths by those that no symbolic link of another root can bend.
pub fn resolve(mut order: Order) -> Result<Order, Failure> {
    for ordered in &mut order.spec.mounts {
        ordered.host =
            fs::canonicalize(&ordered.host).step(format!("find the folder `{}`", ordered.host.display()))?;
    }
    Ok(order)
}

/// As root: gives the writable folders to the container's user.
///
/// Only the folder itself: what is inside may be under the hands of a container that runs already, and a walk by
/// path could be led astray by a link.
pub fn give_away(order: &Order) -> Result<(), Failure> {
    for ordered in order.spec.mounts.iter().filter(|ordered| !ordered.read_only) {
        let step = || format!("give the folder `{}` to user {}", ordered.host.display(), order.uid);
        let now = fs::symlink_metadata(&ordered.host).step(step())?;
        if now.uid() != order.uid || now.gid() != order.uid {
            lchown(&ordered.host, Some(order.uid), Some(order.uid)).step(step())?;
        }
    }
    Ok(())
}

/// As root: gives the folders away and shows them, in a mount namespace of this process's own, under short paths
/// that everyone may enter.
pub fn stage(order: Order) -> Result<Order, Failure> {
    let mut order = resolve(order)?;
    give_away(&order)?;
    unshare(CloneFlags::CLONE_NEWNS).step("make a mount namespace")?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .step("keep mounts private")?;
    // Held open because the stage may cover them.
    let folders: Vec<File> = order
        .spec
        .mounts
        .iter()
        .map(|ordered| {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
            let opened = File::options().read(true).custom_flags(flags.bits()).open(&ordered.host);
            opened.step(format!("open the folder `{}`", ordered.host.display()))
        })
        .collect::<Result<_, _>>()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("stage"), STAGE, Some("tmpfs"), flags, Some("mode=755,size=1m")).step("make the stage")?;
    for (index, (ordered, folder)) in order.spec.mounts.iter_mut().zip(&folders).enumerate() {
        let place = Path::new(STAGE).join(index.to_string());
        fs::create_dir(&place).step("make a place on the stage")?;
        let source = format!("/proc/self/fd/{}", folder.as_raw_fd());
        mount(Some(source.as_str()), &place, NOTHING, MsFlags::MS_BIND, NOTHING)
            .step(format!("show the folder `{}`", ordered.host.display()))?;
        ordered.host = place;
    }
    Ok(order)
}
