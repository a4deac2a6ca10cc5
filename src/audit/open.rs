//! Opening a target: who may write it, and where its chain stands.
//!
//! A path is a regular file or a directory, nothing else: what is written to a device, a pipe or a socket is not
//! there afterwards (`/dev/null` takes every record), and no check of the chain could tell. For a collector there
//! is `stderr`.
//!
//! Neither the file nor the directory that holds it may be another user's to change; see [`private_directory`].

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::audit::chain::{self, Break, Head};
use crate::audit::file::{AuditFile, RegularFile, Stream};
use crate::audit::line::MAX_LINE;
use crate::audit::{AuditError, AuditTarget};

/// Permission bits that an existing file must not have: executable, group-writable, or open to all.
const FORBIDDEN_MODE: u32 = 0o137;

/// How often a name in a directory is tried anew when it is taken.
const NAME_ATTEMPTS: u32 = 16;

/// An opened target.
pub(in crate::audit) struct Opened {
    /// Where to write.
    pub(in crate::audit) file: Box<dyn AuditFile>,
    /// Its name for messages.
    pub(in crate::audit) location: String,
    /// Where its chain stands.
    pub(in crate::audit) head: Head,
    /// Its length in bytes; 0 for a stream.
    pub(in crate::audit) len: u64,
}

/// Opens a target for one process.
pub(in crate::audit) fn open(target: &AuditTarget, instance: &str) -> Result<Opened, AuditError> {
    match target {
        AuditTarget::Stderr => Ok(Opened {
            file: Box::new(Stream(io::stderr())),
            location: "stderr".to_owned(),
            head: Head::genesis(),
            len: 0,
        }),
        AuditTarget::File(path) => open_file(path),
        AuditTarget::Directory(path) => open_in_directory(path, instance),
    }
}

/// One chain in one file, continued by each process in turn.
fn open_file(path: &Path) -> Result<Opened, AuditError> {
    let cannot = |source| AuditError::Open { path: path.to_owned(), source };
    let (path, existing) = resolve(path).map_err(cannot)?;
    let cannot = |source| AuditError::Open { path: path.clone(), source };
    match existing {
        Some(metadata) => private_file(&path, &metadata)?,
        // A link to nothing, or to a pipe as /dev/stderr may be.
        None if path.is_symlink() => return Err(AuditError::NotAFile { path }),
        None => {}
    }
    private_directory(path.parent().unwrap_or(Path::new("/")))?;
    let lock = lock(&path)?;
    // Reading is for the last line only.
    let mut file = options().read(true).create(true).open(&path).map_err(cannot)?;
    private_file(&path, &file.metadata().map_err(cannot)?)?;
    sync_parent(&path).map_err(cannot)?;
    let len = file.metadata().map_err(cannot)?.len();
    let head = last_head(&mut file, len).map_err(cannot)?;
    let head = head.map_err(|problem| AuditError::Tail { path: path.clone(), problem })?;
    Ok(Opened {
        location: path.display().to_string(),
        file: Box::new(RegularFile::new(file, path.clone(), Some(lock)).map_err(cannot)?),
        head,
        len,
    })
}

/// A file of its own for each process, so that several may use one directory at once.
fn open_in_directory(directory: &Path, instance: &str) -> Result<Opened, AuditError> {
    let cannot = |source| AuditError::Directory { path: directory.to_owned(), source };
    let directory = std::path::absolute(directory).map_err(cannot)?;
    create_durably(&directory).map_err(cannot)?;
    private_directory(&directory)?;
    let label: String = instance
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .collect();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let started = Timestamp::now().strftime("%Y%m%dT%H%M%S.%6fZ");
        let path = directory.join(format!("audit-{started}-{}-{label}.jsonl", std::process::id()));
        let cannot = |source| AuditError::Open { path: path.clone(), source };
        let file = match options().create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < NAME_ATTEMPTS => {
                continue;
            }
            other => other.map_err(cannot)?,
        };
        sync_parent(&path).map_err(cannot)?;
        return Ok(Opened {
            location: path.display().to_string(),
            file: Box::new(RegularFile::new(file, path.clone(), None).map_err(cannot)?),
            head: Head::genesis(),
            len: 0,
        });
    }
}

