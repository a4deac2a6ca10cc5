//! Archives as GNU tar, BusyBox and a hostile program write them.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use bytes::Bytes;
use proptest::prelude::{any, prop, proptest};
use proptest::prop_assert_eq;
use tar::{Builder, EntryType, Header};

use super::{Choice, Unpacked, pack, unpack};
use crate::plan::PlannedFile;

const MTIME: u64 = 1_767_225_600;

fn file(path: &str, mode: u32, content: &[u8]) -> PlannedFile {
    PlannedFile { path: path.to_owned(), mode, content: Bytes::copy_from_slice(content) }
}

fn bytes(files: &[PlannedFile]) -> Vec<u8> {
    pack(files, MTIME).unwrap().concat()
}

fn names(unpacked: &Unpacked) -> Vec<&str> {
    unpacked.artifacts.iter().map(|artifact| artifact.name.as_str()).collect()
}

/// An archive of entries that [`pack`] would never write. The name goes into the header unchecked.
fn foreign(entries: &[(&str, EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, link, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len()].copy_from_slice(name.as_bytes());
        gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn the_systems_tar_unpacks_what_was_packed() {
    let long = format!("{}/{}/deep.txt", "d".repeat(90), "e".repeat(120));
    let files = [
        file("run.sh", 0o755, b"#!/bin/sh\n"),
        file("empty", 0o600, b""),
        file("a/b/c.bin", 0o644, &[0xff; 1025]),
        file(&long, 0o640, b"x"),
        file("ünï.txt", 0o666, b"y"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut tar =
        Command::new("tar").args(["-xopf", "-", "-C"]).arg(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
    io::Write::write_all(&mut tar.stdin.take().unwrap(), &bytes(&files)).unwrap();
    assert!(tar.wait().unwrap().success());
    for file in &files {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.path().join(&file.path);
        assert_eq!(std::fs::read(&path).unwrap(), file.content, "{}", file.path);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, file.mode, "{}", file.path);
    }
}

#[test]
fn what_the_systems_tar_packs_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{}/{}", "d".repeat(90), "e".repeat(120));
    std::fs::create_dir(dir.path().join("d".repeat(90))).unwrap();
    for (name, content) in [("out.txt", "data\n"), (long.as_str(), "long"), ("empty", "")] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
    for format in ["--format=gnu", "--format=pax"] {
        let output =
            Command::new("tar").args(["-cf", "-", format, "-C"]).arg(dir.path()).arg(".").output().unwrap();
        let unpacked = unpack(output.stdout.as_slice(), &Choice::Changed(Vec::new()), 1000);
        assert_eq!(unpacked.problem, None, "{format}");
        assert_eq!(names(&unpacked), [long.as_str(), "empty", "out.txt"], "{format}");
        assert_eq!(unpacked.artifacts[2].content, "data\n");
    }
}

#[test]
fn only_regular_files_below_the_directory_come_back() {
    let archive = foreign(&[
        ("./", EntryType::Directory, "", b""),
        ("./ok", EntryType::Regular, "", b"1"),
        ("../escape", EntryType::Regular, "", b"2"),
        ("./a/../../escape", EntryType::Regular, "", b"2"),
        ("/etc/passwd", EntryType::Regular, "", b"3"),
        ("./link", EntryType::Symlink, "/etc/passwd", b""),
        ("./link2", EntryType::Link, "./link", b""),
        ("./null", EntryType::Char, "", b""),
        ("./disk", EntryType::Block, "", b""),
        ("./pipe", EntryType::Fifo, "", b""),
        ("./dir/./also", EntryType::Regular, "", b"4"),
    ]);
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(Vec::new()), 1000);
    assert_eq!(names(&unpacked), ["dir/also", "ok"]);
    assert_eq!((unpacked.left_out, unpacked.problem), (0, None));
}

#[test]
fn a_file_comes_back_under_each_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let link = |from: &str, to: &str| {
        std::fs::hard_link(dir.path().join(from), dir.path().join(to)).unwrap();
    };
    let long = "n".repeat(200);
    write("a", "hi\n");
    link("a", "b");
    link("a", &long);
    write("input", "as it was");
    link("input", "copy");
    std::os::unix::fs::symlink("a", dir.path().join("symbolic")).unwrap();
    link("symbolic", "symbolic2");
    let inputs = [file("input", 0o644, b"as it was")];
    for format in ["--format=gnu", "--format=pax"] {
        // Whichever name comes first has the content; the order is the directory's.
        for sort in ["--sort=name", "--sort=none"] {
            let mut tar = Command::new("tar");
            let output =
                tar.args(["-cf", "-", format, sort, "-C"]).arg(dir.path()).arg(".").output().unwrap();
            let unpacked = unpack(output.stdout.as_slice(), &Choice::Changed(inputs.to_vec()), 1000);
            assert_eq!(names(&unpacked), ["a", "b", "copy", &long], "{format} {sort}");
            let contents: Vec<_> = unpacked.artifacts.iter().map(|artifact| &artifact.content[..]).collect();
            assert_eq!(contents, [b"hi\n".as_slice(), b"hi\n", b"as it was", b"hi\n"]);
            assert_eq!((unpacked.left_out, unpacked.problem), (0, None));
        }
    }
}

#[test]
fn a_hard_link_without_its_file_is_counted() {
    let archive = foreign(&[
        ("big", EntryType::Regular, "", &[1; 11]),
        ("ok", EntryType::Regular, "", b"12345"),
        ("to-big", EntryType::Link, "big", b""),
        ("to-nothing", EntryType::Link, "/etc/passwd", b""),
        ("to-later", EntryType::Link, "later", b""),
        ("to-ok", EntryType::Link, "./ok", b""),
        ("over", EntryType::Link, "ok", b""),
        ("to-itself", EntryType::Link, "to-itself", b""),
        ("later", EntryType::Regular, "", b""),
    ]);
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(Vec::new()), 10);
    assert_eq!(names(&unpacked), ["later", "ok", "to-ok"], "a second name takes room like a first");
    assert_eq!((unpacked.left_out, unpacked.problem), (6, None));
    // An input that was changed into something too large has lost its old content.
    let inputs = [file("input", 0o644, b"old")];
    let archive =
        foreign(&[("input", EntryType::Regular, "", &[1; 11]), ("copy", EntryType::Link, "input", b"")]);
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(inputs.to_vec()), 10);
    assert_eq!((names(&unpacked), unpacked.left_out), (vec![], 2));
}

