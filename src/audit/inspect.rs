//! Looks at a target before anybody relies on it. Writes no record and leaves nothing behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};

use super::open::{last_head, lock_path, private_directory, private_file, resolve};
use super::{AuditError, AuditTarget};

/// How many files of a directory are looked at, the newest first: each call at a command line leaves one.
const MOST_FILES: usize = 200;

/// What a target is like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// A path, or `stderr`.
    pub location: String,
    /// How many logs were looked at.
    pub logs: usize,
    /// Logs of a directory that do not end in a whole record, and what is wrong with each end. They keep no
    /// process from starting, since each makes a file of its own.
    pub damaged: Vec<(PathBuf, &'static str)>,
    /// Another process holds the file.
    pub in_use: bool,
}

/// Whether a process could record there now, and whether what is there ends in whole records. Blocks on the disk.
///
/// # Errors
/// What [`Audit::start`](super::Audit::start) would say, but for a lock that is held: a running server holds it.
pub fn inspect(target: &AuditTarget) -> Result<Inspection, AuditError> {
    match target {
        AuditTarget::Stderr => Ok(Inspection { location: "stderr".to_owned(), ..Inspection::default() }),
        AuditTarget::File(path) => of_file(path),
        AuditTarget::Directory(path) => of_directory(path),
    }
}

fn of_file(path: &Path) -> Result<Inspection, AuditError> {
    let cannot = |source| AuditError::Open { path: path.to_owned(), source };
    let (path, existing) = resolve(path).map_err(cannot)?;
    let cannot = |source| AuditError::Open { path: path.clone(), source };
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut inspection = Inspection { location: path.display().to_string(), ..Inspection::default() };
    match existing {
        Some(metadata) => {
            private_file(&path, &metadata)?;
            private_directory(parent)?;
            // Opening for appending asks for the right to write, and changes nothing.
            OpenOptions::new()
                .append(true)
                .custom_flags(OFlag::O_NOFOLLOW.bits())
                .open(&path)
                .map_err(cannot)?;
            let problem = tail(&path).map_err(cannot)?;
            if let Some(problem) = problem {
                return Err(AuditError::Tail { path, problem });
            }
            inspection.logs = 1;
        }
        None if path.is_symlink() => return Err(AuditError::NotAFile { path }),
        None => private_directory(parent)?,
    }
    probe(parent).map_err(cannot)?;
    inspection.in_use = is_locked(&path);
    Ok(inspection)
}

fn of_directory(directory: &Path) -> Result<Inspection, AuditError> {
    let cannot = |source| AuditError::Directory { path: directory.to_owned(), source };
    let directory = std::path::absolute(directory).map_err(cannot)?;
    let mut inspection = Inspection { location: directory.display().to_string(), ..Inspection::default() };
    // What is missing is made by the first process that records; so its place has to be writable.
    let there = directory.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(cannot(io::ErrorKind::NotADirectory.into()));
    }
    probe(there).map_err(cannot)?;
    if there != directory {
        return Ok(inspection);
    }
    private_directory(&directory)?;
    let entries = fs::read_dir(&directory).map_err(cannot)?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    // The time of a file's start is in its name.
    files.sort_unstable_by(|a, b| b.cmp(a));
    files.truncate(MOST_FILES);
    inspection.logs = files.len();
    for path in files {
        match tail(&path) {
            Ok(None) => {}
            Ok(Some(problem)) => inspection.damaged.push((path, problem)),
            Err(_) => inspection.damaged.push((path, "it cannot be read")),
        }
    }
    Ok(inspection)
}

/// What is wrong with the end of a log.
fn tail(path: &Path) -> io::Result<Option<&'static str>> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    let len = file.metadata()?.len();
    Ok(last_head(&mut file, len)?.err())
}

/// Writes to a nameless file in the directory: tells a lack of rights, a read-only mount and a full disk.
fn probe(directory: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(&[b'\n'; 4096])?;
    file.sync_all()
}

/// Whether somebody else holds the log's lock. A shared lock, given back at once: a server that starts in this
/// very moment has to be started again.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(lock_path(path)) else { return false };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}
