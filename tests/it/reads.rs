//! The reads, end to end over stdio, with programs in kubectl's place and with the real one.

mod apiserver;
mod environment;
mod failures;
mod floods;
mod lesson;
mod real;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::session::{Session, kubepermit};

/// A home, and a folder with a program in kubectl's place.
struct Stage {
    home: TempDir,
}

impl Stage {
    /// `script` is what follows `#!/bin/sh` in the program; `$LOG` in it is [`Stage::log`].
    fn new(script: &str) -> Self {
        let stage = Self { home: tempfile::tempdir().unwrap() };
        std::fs::create_dir(stage.bin()).unwrap();
        let log = format!("LOG='{}'", stage.home.path().join("log").display());
        stage.program("kubectl", &format!("{log}\n{script}"));
        stage
    }

    fn bin(&self) -> PathBuf {
        self.home.path().join("bin")
    }

    /// Puts a shell script into the folder that is first on the PATH.
    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.bin().join(name);
        self::script(&path, script);
        path
    }

    /// The server, with the fake kubectl first on its PATH.
    fn server(&self, arguments: &[&str]) -> Command {
        let mut command = kubepermit(self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.bin().display()));
        command.arg("serve").args(arguments);
        command
    }

    fn session(&self, arguments: &[&str]) -> Session {
        let mut session = Session::spawn(self.server(arguments));
        session.initialize("2025-11-25");
        session
    }

    /// What the programs wrote into `$LOG`.
    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    fn audit(&self) -> PathBuf {
        self.home.path().join(".local/state/kubepermit/audit")
    }
}

/// Writes a shell script that can be run.
pub(crate) fn script(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The text of a result, and whether it is an error.
fn text(result: &Value) -> (bool, String) {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    (is_error, result["content"][0]["text"].as_str().unwrap().to_owned())
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
