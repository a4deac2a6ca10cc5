//! Kills everything that a container without a PID namespace left behind.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Kills and reaps this process's children until there are none.
///
/// This process is the reaper of orphans, so whatever outlives its parent becomes a child of this one; children are
/// the only processes whose ids cannot be used anew before they are reaped here. A tree goes level by level.
pub fn kill_all_children() {
    loop {
        for child in children() {
            let _gone = kill(child, Signal::SIGKILL);
        }
        // Block for one, then take those that are dead as well.
        let mut options = None;
        loop {
            match waitpid(None, options) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) | Err(nix::Error::EINTR) => options = Some(WaitPidFlag::WNOHANG),
                Err(_none_left) => return,
            }
        }
    }
}

fn children() -> Vec<Pid> {
    match fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())) {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect(),
        // Kernels without CONFIG_PROC_CHILDREN.
        Err(_absent) => children_by_search(),
    }
}

fn children_by_search() -> Vec<Pid> {
    let me = std::process::id().to_string();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| parent_of(*pid).as_deref() == Some(me.as_str()))
        .map(Pid::from_raw)
        .collect()
}

/// The fourth field of `/proc/<pid>/stat`, counted after the command's name, which may hold anything.
fn parent_of(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1).map(str::to_owned)
}
