//! The scripts, run by this machine's shell and programs, and what is chosen from what they say.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{FETCH, LIST, Listed, choose};
use crate::executor::archive::{Choice, unpack};
use crate::plan::WantedArtifacts;

fn asked(patterns: &[&str]) -> WantedArtifacts {
    let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    WantedArtifacts::parse(Some(&patterns)).unwrap()
}

/// Runs a script with `work` as the work directory and `before` in the place of the marker.
fn run(script: &str, work: &Path, before: &Path, input: &[u8]) -> Vec<u8> {
    let script = script.replace("/kubepermit/before", before.to_str().unwrap());
    let mut child = Command::new("sh")
        .args(["-c", &script, work.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    output.stdout
}

/// What comes back of a work directory, by both scripts.
fn collected(wanted: &WantedArtifacts, work: &Path, before: &Path, cap: u64) -> (Vec<String>, u64) {
    let Listed { chosen, left_out } = choose(&run(LIST, work, before, b""), wanted, &[], cap).unwrap();
    let archive = run(FETCH, work, before, &chosen.concat());
    let choice = match wanted {
        WantedArtifacts::Matching(patterns) => Choice::Matching(patterns.clone()),
        _ => Choice::Changed(Vec::new()),
    };
    let unpacked = unpack(archive.as_slice(), &choice, cap);
    assert_eq!(unpacked.problem, None);
    let names = unpacked.artifacts.into_iter().map(|artifact| artifact.name).collect();
    (names, left_out + unpacked.left_out)
}

fn write(work: &Path, name: &str, content: &str) {
    let path = work.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn of_a_clone_only_what_changed_comes_back_whatever_its_mtime_says() {
    let place = tempfile::tempdir().unwrap();
    let (work, before) = (place.path().join("work"), place.path().join("before"));
    for name in ["repo/a", "repo/b", "repo/c", "repo/.git/config", "repo/odd name", "repo/moved"] {
        write(&work, name, "as cloned");
    }
    std::thread::sleep(Duration::from_millis(30));
    fs::write(&before, "").unwrap();
    let wanted = WantedArtifacts::Changed;
    assert_eq!(collected(&wanted, &work, &before, 1000), (vec![], 0));

    std::thread::sleep(Duration::from_millis(30));
    // The same size, and the clone's own time put back.
    let old = fs::metadata(work.join("repo/a")).unwrap().modified().unwrap();
    write(&work, "repo/b", "AS CLONED");
    fs::File::open(work.join("repo/b")).unwrap().set_modified(old).unwrap();
    // New, with a time of long ago, as an unpacked archive has it.
    write(&work, "new/file", "x");
    fs::File::open(work.join("new/file")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::rename(work.join("repo/moved"), work.join("repo/moved here")).unwrap();
    let names = ["new/file", "repo/b", "repo/moved here"].map(str::to_owned).to_vec();
    assert_eq!(collected(&wanted, &work, &before, 1000), (names, 0));
}

#[test]
fn what_is_asked_for_comes_back_changed_or_not() {
    let place = tempfile::tempdir().unwrap();
    let (work, before) = (place.path().join("work"), place.path().join("no-marker"));
    for name in ["out/a.json", "out/b.txt", "out/deep/c.json", "-f", "sp ace/x.json", "\u{e4}.json"] {
        write(&work, name, "12345");
    }
    std::os::unix::fs::symlink("/etc", work.join("out/link")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", work.join("host.json")).unwrap();
    let names = |patterns: &[&str]| collected(&asked(patterns), &work, &before, 1000).0;
    assert_eq!(names(&["out/*.json"]), ["out/a.json"]);
    assert_eq!(names(&["**/*.json"]), ["out/a.json", "out/deep/c.json", "sp ace/x.json", "\u{e4}.json"]);
    assert_eq!(names(&["out", "-f"]), ["-f", "out/a.json", "out/b.txt", "out/deep/c.json"]);
    // No link is followed, neither for the last component nor on the way.
    assert_eq!(names(&["host.json", "out/link/**"]), [""; 0]);
    // Ten bytes hold two files of five; the third is told.
    let (fit, left_out) = collected(&asked(&["out"]), &work, &before, 10);
    assert_eq!((fit.len(), left_out), (2, 1));
}

#[test]
fn a_name_with_a_line_break_is_left_out_and_told() {
    let place = tempfile::tempdir().unwrap();
    let (work, before) = (place.path().join("work"), place.path().join("no-marker"));
    write(&work, "plain", "x");
    write(&work, "two\nlines", "x");
    write(&work, "a\n2026-01-01 00:00:00.0 +0000 1 ./plain", "x");
    assert_eq!(collected(&asked(&["**"]), &work, &before, 1000), (vec!["plain".to_owned()], 1));
}

#[test]
fn thousands_of_files_are_bounded_and_told() {
    let place = tempfile::tempdir().unwrap();
    let (work, before) = (place.path().join("work"), place.path().join("no-marker"));
    let long = "n".repeat(200);
    for n in 0..2500 {
        write(&work, &format!("{long}{n:04}"), "");
    }
    let (names, left_out) = collected(&asked(&["**"]), &work, &before, 1000);
    assert_eq!((names.len(), left_out), (1000, 1500));
    assert_eq!(names.first(), Some(&format!("{long}0000")));
}

#[test]
fn a_listing_that_is_none_is_an_error() {
    for text in ["\nnonsense", "\n2026 x y z ./a", "\n2026-01-01 00:00:00 +0000 -1 ./a"] {
        assert!(choose(text.as_bytes(), &WantedArtifacts::Changed, &[], 10).is_err(), "{text}");
    }
    let nothing = Listed { chosen: Vec::new(), left_out: 0 };
    assert_eq!(choose(b"", &WantedArtifacts::Changed, &[], 10), Ok(nothing));
}
