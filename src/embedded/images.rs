//! The images of the embedded cluster: which names exist, and which of the host's programs make them.
//!
//! Nothing is pulled. An image is a name under which the host's own programs run; one whose programs are
//! missing here, and every name outside the table, is as absent as a wrong name is in a registry.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The search path of every image, as the official images have it.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where host programs are looked for.
const HOST_DIRECTORIES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// One repository of the table.
struct Entry {
    repository: &'static str,
    tags: &'static [&'static str],
    /// Command names of the image and the host programs behind them. The first is the one that must exist.
    programs: &'static [(&'static str, &'static str)],
    /// What runs when a container names neither command nor args.
    command: &'static [&'static str],
}

const TABLE: [Entry; 4] = [
    Entry {
        repository: "docker.io/library/busybox",
        tags: &["1.36", "1.37", "latest"],
        programs: &[("sh", "sh")],
        command: &["sh"],
    },
    Entry {
        repository: "docker.io/library/bash",
        tags: &["5", "latest"],
        programs: &[("bash", "bash")],
        command: &["bash"],
    },
    Entry {
        repository: "docker.io/library/python",
        tags: &["3.12-slim", "3.13-slim", "3-slim", "3.12", "3.13", "3", "latest"],
        programs: &[("python3", "python3"), ("python", "python3")],
        command: &["python3"],
    },
    Entry {
        repository: "docker.io/alpine/git",
        tags: &["latest", "v2.49.1"],
        programs: &[("git", "git"), ("sh", "sh")],
        command: &["git"],
    },
];

/// An image that can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `docker.io/library/busybox:1.36`.
    pub name: String,
    /// `docker.io/library/busybox@sha256:...`, the same on every machine.
    pub id: String,
    /// What runs by default.
    pub command: Vec<String>,
    /// Command names that the image adds, and the host programs behind them.
    pub links: Vec<(String, PathBuf)>,
}

/// Why an image cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageError {
    /// The name is not one. Says what the kubelet says.
    Invalid(String),
    /// There is none of that name. Says what containerd says.
    NotFound(String),
}

/// The names that exist on this machine, as an allowlist would write them: `busybox:1.36`.
#[must_use]
pub fn available() -> Vec<String> {
    TABLE
        .iter()
        .filter(|entry| entry.links().is_some())
        .flat_map(|entry| entry.tags.iter().map(|tag| format!("{}:{tag}", entry.short())))
        .collect()
}

/// The first tag of each repository that exists on this machine.
#[must_use]
pub fn listed() -> Vec<String> {
    let first = |entry: &Entry| Some(format!("{}:{}", entry.short(), entry.tags.first()?));
    TABLE.iter().filter(|entry| entry.links().is_some()).filter_map(first).collect()
}

/// Finds the image that `reference` names.
///
/// # Errors
/// When the reference is malformed, or names nothing in the table.
pub fn resolve(reference: &str) -> Result<Image, ImageError> {
    let parsed = Reference::parse(reference).ok_or_else(|| {
        ImageError::Invalid(format!(
            "Failed to apply default image tag {reference:?}: couldn't parse image name {reference:?}: invalid \
             reference format"
        ))
    })?;
    let absent = || ImageError::NotFound(parsed.not_found());
    let entry = TABLE.iter().find(|entry| entry.repository == parsed.repository).ok_or_else(absent)?;
    let tag = match (&parsed.digest, &parsed.tag) {
        // With a digest the tag says nothing, as for a real runtime.
        (Some(digest), _) => entry.tags.iter().find(|tag| entry.digest(tag) == *digest),
        (None, Some(wanted)) => entry.tags.iter().find(|tag| *tag == wanted),
        (None, None) => entry.tags.iter().find(|tag| **tag == "latest"),
    };
    let tag = tag.ok_or_else(absent)?;
    let links = entry.links().ok_or_else(absent)?;
    Ok(Image {
        name: format!("{}:{tag}", entry.repository),
        id: format!("{}@{}", entry.repository, entry.digest(tag)),
        command: entry.command.iter().map(|word| (*word).to_owned()).collect(),
        links,
    })
}