#[test]
fn no_two_artifacts_have_one_name() {
    let dir = tempfile::tempdir().unwrap();
    let raw: [&[u8]; 6] =
        [b"bad\xff", b"bad\xfe", b"bad\xff\\xfe", b"bad\xff\xfe", b"new\nline\x1b[2J", b"b\\s"];
    for name in raw {
        std::fs::write(dir.path().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    for format in ["--format=gnu", "--format=pax"] {
        let mut tar = Command::new("tar");
        let output = tar.args(["-cf", "-", format, "-C"]).arg(dir.path()).arg(".").output().unwrap();
        let unpacked = unpack(output.stdout.as_slice(), &Choice::Changed(Vec::new()), 1000);
        let found: Vec<_> = unpacked.artifacts.iter().map(|a| (a.name.as_str(), &a.content[..])).collect();
        let expected = [
            (r"b\s", raw[5]),
            (r"bad\xfe", raw[1]),
            (r"bad\xff", raw[0]),
            (r"bad\xff\\xfe", raw[2]),
            (r"bad\xff\xfe", raw[3]),
            ("new\nline\u{1b}[2J", raw[4]),
        ];
        assert_eq!(found, expected, "{format}");
        assert_eq!((unpacked.left_out, unpacked.problem), (0, None));
    }
    // What would still be the same name is left out and counted; nor does it stand for an input.
    let mut archive = bytes(&[file(r"bad\xff", 0o644, b"text")]);
    archive.truncate(1024);
    let mut builder = Builder::new(archive);
    for (content, name) in [(b"byte", b"bad\xff".as_slice()), (b"text", b"bad\xff")] {
        let mut header = Header::new_gnu();
        header.set_size(4);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
        header.set_cksum();
        builder.append(&header, content.as_slice()).unwrap();
    }
    let archive = builder.into_inner().unwrap();
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(Vec::new()), 1000);
    assert_eq!((names(&unpacked), unpacked.left_out), (vec![r"bad\xff"], 2));
    let unpacked = unpack(&archive[1024..], &Choice::Changed(vec![file(r"bad\xff", 0o644, b"byte")]), 1000);
    assert_eq!((names(&unpacked), unpacked.left_out), (vec![r"bad\xff"], 1));
}

#[test]
fn inputs_come_back_only_when_they_changed() {
    let inputs = [
        file("same", 0o644, b"abc"),
        file("changed", 0o644, b"abc"),
        file("emptied", 0o644, b"abc"),
        file("large", 0o644, &[7; 100]),
    ];
    let archive = bytes(&[
        inputs[0].clone(),
        file("changed", 0o644, b"abd"),
        file("emptied", 0o644, b""),
        inputs[3].clone(),
    ]);
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(inputs.to_vec()), 10);
    assert_eq!(names(&unpacked), ["changed", "emptied"]);
    // The unchanged file of 100 bytes is beyond the cap, but it is not missing from the result.
    assert_eq!(unpacked.left_out, 0);
}

