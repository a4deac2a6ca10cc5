//! Counts a container's memory, as there is no control group to do it.
//!
//! The kernel's own limits are per process and make allocations fail, which programs report in their own ways. In a
//! cluster the container is killed and its status says `OOMKilled`; counting and killing gives the same.
//!
//! Counted is what processes have mapped that is not a file's, and the files in memory: those that a process has
//! open and those in the container's own `/tmp` and `/dev/shm`. As such files can be mapped, too, the larger of
//! mapped shared memory and files counts; a container that keeps its shared memory unmapped in one half and without
//! an open file in the other gets twice its limit. A control group also counts what is not seen here: the kernel's
//! own memory, such as filled pipes and sockets, files on their way through a socket, and cached files of the disk.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

use super::Confinement;
use super::wire::Order;

/// How often the count is taken. A program can write about 50 MiB in the meantime.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// The shortest time between two looks at open files, of which there can be many.
const FILES_INTERVAL: Duration = Duration::from_millis(100);

/// The time between two looks is this many times as long as a look takes.
const FILES_INTERVAL_PER_LOOK: u32 = 10;

/// Folders of the container's root that are file systems in memory, unless something else is mounted there.
const IN_MEMORY: [&str; 2] = ["tmp", "dev/shm"];

/// The kernel counts blocks of this many bytes, whatever a file's own are.
const BLOCK_BYTES: u64 = 512;

/// Watches the memory of one container.
#[derive(Debug)]
pub struct Meter {
    limit_bytes: u64,
    /// Paths below the container's root.
    folders: Vec<&'static str>,
    files: u64,
    next_look: Instant,
}

impl Meter {
    /// One for this container; `None` if it has no limit.
    pub fn of(order: &Order) -> Option<Self> {
        let limit_bytes = order.spec.limits.memory_bytes?;
        let own_root = order.confinement == Confinement::Namespaces;
        let is_own = |folder: &&str| {
            let path = Path::new("/").join(folder);
            own_root && order.spec.mounts.iter().all(|ordered| ordered.path != path)
        };
        let folders = IN_MEMORY.into_iter().filter(|folder| is_own(folder)).collect();
        Some(Self { limit_bytes, folders, files: 0, next_look: Instant::now() })
    }

    /// Whether the children of this process, and theirs, use more than the limit together.
    pub fn is_above(&mut self) -> bool {
        let processes = descendants();
        let begun = Instant::now();
        if begun >= self.next_look {
            self.files = memory_files(&processes).saturating_add(self.in_folders(&processes));
            let took = begun.elapsed();
            self.next_look =
                Instant::now() + FILES_INTERVAL.max(took.saturating_mul(FILES_INTERVAL_PER_LOOK));
        }
        // The cheap count takes memory that a parent shares with its children more than once.
        self.exceeded(&processes, resident) && self.exceeded(&processes, proportional)
    }

    fn exceeded(&self, processes: &[u32], count: fn(u32) -> Mapped) -> bool {
        let mapped = processes.iter().map(|pid| count(*pid)).fold(Mapped::default(), |a, b| Mapped {
            anonymous: a.anonymous.saturating_add(b.anonymous),
            shared: a.shared.saturating_add(b.shared),
        });
        mapped.anonymous.saturating_add(mapped.shared.max(self.files)) > self.limit_bytes
    }

    /// What is in the container's own folders in memory, seen through its first process.
    fn in_folders(&self, processes: &[u32]) -> u64 {
        let Some(first) = processes.first() else {
            return 0;
        };
        let used = self.folders.iter().filter_map(|folder| {
            let about = statvfs(format!("/proc/{first}/root/{folder}").as_str()).ok()?;
            Some(about.blocks().saturating_sub(about.blocks_free()).saturating_mul(about.fragment_size()))
        });
        used.fold(0, u64::saturating_add)
    }
}

/// Bytes of memory that are not a file's on a disk.
#[derive(Debug, Clone, Copy, Default)]
struct Mapped {
    anonymous: u64,
    shared: u64,
}

/// What the files without a name that these processes have open take, each once. memfd_create(2).
fn memory_files(processes: &[u32]) -> u64 {
    let mut known = HashSet::new();
    let mut total = 0_u64;
    for pid in processes {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        for entry in open.flatten() {
            let is_memory = fs::read_link(entry.path())
                .is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
            // Through the link, to the file itself.
            if is_memory
                && let Ok(about) = fs::metadata(entry.path())
                && known.insert((about.dev(), about.ino()))
            {
                total = total.saturating_add(about.blocks().saturating_mul(BLOCK_BYTES));
            }
        }
    }
    total
}

fn descendants() -> Vec<u32> {
    let mut found = children(std::process::id());
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
    }
    found
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

/// Counted whole in each process that uses it. proc_pid_status(5).
fn resident(pid: u32) -> Mapped {
    fields(&format!("/proc/{pid}/status"), "RssAnon:", "RssShmem:")
}

/// Divided among those who share it. proc_pid_smaps(5).
fn proportional(pid: u32) -> Mapped {
    fields(&format!("/proc/{pid}/smaps_rollup"), "Pss_Anon:", "Pss_Shmem:")
}

/// A process that is gone uses nothing.
fn fields(file: &str, anonymous: &str, shared: &str) -> Mapped {
    let text = fs::read_to_string(file).unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes.saturating_mul(1024))
    };
    Mapped { anonymous: field(anonymous).unwrap_or_default(), shared: field(shared).unwrap_or_default() }
}