impl Entry {
    /// The repository as a person writes it.
    fn short(&self) -> &'static str {
        self.repository.trim_start_matches("docker.io/").trim_start_matches("library/")
    }

    /// The host programs behind the image's commands; `None` when the first is missing.
    fn links(&self) -> Option<Vec<(String, PathBuf)>> {
        let found: Vec<_> = self
            .programs
            .iter()
            .filter_map(|(name, program)| Some(((*name).to_owned(), host_program(program)?)))
            .collect();
        let (first, _) = self.programs.first()?;
        found.iter().any(|(name, _)| name == first).then_some(found)
    }

    /// A digest that stands for the image: not of any content, as there is none.
    fn digest(&self, tag: &str) -> String {
        let name = format!("kubepermit-embedded/{}:{tag}", self.repository);
        format!("sha256:{}", hex::encode(Sha256::digest(name)))
    }
}

fn host_program(name: &str) -> Option<PathBuf> {
    HOST_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.is_file())
}

/// A parsed image reference, with Docker's defaults filled in.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// The grammar of the distribution project's `reference` package.
    fn parse(text: &str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let name_start = rest.rfind('/').map_or(0, |at| at + 1);
        let (path, last) = rest.split_at_checked(name_start)?;
        let (last, tag) = match last.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (last, None),
        };
        let (registry, path) = match path.split_once('/') {
            Some((first, more)) if first == "localhost" || first.contains(['.', ':']) => {
                (first, format!("{more}{last}"))
            }
            _ => ("docker.io", format!("{path}{last}")),
        };
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        // `docker.io/busybox` is short for `docker.io/library/busybox`.
        let path =
            if registry == "docker.io" && !path.contains('/') { format!("library/{path}") } else { path };
        let fits = path.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest)
            && registry.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':'));
        fits.then(|| Self {
            repository: format!("{registry}/{path}"),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    fn not_found(&self) -> String {
        let name = match (&self.digest, &self.tag) {
            (Some(digest), _) => format!("{}@{digest}", self.repository),
            (None, Some(tag)) => format!("{}:{tag}", self.repository),
            (None, None) => format!("{}:latest", self.repository),
        };
        format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image {name:?}: failed to resolve \
             reference {name:?}: {name}: not found (the embedded cluster has {})",
            listed().join(", ")
        )
    }
}

fn is_component(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128
        && text.chars().next().is_some_and(word)
        && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Docker's documented defaults: docker.io, library/, latest.
    #[test]
    fn names_mean_what_docker_means() {
        for same in [
            "busybox:1.36",
            "library/busybox:1.36",
            "docker.io/busybox:1.36",
            "docker.io/library/busybox:1.36",
        ] {
            let image = resolve(same).unwrap_or_else(|e| panic!("{same}: {e:?}"));
            assert_eq!(image.name, "docker.io/library/busybox:1.36");
        }
        let latest = resolve("busybox").unwrap();
        assert_eq!(latest.name, "docker.io/library/busybox:latest");
        let by_digest = resolve(latest.id.as_str()).unwrap();
        assert_eq!(by_digest, latest);
    }

    #[test]
    fn what_is_not_there_and_what_is_no_name() {
        for absent in
            ["ghost:1", "busybox:0.1", "ghcr.io/library/busybox:1.36", "localhost:5000/busybox:1.36"]
        {
            assert!(matches!(resolve(absent), Err(ImageError::NotFound(_))), "{absent}");
        }
        for invalid in
            ["", "Bad Image", "UPPER", "a//b", "busybox:", "busybox@sha256:12", "busybox:t:u", "/x"]
        {
            assert!(matches!(resolve(invalid), Err(ImageError::Invalid(_))), "{invalid}");
        }
        let Err(ImageError::NotFound(message)) = resolve("ghost:1") else { panic!("found a ghost") };
        assert!(message.contains("failed to resolve reference \"docker.io/library/ghost:1\""), "{message}");
    }
}
