//! Archives from a pod: whatever it sends, names stay below the work directory and sizes below the cap; and what
//! was packed comes out again.
#![no_main]

use std::collections::BTreeSet;

use bytes::Bytes;
use kubepermit::executor::fuzzing::{Choice, pack, unpack};
use kubepermit::plan::PlannedFile;
use libfuzzer_sys::fuzz_target;

const MOST_FILES: usize = 1000;

fn safe(archive: &[u8], inputs: &[PlannedFile], cap: u64) {
    let choice = Choice::Changed(inputs.to_vec());
    let unpacked = unpack(archive, &choice, cap);
    assert!(unpacked.artifacts.len() <= MOST_FILES);
    let total: u64 = unpacked.artifacts.iter().map(|artifact| artifact.content.len() as u64).sum();
    assert!(total <= cap, "{total} bytes with a cap of {cap}");
    let mut names = BTreeSet::new();
    for artifact in &unpacked.artifacts {
        let name = &artifact.name;
        assert!(!name.is_empty() && !name.starts_with('/') && !name.ends_with('/'), "{name:?}");
        assert!(name.split('/').all(|part| !part.is_empty() && part != "." && part != ".."), "{name:?}");
        assert!(names.insert(name), "{name:?} is there twice");
        let unchanged = |file: &PlannedFile| file.path == *name && file.content == artifact.content;
        assert!(!inputs.iter().any(unchanged), "{name:?} is an input that did not change");
    }
    // A greater cap never gives less.
    let more = unpack(archive, &choice, cap.saturating_mul(2));
    assert!(more.artifacts.len() >= unpacked.artifacts.len() || more.problem.is_some());
}

/// Files whose names and contents are taken from the data.
fn files(data: &[u8]) -> Vec<PlannedFile> {
    let mut files: Vec<PlannedFile> = Vec::new();
    for (index, chunk) in data.chunks(300).take(20).enumerate() {
        let (name, content) = chunk.split_at(usize::from(chunk[0]).min(chunk.len()));
        // A path as the plan accepts them, long ones included, and told from the others by its number.
        let name: String =
            name.iter().map(|byte| char::from(b'a' + byte % 26)).chain(format!("/{index}").chars()).collect();
        let mode = 0o600 | (u32::from(chunk[0]) & 0o177);
        let path = name.trim_start_matches('/').to_owned();
        files.push(PlannedFile { path, mode, content: Bytes::copy_from_slice(content) });
    }
    files
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let files = files(rest);
    match first % 3 {
        0 => safe(rest, &[], 10_000),
        1 => {
            // A good archive, damaged in one place.
            let Ok(chunks) = pack(&files, 1_700_000_000) else { return };
            let mut archive = chunks.concat();
            if let [at_high, at_low, value, ..] = rest {
                let at = usize::from(u16::from_be_bytes([*at_high, *at_low])) % archive.len();
                archive[at] ^= value;
            }
            safe(&archive, &files, u64::from(*first) * 100);
        }
        _ => {
            let archive = pack(&files, 1_700_000_000).expect("paths without NUL can be packed").concat();
            assert_eq!(archive.len() % 512, 0);
            let unpacked = unpack(&archive[..], &Choice::Changed(Vec::new()), u64::MAX / 2);
            assert_eq!((unpacked.left_out, &unpacked.problem), (0, &None));
            let mut expected: Vec<(&str, &Bytes)> =
                files.iter().map(|file| (file.path.as_str(), &file.content)).collect();
            expected.sort();
            let found: Vec<(&str, &Bytes)> =
                unpacked.artifacts.iter().map(|found| (found.name.as_str(), &found.content)).collect();
            assert_eq!(found, expected);
            let inputs = Choice::Changed(files.clone());
            assert!(unpack(&archive[..], &inputs, u64::MAX / 2).artifacts.is_empty(), "nothing changed");
        }
    }
});
