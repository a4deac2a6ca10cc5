//! The files of a bundle: compiled in or read from a directory, and never found by looking around.
//!
//! A bundle is `data.yaml`, `*.rego` and `tests/`. Every other file is refused by name, so that none is believed
//! to count and does not. The exceptions are documentation, and what a mounted ConfigMap (`..data`) or a
//! checkout (`.git`) brings along.

mod characters;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::policy::error::{LoadError, Problem};

/// Where the bundle comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    /// The bundle that is compiled into the program.
    BuiltIn,
    /// A directory that replaces it whole.
    Directory(PathBuf),
}

/// The files of a bundle, by their path in it, as text.
#[derive(Debug, Clone, Default)]
pub(in crate::policy) struct Bundle {
    files: BTreeMap<String, String>,
}

/// The bundle as it is shipped.
pub(in crate::policy) static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/policies");

/// The data file of a bundle.
pub(in crate::policy) const DATA_FILE: &str = "data.yaml";

/// The folder of a bundle's unit tests, which never take part in a decision.
const TESTS: &str = "tests/";

/// The engine's own limit for a module.
const MAX_REGO_BYTES: u64 = 1024 * 1024;
/// 100,000 images are about 5 MiB of YAML.
const MAX_DATA_BYTES: u64 = 32 * 1024 * 1024;
const MAX_FILES: usize = 1000;
const MAX_FOLDERS_DEEP: usize = 8;

/// Files that are left aside, besides those that end in `.md`.
const DOCUMENTATION: [&str; 6] = ["CODEOWNERS", "LICENSE", "NOTICE", "OWNERS", "README", "README.txt"];
/// Entries that are left aside because a tool put them there, besides those that begin with `..`.
const OF_TOOLS: [&str; 8] =
    [".DS_Store", ".editorconfig", ".git", ".gitattributes", ".github", ".gitignore", ".gitkeep", ".regal"];

impl Bundle {
    /// Reads the bundle.
    pub(in crate::policy) fn read(source: &BundleSource) -> Result<Self, LoadError> {
        let mut bundle = Self::default();
        match source {
            BundleSource::BuiltIn => bundle.add_built_in(&BUILT_IN)?,
            BundleSource::Directory(root) => {
                let root = fs::canonicalize(root).map_err(|source| read_error(root, source))?;
                bundle.add_folder(&root, &root, "", 0)?;
            }
        }
        Ok(bundle)
    }

    /// A bundle from memory.
    #[cfg(test)]
    pub(in crate::policy) fn from_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, LoadError> {
        let mut bundle = Self::default();
        for (path, bytes) in files {
            bundle.add(path.to_owned(), bytes)?;
        }
        Ok(bundle)
    }

