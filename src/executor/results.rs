//! The ends of background jobs in a directory that several servers share, for their 60 minutes.
//!
//! One file a job, named by the digests of its token and caller, 0600 in a directory that is 0700. It is written
//! beside its place and then renamed, so that no reader sees half of one.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::executor::handles::{JobEnd, KEPT};
use crate::ids::HandleKey;

/// The largest file that is read back: a result at the largest caps, and not whatever somebody put there.
const MOST_BYTES: u64 = 1 << 30;

/// How many random characters the name of a half-written file has.
const RANDOM: usize = 32;

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Results(PathBuf);

impl Results {
    /// Opens the directory, and makes it when it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or is not a directory that is its owner's alone.
    pub fn open(directory: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let directory = std::path::absolute(directory)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let metadata = fs::metadata(&directory)?;
        let own = metadata.uid() == nix::unistd::geteuid().as_raw();
        if !metadata.is_dir() || metadata.mode() & 0o077 != 0 || !own {
            let text = "the directory of results has to be this user's own, with mode 0700";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self(directory))
    }

    /// Keeps an end. Blocks.
    ///
    /// # Errors
    /// The operating system's.
    pub fn put(&self, key: &HandleKey, end: &JobEnd) -> io::Result<()> {
        // New, 0600, and under a name that nobody can have prepared, also not another server that writes the same
        // end. It goes by itself unless it is kept.
        let mut aside = tempfile::Builder::new()
            .prefix(&format!("{}-", stem(key)))
            .suffix(".part")
            .rand_bytes(RANDOM)
            .tempfile_in(&self.0)?;
        aside.write_all(&serde_json::to_vec(end)?)?;
        aside.as_file().sync_all()?;
        aside.persist(self.place(key))?;
        Ok(())
    }

    /// An end that is there and whose time is not over. Blocks.
    #[must_use]
    pub fn get(&self, key: &HandleKey) -> Option<JobEnd> {
        let place = self.place(key);
        let metadata = fs::metadata(&place).ok()?;
        if age(&metadata)? >= KEPT || metadata.len() > MOST_BYTES {
            return None;
        }
        serde_json::from_slice(&fs::read(&place).ok()?).ok()
    }

    /// Removes what is older than its time. Blocks.
    pub fn sweep(&self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let ours = name.to_str().is_some_and(is_ours);
            let old =
                entry.metadata().ok().and_then(|metadata| age(&metadata)).is_some_and(|age| age >= KEPT);
            if ours && old {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn place(&self, key: &HandleKey) -> PathBuf {
        self.0.join(format!("{}.json", stem(key)))
    }
}

fn stem(key: &HandleKey) -> String {
    format!("{}-{}", key.token(), key.owner())
}

/// Whether a file is one of these, and not something else that is kept there.
fn is_ours(name: &str) -> bool {
    let is_key = |stem: &str| {
        stem.split_once('-').is_some_and(|(token, owner)| HandleKey::recovered(token, owner).is_some())
    };
    let is_half = |stem: &str| {
        stem.rsplit_once('-').is_some_and(|(key, random)| {
            is_key(key) && random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())
        })
    };
    name.strip_suffix(".json").is_some_and(is_key) || name.strip_suffix(".part").is_some_and(is_half)
}

/// `None` when the file's time is in the future, as after a clock was set back: then it is not old.
fn age(metadata: &fs::Metadata) -> Option<Duration> {
    let modified = metadata.modified().ok()?;
    Some(SystemTime::now().duration_since(modified).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;
    use crate::executor::handles::EndStatus;
    use crate::ids::JobToken;

    #[test]
    fn an_end_is_private_whole_and_gone_after_its_time() {
        let home = tempfile::tempdir().unwrap();
        let results = Results::open(&home.path().join("a/b")).unwrap();
        let token = JobToken::mint();
        let key = HandleKey::new(&token, &"0".repeat(32));
        assert_eq!(results.get(&key), None);
        let end = JobEnd {
            status: EndStatus::Done,
            reason: None,
            error: None,
            result: Some(json!({ "stdout": "x" })),
        };
        results.put(&key, &end).unwrap();
        assert_eq!(results.get(&key), Some(end));
        assert_eq!(results.get(&HandleKey::new(&token, &"1".repeat(32))), None, "another caller's");
        let place = results.place(&key);
        assert!(!place.display().to_string().contains(token.reveal().get(4..).unwrap()));
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
        results.sweep();
        assert!(place.exists());
        let old = SystemTime::now() - KEPT;
        fs::File::options().write(true).open(&place).unwrap().set_modified(old).unwrap();
        assert_eq!(results.get(&key), None, "not given out past its time");
        let half = results.0.join(format!("{}-{}.part", stem(&key), "x".repeat(RANDOM)));
        fs::File::create(&half).unwrap().set_modified(old).unwrap();
        let others = ["notes.json", "half.part", &format!("{}-x.json", "0".repeat(32))];
        for name in others {
            let file = fs::File::create(results.0.join(name)).unwrap();
            file.set_modified(old).unwrap();
        }
        results.sweep();
        assert!(!place.exists() && !half.exists());
        assert!(others.iter().all(|name| results.0.join(name).exists()), "somebody else's file is gone");
        fs::set_permissions(&results.0, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Results::open(&results.0).is_err(), "others could read");
    }
}
