//! The folders that kubectl sees: private to this user, and empty but for kubectl's discovery cache.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A private folder (mode 0700) with one folder for each of kubectl's needs. Dropping it removes it.
#[derive(Debug)]
pub struct PrivateHome {
    root: TempDir,
}

impl PrivateHome {
    /// Makes the folders in the system's directory for such files.
    ///
    /// # Errors
    /// The operating system's.
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("kubepermit-reads-").tempdir()?;
        let home = Self { root };
        home.ensure()?;
        Ok(home)
    }

    /// Makes what has gone: cleaners of temporary files remove empty folders. Never the private folder itself,
    /// whose place somebody else might have taken.
    pub(super) fn ensure(&self) -> io::Result<()> {
        for folder in [self.home(), self.work(), self.temporary(), self.cache()] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// `HOME`: stays empty.
    pub(super) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The working directory: stays empty.
    pub(super) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// `TMPDIR`.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// `--cache-dir`: what the API server offers, asked once.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.path().join("cache")
    }

    /// The folder that holds all of them.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Writes a kubeconfig that only this user may read. JSON is YAML, too.
    pub(super) fn write_kubeconfig(&self, document: &serde_json::Value) -> io::Result<PathBuf> {
        let path = self.root.path().join("kubeconfig");
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(document.to_string().as_bytes())?;
        Ok(path)
    }
}
