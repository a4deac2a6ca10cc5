//! Writes the compiled-in bundle out, for editing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use include_dir::Dir;
use thiserror::Error;

use crate::policy::bundle::BUILT_IN;

/// Why nothing was written, or not all of it.
#[derive(Debug, Error)]
pub enum InitError {
    /// The directory holds something, which might be somebody's policy.
    #[error("`{}` is not empty; name a new directory", .0.display())]
    NotEmpty(PathBuf),
    /// The file system refused.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Writes the bundle to `dir`, which is made if it is not there, and returns the files' paths in order.
///
/// # Errors
/// [`InitError`] when the directory is not empty or cannot be written.
pub fn init(dir: &Path) -> Result<Vec<PathBuf>, InitError> {
    make_dir(dir)?;
    let mut entries = fs::read_dir(dir).map_err(|source| write_error(dir, source))?;
    if entries.next().is_some() {
        return Err(InitError::NotEmpty(dir.to_owned()));
    }
    let mut written = Vec::new();
    write(&BUILT_IN, dir, &mut written)?;
    written.sort();
    Ok(written)
}

fn write(from: &Dir<'_>, to: &Path, written: &mut Vec<PathBuf>) -> Result<(), InitError> {
    for file in from.files() {
        let path = to.join(file.path());
        // A file that appeared in the meantime is somebody else's.
        let result =
            fs::File::create_new(&path).and_then(|mut new| io::Write::write_all(&mut new, file.contents()));
        result.map_err(|source| write_error(&path, source))?;
        written.push(path);
    }
    for dir in from.dirs() {
        make_dir(&to.join(dir.path()))?;
        write(dir, to, written)?;
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<(), InitError> {
    fs::create_dir_all(dir).map_err(|source| write_error(dir, source))
}

fn write_error(path: &Path, source: io::Error) -> InitError {
    InitError::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{BundleSource, Overlay, Policy};

    #[test]
    fn what_it_writes_is_the_shipped_bundle() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/policies");
        let written = init(&target).unwrap();
        assert!(written.contains(&target.join("data.yaml")));
        assert!(written.contains(&target.join("tests/images_test.rego")));

        let overlay = Overlay::default();
        let ours = Policy::load(&BundleSource::Directory(target), &overlay).unwrap();
        let shipped = Policy::load(&BundleSource::BuiltIn, &overlay).unwrap();
        assert_eq!(ours.revision(), shipped.revision());
    }

    #[test]
    fn it_leaves_a_directory_alone_that_holds_something() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".hidden"), "mine").unwrap();
        assert!(matches!(init(dir.path()), Err(InitError::NotEmpty(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
