//! Looks at the work directory before anything is fetched from it: where a call chooses its artifacts, and where a
//! clone was there before the command, most of what lies there is not wanted.
//!
//! What a clone left is told from what the command changed by the file's ctime, compared with the moment in which the
//! clone was complete ([`BEFORE_FILE`](crate::plan::manifest::BEFORE_FILE), which the command cannot reach). Unlike the mtime, which `tar x` and `cp -p`
//! set to something older and `touch` to anything, no program without privileges can set it. (A directory that the
//! command renames takes unchanged files along; they come back when a pattern asks for them.)

use bytes::Bytes;

use crate::executor::archive::{MOST_FILES, artifact_name};
use crate::plan::{PlannedFile, WantedArtifacts};

/// The most bytes of a listing: some 100,000 files.
pub(crate) const MOST_BYTES: usize = 8 << 20;

/// Lists the directory `$0`: a first line with the moment when all was in place, empty when nobody said so; then of each
/// regular file the ctime, the size and the name. A last line `!` says that there are names with a line break, which
/// are left out. Works with BusyBox and with GNU's programs.
pub(crate) const LIST: &str = r#"cd "$0" || exit 2
if [ -e /kubepermit/before ]; then stat -c %z /kubepermit/before; else echo; fi
n=$(printf '\nx'); n=${n%x}
find . -type f ! -path "*$n*" -exec stat -c '%z %s %n' {} + || exit
[ -z "$(find . -type f -path "*$n*" | head -n 1)" ] || echo '!'"#;

/// Writes an archive of the files of `$0` whose names come on standard input, each with a NUL after it.
pub(crate) const FETCH: &str = r#"cd "$0" && xargs -0 -r tar -cf -"#;

/// What is to be fetched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The input of [`FETCH`].
    pub(crate) chosen: Vec<Bytes>,
    /// How many files are wanted and not among them: they do not fit.
    pub(crate) left_out: u64,
}

/// A file of the listing.
struct Entry<'a> {
    /// Date, time and zone.
    changed: &'a [u8],
    size: u64,
    /// As `find` gives it.
    path: &'a [u8],
}

/// Chooses from the output of [`LIST`] what is wanted, in the order of the names, as far as it fits into `cap` bytes.
/// `inputs` were placed after the moment in the first line and count as changed; whether they are, their content tells.
///
/// # Errors
/// What is wrong with the listing.
pub(crate) fn choose(
    listing: &[u8],
    artifacts: &WantedArtifacts,
    inputs: &[PlannedFile],
    cap: u64,
) -> Result<Listed, String> {
    let mut lines = listing.strip_suffix(b"\n").unwrap_or(listing).split(|byte| *byte == b'\n');
    let complete = lines.next().unwrap_or_default();
    let mut left_out = 0;
    let mut wanted = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        if line == b"!" {
            left_out += 1;
            continue;
        }
        let entry = entry(line).ok_or("the listing of the work directory cannot be read")?;
        let Some(name) = artifact_name(entry.path) else { continue };
        let wants = match artifacts {
            WantedArtifacts::Matching(patterns) => patterns.ask_for(&name),
            WantedArtifacts::Changed => entry.changed > complete,
            WantedArtifacts::None => false,
        };
        if wants {
            wanted.push((name, entry));
        }
    }
    wanted.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut room = cap;
    let mut files = 0;
    let mut names = Vec::new();
    for (name, entry) in wanted {
        let changed = matches!(artifacts, WantedArtifacts::Changed);
        let length = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        // It comes along to be compared, and takes no room if it is the same.
        let perhaps_input = changed
            && inputs.iter().any(|file| file.path == name && length(file.content.len()) == entry.size);
        if !perhaps_input {
            if entry.size > room || files == MOST_FILES {
                left_out += 1;
                continue;
            }
            room -= entry.size;
            files += 1;
        }
        names.extend_from_slice(entry.path);
        names.push(0);
    }
    let chosen = if names.is_empty() { Vec::new() } else { vec![Bytes::from(names)] };
    Ok(Listed { chosen, left_out })
}

/// `2026-01-01 00:00:00.123456789 +0000 42 ./name`
fn entry(line: &[u8]) -> Option<Entry<'_>> {
    let mut blanks = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let (_date, _time, zone, size) = (blanks.next()?, blanks.next()?, blanks.next()?, blanks.next()?);
    let digits = std::str::from_utf8(line.get(zone + 1..size)?).ok()?;
    Some(Entry { changed: line.get(..zone)?, size: digits.parse().ok()?, path: line.get(size + 1..)? })
}

#[cfg(test)]
mod tests;