    /// The modules that decide, in the order of their paths.
    pub(in crate::policy) fn rules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.modules().filter(|(path, _)| !is_test(path))
    }

    /// All modules, the tests' included.
    pub(in crate::policy) fn modules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .filter(|(path, _)| path.ends_with(".rego"))
    }

    /// The text of `data.yaml`.
    pub(in crate::policy) fn data(&self) -> Result<&str, LoadError> {
        self.files.get(DATA_FILE).map(String::as_str).ok_or(LoadError::Bundle("has no data.yaml"))
    }

    /// SHA-256 over the sorted paths and contents, and over what is laid over the data. Lengths go in before
    /// the bytes, so that no two bundles run together.
    pub(in crate::policy) fn revision(&self, overlay: &str) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        for (path, text) in &self.files {
            part(path.as_bytes());
            part(text.as_bytes());
        }
        part(overlay.as_bytes());
        hex::encode(hash.finalize())
    }

    fn add_built_in(&mut self, dir: &Dir<'_>) -> Result<(), LoadError> {
        for file in dir.files() {
            self.add(slashed(file.path()), file.contents())?;
        }
        for dir in dir.dirs() {
            self.add_built_in(dir)?;
        }
        Ok(())
    }

    fn add_folder(
        &mut self,
        root: &Path,
        folder: &Path,
        prefix: &str,
        depth: usize,
    ) -> Result<(), LoadError> {
        if depth > MAX_FOLDERS_DEEP {
            let problem = Problem::TooMany { limit: MAX_FOLDERS_DEEP, what: "levels of folders" };
            return Err(LoadError::rejected(prefix, None, problem));
        }
        for entry in fs::read_dir(folder).map_err(|source| read_error(folder, source))? {
            let entry = entry.map_err(|source| read_error(folder, source))?;
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(LoadError::rejected(name.to_string_lossy(), None, Problem::NotUtf8));
            };
            if is_of_a_tool(name) {
                continue;
            }
            let name = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(|source| read_error(&path, source))?;
            if kind.is_dir() {
                self.add_folder(root, &path, &format!("{name}/"), depth.saturating_add(1))?;
            } else {
                let target = fs::canonicalize(&path).map_err(|source| read_error(&path, source))?;
                let is_file = fs::metadata(&target).map_err(|source| read_error(&path, source))?.is_file();
                if kind.is_symlink() && (!target.starts_with(root) || !is_file) {
                    return Err(LoadError::rejected(name, None, Problem::Symlink));
                }
                if !is_file {
                    return Err(LoadError::rejected(name, None, Problem::NotAFile));
                }
                let bytes = read_capped(&target).map_err(|source| read_error(&path, source))?;
                self.add(name, &bytes)?;
            }
        }
        Ok(())
    }

    /// Takes a file in, or leaves it aside if it is documentation.
    fn add(&mut self, path: String, bytes: &[u8]) -> Result<(), LoadError> {
        let limit = match kind_of(&path) {
            Kind::Module => MAX_REGO_BYTES,
            Kind::Data => MAX_DATA_BYTES,
            Kind::Documentation => return Ok(()),
            Kind::StrayData => return Err(LoadError::rejected(path, None, Problem::StrayData)),
            Kind::Unknown => return Err(LoadError::rejected(path, None, Problem::UnknownFile)),
        };
        if bytes.len() as u64 > limit {
            return Err(LoadError::rejected(path, None, Problem::TooLarge { limit }));
        }
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(LoadError::rejected(path, None, Problem::ByteOrderMark));
        }
        let Ok(text) = str::from_utf8(bytes) else {
            return Err(LoadError::rejected(path, None, Problem::NotUtf8));
        };
        if let Some((line, c)) = characters::misleading(text) {
            return Err(LoadError::rejected(path, Some(line), Problem::Character(u32::from(c))));
        }
        if self.files.len() >= MAX_FILES {
            let problem = Problem::TooMany { limit: MAX_FILES, what: "files" };
            return Err(LoadError::rejected(path, None, problem));
        }
        self.files.insert(path, text.to_owned());
        Ok(())
    }
}

enum Kind {
    Module,
    Data,
    Documentation,
    StrayData,
    Unknown,
}

/// What a file is by its path. Names are taken as they are written: `a.REGO` is no module to the engine's own
/// tools either.
fn kind_of(path: &str) -> Kind {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path == DATA_FILE {
        return Kind::Data;
    }
    // A module that is put out of use by a suffix, `site.rego.md`, is not documentation.
    if DOCUMENTATION.contains(&name) || (name.ends_with(".md") && !name.to_lowercase().contains(".rego")) {
        return Kind::Documentation;
    }
    match name.rsplit_once('.') {
        // What is hidden is not seen by who reviews the bundle.
        Some((_, "rego")) if !path.split('/').any(|part| part.starts_with('.')) => Kind::Module,
        Some((_, extension)) if ["json", "yaml", "yml"].contains(&extension.to_lowercase().as_str()) => {
            Kind::StrayData
        }
        _ => Kind::Unknown,
    }
}

fn is_of_a_tool(name: &str) -> bool {
    name.starts_with("..") || OF_TOOLS.contains(&name)
}

/// Whether a module belongs to the unit tests.
pub(in crate::policy) fn is_test(path: &str) -> bool {
    path.starts_with(TESTS)
}

/// One byte more than the largest limit is enough to see that a file is over it.
fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_DATA_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A path in the bundle, the same on every system.
fn slashed(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn read_error(path: &Path, source: io::Error) -> LoadError {
    LoadError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