#[test]
fn a_file_that_does_not_fit_is_left_out_whole() {
    let archive = bytes(&[
        file("a", 0o644, &[1; 6]),
        file("b", 0o644, &[2; 5]),
        file("c", 0o644, &[3; 4]),
        file("d", 0o644, b""),
    ]);
    let unpacked = unpack(archive.as_slice(), &Choice::Changed(Vec::new()), 10);
    assert_eq!(names(&unpacked), ["a", "c", "d"]);
    assert_eq!(unpacked.left_out, 1);

    let many: Vec<_> = (0..1001).map(|n| file(&format!("{n}"), 0o644, b"")).collect();
    let unpacked = unpack(bytes(&many).as_slice(), &Choice::Changed(Vec::new()), 10);
    assert_eq!((unpacked.artifacts.len(), unpacked.left_out), (1000, 1));
}

#[test]
fn an_archive_that_breaks_off_says_so() {
    let archive = bytes(&[file("a", 0o644, &[1; 600]), file("b", 0o644, &[2; 600])]);
    // Within a header, within a content.
    for length in [700, 512 + 300, 512 + 1024 + 512 + 10] {
        let unpacked = unpack(&archive[..length], &Choice::Changed(Vec::new()), 10_000);
        assert!(unpacked.problem.is_some(), "{length}");
    }
    let unpacked = unpack(&archive[..512 + 1024 + 512 + 10], &Choice::Changed(Vec::new()), 10_000);
    assert_eq!(names(&unpacked), ["a"], "what came whole is kept");
}

#[test]
fn a_header_cannot_make_memory_grow() {
    // Sizes as the header claims them; the bytes never come.
    for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::Regular] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(1 << 40);
        header.set_cksum();
        let endless = header.as_bytes().as_slice().chain(io::repeat(b'x').take(1 << 20));
        let unpacked = unpack(endless, &Choice::Changed(Vec::new()), 1 << 30);
        assert!(unpacked.problem.is_some() || unpacked.left_out == 1);
        assert!(unpacked.artifacts.is_empty());
    }
}

proptest! {
    #[test]
    fn packing_and_unpacking_are_inverse(
        contents in prop::collection::btree_map("[a-z]{1,8}(/[a-zé]{1,60}){0,4}x", prop::collection::vec(any::<u8>(), 0..2000), 0..6),
    ) {
        let files: Vec<_> = contents.iter().map(|(name, content)| file(name, 0o644, content)).collect();
        let unpacked = unpack(bytes(&files).as_slice(), &Choice::Changed(Vec::new()), 1 << 20);
        prop_assert_eq!(unpacked.problem, None);
        let found: Vec<_> = unpacked.artifacts.into_iter().map(|a| (a.name, a.content.to_vec())).collect();
        prop_assert_eq!(found, contents.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn no_stream_panics(noise in prop::collection::vec(any::<u8>(), 0..3000)) {
        let _ = unpack(noise.as_slice(), &Choice::Changed(Vec::new()), 1000);
    }
}
