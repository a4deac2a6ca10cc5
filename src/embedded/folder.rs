//! Folders on the machine that belong to the embedded cluster: nobody else enters them, and they do not stay.
//!
//! A cluster's own folder holds a lock file for as long as the cluster lives. One that is not locked was left by a
//! program that was killed, and the next start removes it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use uuid::Uuid;

/// The beginning of the name of a cluster's folder; random letters and digits follow.
const PREFIX: &str = "kubepermit-embedded-";

/// How many letters and digits follow: `tempfile`'s default.
const RANDOM: usize = 6;

/// The locked file in a cluster's folder.
const LOCK: &str = "lock";

/// How often another start may take a new folder for one that was left behind.
const ATTEMPTS: usize = 16;

/// A folder that is empty and unlocked for this long is nobody's who is just starting.
const STARTING: Duration = Duration::from_secs(3600);

/// A private folder. It goes, with all that is in it, when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes one with a new name in `parent`, for this user alone and for whoever is of the group `passing`, who
    /// may walk through it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(parent: &Path, prefix: &str, passing: Option<u32>) -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new()
            .prefix(prefix)
            .rand_bytes(RANDOM)
            .permissions(private)
            .tempdir_in(parent)?;
        let folder = Self { path: made.keep() };
        let_through(&folder.path, passing)?;
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a folder of the embedded cluster was left behind");
        }
    }
}

/// The folder of a cluster, locked while the cluster lives.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    /// The kernel lets go of the lock when this process ends, however it ends.
    _lock: File,
}

impl Home {
    /// Makes one in `parent`, for this user alone and for whoever is of the group `passing`, who may walk through
    /// it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(parent: &Path, passing: Option<u32>) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = Folder::make(parent, PREFIX, passing)?;
            // Between its making and its locking another start may have removed it.
            if let Some(lock) = lock_new(&folder.path.join(LOCK))? {
                let path = folder.path.clone();
                std::mem::forget(folder);
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other("other programs keep removing it"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = remove_home(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the embedded cluster's folder was left behind");
        }
    }
}

/// Makes a folder at this path, for this user alone and for whoever is of the group `passing`, who may walk
/// through it.
///
/// # Errors
/// When it cannot be made.
pub fn make_private(path: &Path, passing: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    let_through(path, passing)
}

/// Removes the folders in `parent` that clusters of this user left behind when their programs were killed. What
/// cannot be removed stays.
pub fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for path in entries.flatten().filter(is_ours).map(|entry| entry.path()) {
        match take_over(&path) {
            Ok(Some(_lock)) => match remove_home(&path) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "removed what a killed embedded cluster left behind")
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove what a killed embedded cluster left behind");
                }
            },
            Ok(None) => {}
            Err(error) => tracing::debug!(path = %path.display(), %error, "not looked into"),
        }
    }
}

/// Removes a folder with all that is in it, however deep it goes and whatever its modes are. Nobody may be at work
/// in it any more.
///
/// # Errors
/// When something in it cannot be removed.
pub fn remove(top: &Path) -> io::Result<()> {
    match fs::symlink_metadata(top) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    fs::set_permissions(top, Permissions::from_mode(0o700))?;
    // Every folder is brought up to this level before it is emptied. The standard library goes down instead, where a
    // job's tree can be deeper than the stack, the table of descriptors and the longest path.
    let level = top.join(Uuid::new_v4().simple().to_string());
    DirBuilder::new().mode(0o700).create(&level)?;
    let mut left = vec![top.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()? {
            let path = entry.path();
            if path == level {
                continue;
            }
            if !entry.file_type()?.is_dir() {
                fs::remove_file(path)?;
                continue;
            }
            // To move a folder is to write into it, as its parent changes.
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            let raised = level.join(Uuid::new_v4().simple().to_string());
            fs::rename(&path, &raised)?;
            left.push(raised);
        }
        if folder != top {
            fs::remove_dir(&folder)?;
        }
    }
    fs::remove_dir(level)?;
    fs::remove_dir(top)
}

/// The lock goes last, so that a removal that breaks off is taken up by the next start.
fn remove_home(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(path.join(LOCK))?;
    fs::remove_dir(path)
}

fn let_through(path: &Path, passing: Option<u32>) -> io::Result<()> {
    // Set, not only asked for: the mask of new files may take more away.
    let mode = if passing.is_some() { 0o710 } else { 0o700 };
    if passing.is_some() {
        chown(path, None, passing)?;
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Whether it looks like a cluster's folder and nobody but this user can have put anything in it.
fn is_ours(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let named =
        rest.is_some_and(|rest| rest.len() == RANDOM && rest.bytes().all(|b| b.is_ascii_alphanumeric()));
    named
        && entry.metadata().is_ok_and(|about| {
            about.is_dir() && about.uid() == geteuid().as_raw() && about.mode() & 0o022 == 0
        })
}

/// The lock of a folder, if nobody holds it.
fn take_over(path: &Path) -> io::Result<Option<File>> {
    let no_link = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(no_link.bits()).open(path.join(LOCK)) {
        Ok(lock) if lock.metadata()?.is_file() => try_lock(lock),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Somebody starts, or was killed while starting or at the very end.
            if fs::metadata(path)?.modified()?.elapsed().is_ok_and(|age| age > STARTING) {
                fs::remove_dir(path)?;
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Makes and locks the file of a new folder; `None` if the folder was removed meanwhile.
fn lock_new(path: &Path) -> io::Result<Option<File>> {
    let lock = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(lock) = try_lock(lock)? else {
        return Ok(None);
    };
    match fs::metadata(path) {
        Ok(there) if there.ino() == lock.metadata()?.ino() => Ok(Some(lock)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn try_lock(lock: File) -> io::Result<Option<File>> {
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
