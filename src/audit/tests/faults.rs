//! What the log does when its disk does not do its part.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::audit::file::{AuditFile, Drift, Stream};

/// A file in memory that fails as told.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    /// How many bytes there is room for; `None` is no limit.
    room: Option<usize>,
    sync_fails: bool,
    truncate_fails: bool,
    syncs: usize,
}

impl Fake {
    fn with<T>(&self, change: impl FnOnce(&mut Disk) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn records(&self) -> Vec<Value> {
        checked(&self.with(|disk| disk.bytes.clone()))
    }
}

impl AuditFile for Fake {
    fn check(&self, expected: u64) -> Result<(), Drift> {
        let len = self.with(|disk| disk.bytes.len() as u64);
        if len == expected { Ok(()) } else { Err(Drift::Length(len)) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|disk| {
            let room =
                disk.room.map_or(bytes.len(), |room| room.saturating_sub(disk.bytes.len()).min(bytes.len()));
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            // No write takes more than 100 bytes.
            let part = &bytes[..room.min(100)];
            disk.bytes.extend_from_slice(part);
            Ok(part.len())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(|disk| {
            disk.syncs += 1;
            if disk.sync_fails { Err(io::Error::other("EIO")) } else { Ok(()) }
        })
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.with(|disk| {
            if disk.truncate_fails {
                return Err(io::Error::other("EIO"));
            }
            disk.bytes.truncate(len as usize);
            Ok(())
        })
    }
}

fn over(file: impl AuditFile + 'static) -> Audit {
    over_with(file, options())
}

fn over_with(file: impl AuditFile + 'static, options: AuditOptions) -> Audit {
    let opened = Opened { file: Box::new(file), location: "fake".to_owned(), head: Head::genesis(), len: 0 };
    Audit::over(opened, options).unwrap()
}

#[tokio::test]
async fn a_record_that_does_not_fit_is_taken_back_and_the_next_may_fit() {
    let disk = Fake::default();
    let audit = over(disk.clone());
    let open = audit.admit(allowed()).await.unwrap();
    let before = disk.with(|disk| disk.bytes.clone());
    for room in [0, 1, 99, 250] {
        disk.with(|disk| disk.room = Some(before.len() + room));
        let error = audit.admit(allowed()).await.unwrap_err();
        assert!(
            matches!(&error, AuditError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull)
        );
        assert_eq!(disk.with(|disk| disk.bytes.clone()), before, "{room}");
    }
    disk.with(|disk| disk.room = None);
    open.close(&succeeded()).await.unwrap();
    audit.stop().await.unwrap();
    assert_eq!(kinds(&disk.records()), ["start", "decision", "outcome", "stop"]);
}

#[tokio::test]
async fn a_log_that_starts_on_a_full_disk_begins_once_there_is_room() {
    let disk = Fake::default();
    disk.with(|disk| disk.room = Some(0));
    let audit = over(disk.clone());
    assert!(audit.refuse(refused(Stage::Policy)).await.is_err());
    disk.with(|disk| disk.room = None);
    audit.refuse(refused(Stage::Policy)).await.unwrap();
    assert_eq!(kinds(&disk.records()), ["start", "decision"]);
}

#[tokio::test]
async fn a_failed_sync_is_never_tried_again() {
    let disk = Fake::default();
    let audit = over(disk.clone());
    let open = audit.admit(allowed()).await.unwrap();
    disk.with(|disk| disk.sync_fails = true);
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Sync { .. })));
    disk.with(|disk| disk.sync_fails = false);
    let (syncs, len) = disk.with(|disk| (disk.syncs, disk.bytes.len()));
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Failed { .. })));
    assert!(matches!(audit.refuse(refused(Stage::Plan)).await, Err(AuditError::Failed { .. })));
    assert!(matches!(open.close(&succeeded()).await, Err(AuditError::Failed { .. })));
    assert!(matches!(audit.stop().await, Err(AuditError::Failed { .. })));
    assert_eq!(disk.with(|disk| (disk.syncs, disk.bytes.len())), (syncs, len));
}

#[tokio::test]
async fn half_a_record_that_cannot_be_removed_ends_the_log() {
    let disk = Fake::default();
    let audit = over(disk.clone());
    disk.with(|disk| {
        disk.room = Some(disk.bytes.len() + 10);
        disk.truncate_fails = true;
    });
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Write { .. })));
    disk.with(|disk| disk.room = None);
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Failed { .. })));
}

/// A disk whose every sync waits for the test.
struct Stuck {
    disk: Fake,
    release: Receiver<()>,
}

impl AuditFile for Stuck {
    fn check(&self, expected: u64) -> Result<(), Drift> {
        self.disk.check(expected)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // Free for good once the test has dropped its end.
        let _ = self.release.recv();
        self.disk.sync()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.truncate(len)
    }
}

#[tokio::test]
async fn a_call_waits_until_its_record_is_durable() {
    let disk = Fake::default();
    let (go, release) = channel();
    go.send(()).unwrap(); // for the start record
    let audit = over(Stuck { disk: disk.clone(), release });
    let mut admission = Box::pin(audit.admit(allowed()));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut admission).await.is_err());
    assert_eq!(disk.with(|disk| disk.syncs), 1);
    go.send(()).unwrap();
    let open = admission.await.unwrap();
    assert_eq!(disk.with(|disk| disk.syncs), 2);
    let outcome = succeeded();
    let mut close = Box::pin(open.close(&outcome));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut close).await.is_err());
    go.send(()).unwrap();
    close.await.unwrap();
    assert_eq!(disk.with(|disk| disk.syncs), 3);
}

