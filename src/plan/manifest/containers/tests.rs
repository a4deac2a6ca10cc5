//! The waiting script, run by a shell.

use std::path::Path;
use std::process::{Child, Command};

use super::wait_for;

fn start(file: &Path) -> Child {
    Command::new("sh").args(["-c", &wait_for(file.to_str().unwrap())]).spawn().unwrap()
}

#[test]
fn a_helper_ends_with_success_once_its_file_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("done");
    let mut child = start(&file);
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    std::fs::write(&file, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// An exit code, and not death by the signal: as process 1 the shell would otherwise ignore it.
#[test]
fn a_helper_that_is_told_to_stop_fails() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = start(&directory.path().join("done"));
    // The signal may come before the trap is set; then the shell dies of it and another try is due.
    let code = (0..20).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
        let status = child.wait().unwrap();
        if status.code().is_none() {
            child = start(&directory.path().join("done"));
        }
        status.code()
    });
    let _ = child.kill();
    assert_eq!(code, Some(143));
}
