//! Counts a container's memory, as there is no control group to do it.
//!
//! The kernel's own limits are per process and make allocations fail, which programs report in their own ways. In a
//! cluster the container is killed and its status says `OOMKilled`; counting and killing gives the same.

use std::fs;
use std::time::Duration;

/// How often the count is taken. A program can write about 50 MiB in the meantime.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// Whether the children of this process, and theirs, use more than this many bytes together.
pub fn is_above(limit_bytes: u64) -> bool {
    let processes = descendants();
    // The cheap count takes memory that a parent shares with its children more than once.
    let total = |count: fn(u32) -> u64| processes.iter().map(|pid| count(*pid)).fold(0, u64::saturating_add);
    total(resident) > limit_bytes && total(proportional) > limit_bytes
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

/// Memory that is not a file's, counted whole in each process that uses it. proc_pid_status(5).
fn resident(pid: u32) -> u64 {
    sum_of_fields(&format!("/proc/{pid}/status"), ["RssAnon:", "RssShmem:"])
}

/// The same with shared memory divided among those who share it. proc_pid_smaps(5).
fn proportional(pid: u32) -> u64 {
    sum_of_fields(&format!("/proc/{pid}/smaps_rollup"), ["Pss_Anon:", "Pss_Shmem:"])
}

/// A process that is gone uses nothing.
fn sum_of_fields(file: &str, names: [&str; 2]) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let fields = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|name| names.contains(name))?;
        words.next()?.parse::<u64>().ok()
    });
    fields.map(|kibibytes| kibibytes.saturating_mul(1024)).fold(0, u64::saturating_add)
}
