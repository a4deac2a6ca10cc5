//! The paths of a job: its input files and its work directory.

#[cfg(test)]
mod tests;

use crate::plan::manifest::CONTROL_DIR;
use crate::plan::{MAX_REASONS, PlannedFile, quote};
use crate::refusal::Reason;
use crate::schema::InputFile;

/// The work directory of a call that names none.
pub(in crate::plan) const DEFAULT_WORKDIR: &str = "/work";

/// Linux's `PATH_MAX` counts the terminating NUL.
const MAX_PATH_BYTES: usize = 4095;
/// Linux's `NAME_MAX`.
const MAX_COMPONENT_BYTES: usize = 255;
/// Permission bits of a file whose mode was not given.
const DEFAULT_MODE: u32 = 0o644;

/// Below these nothing may be mounted: the kernel's own file systems and the gateway's control directory.
const FORBIDDEN_TREES: [&str; 4] = ["/proc", "/sys", "/dev", CONTROL_DIR];
/// An empty volume here would hide the programs and libraries that the containers need to start.
const FORBIDDEN_DIRECTORIES: [&str; 14] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
];

/// Checks every input file.
///
/// # Errors
/// The reasons, at most [`MAX_REASONS`]: `files.path`, `files.mode`, `files.duplicate`.
pub(in crate::plan) fn files(files: &[InputFile]) -> Result<Vec<PlannedFile>, Vec<Reason>> {
    let mut planned = Vec::with_capacity(files.len());
    let mut reasons = Vec::new();
    for (index, file) in files.iter().enumerate() {
        if let Err(what) = relative(&file.path) {
            reasons.push(Reason::new(
                "files.path",
                format!("file path {} {what}", quote(&file.path)),
                format!("/files/{index}/path"),
                "write a path relative to the work directory, for example `src/main.py`",
            ));
        }
        match mode(file.mode.as_deref()) {
            Ok(mode) => {
                planned.push(PlannedFile { path: file.path.clone(), mode, content: file.content.clone() })
            }
            Err(what) => reasons.push(Reason::new(
                "files.mode",
                format!(
                    "mode {} of file {} {what}",
                    quote(file.mode.as_deref().unwrap_or_default()),
                    quote(&file.path)
                ),
                format!("/files/{index}/mode"),
                "write three octal digits, for example `0644` or `0755`",
            )),
        }
        if reasons.len() >= MAX_REASONS {
            return Err(reasons);
        }
    }
    reasons.extend(conflicts(files).take(MAX_REASONS));
    if reasons.is_empty() { Ok(planned) } else { Err(reasons) }
}

/// Checks the work directory and drops a trailing slash.
///
/// # Errors
/// A reason with code `workdir.invalid`.
pub(in crate::plan) fn workdir(requested: Option<&str>) -> Result<String, Reason> {
    let Some(requested) = requested else {
        return Ok(DEFAULT_WORKDIR.to_owned());
    };
    match absolute(requested) {
        Ok(path) => Ok(path.to_owned()),
        Err(what) => Err(Reason::new(
            "workdir.invalid",
            format!("work directory {} {what}", quote(requested)),
            "/workdir",
            "write an absolute path of its own, for example `/work` or `/src/app`",
        )),
    }
}

/// Two entries for one path, or a file where another entry needs a directory.
fn conflicts(files: &[InputFile]) -> impl Iterator<Item = Reason> {
    let mut sorted: Vec<(usize, &str)> =
        files.iter().enumerate().map(|(index, file)| (index, file.path.as_str())).collect();
    // By component, so that everything below a path follows it directly.
    sorted.sort_by(|(_, a), (_, b)| a.split('/').cmp(b.split('/')));
    let mut found = Vec::new();
    for pair in sorted.windows(2) {
        let [(_, first), (index, second)] = pair else {
            continue;
        };
        let what = if first == second {
            format!("file path {} is there twice", quote(second))
        } else if is_below(second, first) {
            format!("file path {} needs a directory where {} is a file", quote(second), quote(first))
        } else {
            continue;
        };
        found.push(Reason::new(
            "files.duplicate",
            what,
            format!("/files/{index}/path"),
            "give each file a path of its own",
        ));
    }
    found.into_iter()
}

/// Whether two directories are the same, or one lies in the other.
pub(in crate::plan) fn overlap(a: &str, b: &str) -> bool {
    a == b || is_below(a, b) || is_below(b, a)
}

fn is_below(path: &str, tree: &str) -> bool {
    path.strip_prefix(tree).is_some_and(|rest| rest.starts_with('/'))
}

pub(in crate::plan) fn relative(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute");
    }
    if path.len() > MAX_PATH_BYTES {
        return Err("is longer than 4095 bytes");
    }
    if path.contains('\\') {
        return Err("has a backslash; directories are separated by `/`");
    }
    if path.chars().any(is_unprintable) {
        return Err("has a control character");
    }
    components(path)
}

/// The path without a trailing slash.
pub(in crate::plan) fn absolute(path: &str) -> Result<&str, &'static str> {
    let Some(below_root) = path.strip_prefix('/') else {
        return Err("is not absolute");
    };
    let below_root = below_root.strip_suffix('/').unwrap_or(below_root);
    if below_root.is_empty() {
        return Err("is the root directory");
    }
    if path.len() > MAX_PATH_BYTES {
        return Err("is longer than 4095 bytes");
    }
    // Narrower than Linux: a colon is no mount path for Kubernetes, and blanks and quotes only serve to
    // confuse whoever reads the record.
    if !below_root.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._+@-".contains(&b)) {
        return Err("has a character other than letters, digits and `/`, `.`, `_`, `+`, `@`, `-`");
    }
    components(below_root)?;
    let path = path.strip_suffix('/').unwrap_or(path);
    if FORBIDDEN_TREES.iter().any(|tree| path == *tree || is_below(path, tree)) {
        return Err("is in /proc, /sys, /dev or /kubepermit");
    }
    if FORBIDDEN_DIRECTORIES.contains(&path) {
        return Err("would hide a system directory that the containers need");
    }
    Ok(path)
}

fn components(path: &str) -> Result<(), &'static str> {
    for component in path.split('/') {
        match component {
            "" => return Err("has an empty component"),
            "." => return Err("has a `.` component"),
            ".." => return Err("has a `..` component"),
            name if name.len() > MAX_COMPONENT_BYTES => return Err("has a component longer than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// Controls, and the marks that make a line read in another order or break it: a record must show a name as
/// it is.
pub(in crate::plan) fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `^0?[0-7]{3}$`.
fn mode(text: Option<&str>) -> Result<u32, &'static str> {
    let Some(text) = text else {
        return Ok(DEFAULT_MODE);
    };
    let octal = !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
    match (octal, text.len(), text.starts_with('0')) {
        (true, 3, _) | (true, 4, true) => u32::from_str_radix(text, 8).map_err(|_| "is not octal"),
        (true, 4, false) => Err("has the setuid, setgid or sticky bit"),
        (true | false, _, _) => Err("is not an octal file mode"),
    }
}