/// A regular file that nobody else can write, and that has no other name: through one it could be changed
/// after this one was made safe.
pub(in crate::audit) fn private_file(path: &Path, metadata: &fs::Metadata) -> Result<(), AuditError> {
    if !metadata.is_file() {
        return Err(AuditError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & FORBIDDEN_MODE != 0 {
        return Err(AuditError::Mode { path: path.to_owned(), mode });
    }
    let problem = if !is_trusted(metadata.uid()) {
        "belongs to another user, who may change it; run `chown` on it, or name another file"
    } else if metadata.nlink() != 1 {
        "has a second name (a hard link); keep it as evidence and name another file"
    } else {
        return Ok(());
    };
    Err(AuditError::Exposed { path: path.to_owned(), problem })
}

/// Whoever can write a directory can replace the files in it. So it belongs to this user or to root, and is
/// writable by its group or by others only with the sticky bit, under which a name is its owner's alone (/tmp).
///
/// The root of a mount is taken as it is. A container is given its volumes so: Kubernetes makes an `emptyDir`
/// 0777, with an `fsGroup` 2777, both root's, and a bind mount has the host's owner. Whoever made the mount
/// decided who shares it.
pub(in crate::audit) fn private_directory(directory: &Path) -> Result<(), AuditError> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let cannot = |source| AuditError::Directory { path: directory.to_owned(), source };
    let directory = directory.canonicalize().map_err(cannot)?;
    let metadata = fs::metadata(&directory).map_err(cannot)?;
    let problem = if !is_trusted(metadata.uid()) {
        "belongs to another user, who may replace the log; run `chown` on it, or name another directory"
    } else if metadata.mode() & WRITABLE_BY_OTHERS != 0 && metadata.mode() & STICKY == 0 {
        "is a directory that others can write, so they may replace the log; run `chmod go-w` on it, or name another"
    } else {
        return Ok(());
    };
    if is_mount(&directory, &metadata).map_err(cannot)? {
        return Ok(());
    }
    Err(AuditError::Exposed { path: directory, problem })
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == nix::unistd::geteuid().as_raw()
}

/// On another device than its parent. A bind mount within one device is not recognised, and refused if it is open.
fn is_mount(directory: &Path, metadata: &fs::Metadata) -> io::Result<bool> {
    match directory.parent() {
        Some(parent) => Ok(fs::metadata(parent)?.dev() != metadata.dev()),
        None => Ok(true),
    }
}

/// Appending, private, and never through a link that was put there after the path was resolved.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    options
}

/// The path without links, so that two names of one file meet at one lock; and what is there.
pub(in crate::audit) fn resolve(path: &Path) -> io::Result<(PathBuf, Option<fs::Metadata>)> {
    match path.canonicalize() {
        Ok(real) => {
            let metadata = fs::metadata(&real)?;
            Ok((real, Some(metadata)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(path)?;
            let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(error);
            };
            Ok((parent.canonicalize()?.join(name), None))
        }
        Err(error) => Err(error),
    }
}

/// The file that is locked in place of the log at `path`.
pub(in crate::audit) fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Takes the lock of the file at `path`. flock, since a record lock (fcntl) is lost when any descriptor of
/// the file is closed; on a file of its own, since the log itself may be renamed.
fn lock(path: &Path) -> Result<Flock<File>, AuditError> {
    let lock_path = lock_path(path);
    let cannot = |source| AuditError::Open { path: lock_path.clone(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&lock_path)
        .map_err(cannot)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut held) => {
            held.set_len(0).map_err(cannot)?;
            // The pid is for the message of whoever comes second; a full disk must not end the start here.
            if let Err(error) = writeln!(held, "{}", std::process::id()) {
                tracing::warn!(path = %lock_path.display(), %error, "the audit lock file does not name its holder");
            }
            Ok(held)
        }
        Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let read = Read::by_ref(&mut file).take(32).read_to_string(&mut text);
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            Err(AuditError::Locked { path: path.to_owned(), pid })
        }
        Err((_, errno)) => Err(cannot(errno.into())),
    }
}

/// The head after the last line of a file of `len` bytes, or why there is none.
pub(in crate::audit) fn last_head(file: &mut File, len: u64) -> io::Result<Result<Head, &'static str>> {
    if len == 0 {
        return Ok(Ok(Head::genesis()));
    }
    let window = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(1).min(len);
    file.seek(SeekFrom::Start(len - window))?;
    let mut tail = Vec::new();
    Read::by_ref(file).take(window).read_to_end(&mut tail)?;
    let begins = tail.iter().rev().skip(1).position(|byte| *byte == b'\n');
    let last = match begins {
        Some(length) => tail.get(tail.len().saturating_sub(length + 1)..),
        None => Some(tail.as_slice()),
    };
    let inspected = chain::inspect(last.unwrap_or_default());
    Ok(inspected.map(|(head, _)| head).map_err(|problem| match problem {
        Break::Torn => "its last line does not end in a newline, as after a crash in the middle of a write",
        Break::TooLong | Break::Malformed => "its last line is not an audit record",
        Break::Hash | Break::Link | Break::Sequence => "its last record does not match its own hash",
        Break::Unreadable => "its last line cannot be read",
    }))
}

/// Creates the missing part of a path, 0700, and makes each new entry durable.
fn create_durably(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(path) {
            // Two processes may start at once.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        sync_parent(path)?;
    }
    if directory.is_dir() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
}

/// A new file is durable only once the directory that names it is.
fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