#[tokio::test]
async fn a_stuck_disk_is_an_error_and_never_an_admitted_call() {
    let disk = Fake::default();
    let (go, release) = channel();
    go.send(()).unwrap();
    let deadline = Duration::from_millis(250);
    let options = AuditOptions { commit_deadline: deadline, ..options() };
    let audit = over_with(Stuck { disk: disk.clone(), release }, options);
    // The first reaches the disk, the second waits behind it.
    for entry in [allowed(), allowed()] {
        let error = audit.admit(entry).await.unwrap_err();
        assert!(matches!(error, AuditError::Deadline { after, .. } if after == deadline), "{error}");
    }
    drop(go);
    // Answered after the first call's record, and so after the writer sent itself the abandoned outcome,
    // which may be queued before or after this one.
    audit.refuse(refused(Stage::Policy)).await.unwrap();
    audit.stop().await.unwrap();
    let records = disk.records();
    let mut sorted = kinds(&records);
    sorted.sort_unstable();
    assert_eq!(sorted, ["decision", "decision", "outcome", "start", "stop"]);
    assert_eq!(records[1]["decision"]["allow"], true);
    let outcome = records.iter().find(|record| record["kind"] == "outcome").unwrap();
    assert_eq!(outcome["outcome"]["status"], "abandoned");
    assert_eq!(outcome["decision_id"], records[1]["decision_id"]);
}

#[tokio::test]
async fn a_stream_gets_whole_lines_or_ends() {
    let disk = Fake::default();
    struct Pipe(Fake);
    impl io::Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            AuditFile::write(&mut self.0, bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let audit = over(Stream(Pipe(disk.clone())));
    audit.admit(allowed()).await.unwrap().close(&succeeded()).await.unwrap();
    assert_eq!(kinds(&disk.records()), ["start", "decision", "outcome"]);
    disk.with(|disk| disk.room = Some(disk.bytes.len() + 10));
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Write { .. })));
    disk.with(|disk| disk.room = None);
    assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Failed { .. })));
}

#[tokio::test]
async fn a_device_that_is_full_admits_nothing() {
    // What standard error is when a collector's disk is full.
    let device = fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let audit = over(Stream(device));
    let error = audit.admit(allowed()).await.unwrap_err();
    assert!(
        matches!(&error, AuditError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    );
    assert!(audit.refuse(refused(Stage::Policy)).await.is_err());
}

#[tokio::test]
async fn a_file_that_is_not_where_it_was_admits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    for target in [AuditTarget::Directory(logs.clone()), AuditTarget::File(logs.join("audit.jsonl"))] {
        fs::create_dir_all(&logs).unwrap();
        let audit = Audit::start(target, options()).unwrap();
        let path = std::path::PathBuf::from(audit.location());
        let aside = path.with_extension("aside");
        let open = audit.admit(allowed()).await.unwrap();

        fs::rename(&path, &aside).unwrap();
        assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Moved { .. })), "renamed");
        fs::copy(&aside, &path).unwrap();
        assert!(matches!(audit.admit(allowed()).await, Err(AuditError::Moved { .. })), "replaced");
        fs::rename(&aside, &path).unwrap();
        drop(audit.admit(allowed()).await.unwrap());

        let whole = fs::read(&path).unwrap();
        assert_eq!(checked(&whole)[0]["kind"], "start");
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        audit.refuse(refused(Stage::Policy)).await.unwrap();
        file.set_len(10).unwrap();
        let error = audit.admit(allowed()).await.unwrap_err();
        assert!(matches!(error, AuditError::Altered { found: 10, .. }), "{error}");

        fs::remove_dir_all(&logs).unwrap();
        let error = audit.admit(allowed()).await.unwrap_err();
        assert!(error.to_string().contains("was moved or deleted"), "{error}");
        assert!(matches!(open.close(&succeeded()).await, Err(AuditError::Moved { .. })));
        assert!(!logs.exists());
    }
}

/// Gives this thread a mount namespace of its own with an empty tmpfs at `path`; false where that is not
/// allowed.
#[cfg(target_os = "linux")]
fn mounted(path: &Path, options: &str) -> bool {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let none = None::<&str>;
    let done = unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .and_then(|()| mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options)));
    if let Err(errno) = done {
        #[expect(clippy::print_stderr, reason = "a skipped test says so")]
        {
            eprintln!("skipped: no tmpfs can be mounted here: {errno}");
        }
    }
    done.is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_admits_nothing_and_recovers_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    if !mounted(folder.path(), "size=64k") {
        return;
    }
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![0; 32 * 1024]).unwrap();
    let path = folder.path().join("audit.jsonl");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let audit = Audit::start(AuditTarget::File(path.clone()), options()).unwrap();
        let mut written = 0;
        let error = loop {
            match audit.refuse(refused(Stage::Policy)).await {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 1000);
        };
        assert!(
            matches!(&error, AuditError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull)
        );
        assert!(audit.admit(allowed()).await.is_err());
        assert_eq!(records(&path).len(), written + 1);
        fs::remove_file(&ballast).unwrap();
        audit.admit(allowed()).await.unwrap().close(&succeeded()).await.unwrap();
        assert_eq!(records(&path).len(), written + 3);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_file_system_is_an_error_at_start() {
    let folder = tempfile::tempdir().unwrap();
    if !mounted(folder.path(), "ro") {
        return;
    }
    for target in [
        AuditTarget::File(folder.path().join("audit.jsonl")),
        AuditTarget::Directory(folder.path().to_owned()),
        AuditTarget::Directory(folder.path().join("new")),
    ] {
        let error = Audit::start(target, options()).unwrap_err();
        let text = chained(&error);
        assert!(text.contains("ead-only"), "{text}");
        assert!(text.contains(&folder.path().display().to_string()), "{text}");
    }
}
