//! Image references: Docker's grammar and normal forms.
//!
//! The grammar is that of the `distribution/reference` library, which the Docker CLI, containerd and the
//! kubelet use. One image has one normal form here, and policies compare normal forms as wholes: there is
//! no prefix or pattern match by which `registry.io.example.com` could pass for `registry.io`.

mod allowed;
mod grammar;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::plan::quote;
use crate::refusal::Reason;

pub use allowed::{AllowedImages, ResolvedImage};

/// The registry of a reference that names none.
const DEFAULT_REGISTRY: &str = "docker.io";
/// An older spelling of [`DEFAULT_REGISTRY`] that Docker still rewrites.
const LEGACY_DEFAULT_REGISTRY: &str = "index.docker.io";
/// The namespace of Docker Hub's official images.
const OFFICIAL: &str = "library";
/// The tag of a reference that has neither tag nor digest.
const DEFAULT_TAG: &str = "latest";
/// Longest `registry/repository`, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// A parsed image reference in normal form (`docker.io/library/busybox:1.36`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageReference {
    /// Registry host with optional port; `docker.io` where none was written. In lower case.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Repository path, `library/` included for Docker Hub's official images.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Tag; `latest` where neither tag nor digest was written.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Digest with its algorithm (`sha256:…`).
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The normal form, the key under which the policy's data lists an image. Tag and digest are both in
    /// it where both were written.
    #[must_use]
    pub fn key(&self) -> String {
        self.to_string()
    }

    /// The shortest way to write this reference (`busybox:1.36`, `ghcr.io/a/b:1`). It parses to the same
    /// reference again.
    #[must_use]
    pub fn familiar(&self) -> String {
        let name = self.familiar_name();
        let mut text = match name {
            Some(name) => name.to_owned(),
            None => format!("{}/{}", self.registry, self.repository),
        };
        self.push_version(&mut text);
        text
    }

    /// The last component of the repository: the name by which a person asks for the image.
    pub(in crate::plan) fn short_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// The repository without Docker Hub's defaults, unless that would read as another registry's name.
    fn familiar_name(&self) -> Option<&str> {
        if self.registry != DEFAULT_REGISTRY {
            return None;
        }
        match self.repository.split_once('/') {
            Some((OFFICIAL, name)) if !name.contains('/') => Some(name),
            Some((first, _)) if grammar::is_registry(first) => None,
            _ => Some(&self.repository),
        }
    }

    fn push_version(&self, text: &mut String) {
        if let Some(tag) = &self.tag {
            text.push(':');
            text.push_str(tag);
        }
        if let Some(digest) = &self.digest {
            text.push('@');
            text.push_str(digest);
        }
    }
}

impl FromStr for ImageReference {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|fault| {
            Reason::new(
                "image.invalid",
                format!("image {} is not an image reference: {}", quote(text), fault.what),
                "/image",
                fault.hint,
            )
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// What is wrong with a reference and what to write instead.
struct Fault {
    what: &'static str,
    hint: &'static str,
}

const FORM: &str = "write [registry[:port]/]repository[:tag][@sha256:digest], for example `python:3.12-slim`";

fn fault(what: &'static str, hint: &'static str) -> Fault {
    Fault { what, hint }
}

fn parse(text: &str) -> Result<ImageReference, Fault> {
    if text.is_empty() {
        return Err(fault("it is empty", FORM));
    }
    if text.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(fault("it has a space, a control character or a character outside ASCII", FORM));
    }
    if grammar::is_image_id(text) {
        // Docker refuses this as a name, because it would read as an image id.
        return Err(fault(
            "64 hexadecimal digits name an image id, not a repository",
            "write the repository before the digest: `repository@sha256:digest`",
        ));
    }
    let (rest, digest) = match text.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (text, None),
    };
    if digest.is_some_and(|digest| !grammar::is_digest(digest)) {
        return Err(fault(
            "its digest is not `sha256:` and 64 or `sha512:` and 128 lower-case hexadecimal digits",
            "copy the whole digest, as `docker images --digests` or the registry shows it",
        ));
    }
    let (name, tag) = split_tag(rest);
    if tag.is_some_and(|tag| !grammar::is_tag(tag)) {
        return Err(fault(
            "its tag is not 1 to 128 letters, digits, `_`, `.` or `-`, starting with a letter, digit or `_`",
            FORM,
        ));
    }
    let (registry, repository) = split_registry(name)?;
    if registry.len() + 1 + repository.len() > MAX_NAME_BYTES {
        return Err(fault("registry and repository are longer than 255 characters", FORM));
    }
    let tag = match (tag, digest) {
        (None, None) => Some(DEFAULT_TAG),
        (tag, _) => tag,
    };
    Ok(ImageReference {
        registry,
        repository,
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// A colon after the last slash starts the tag; one before it belongs to a registry's port.
fn split_tag(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (text, None),
    }
}

fn split_registry(name: &str) -> Result<(String, String), Fault> {
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if grammar::is_registry(first) => (normal_registry(first)?, rest),
        _ => (DEFAULT_REGISTRY.to_owned(), name),
    };
    if !grammar::is_repository(repository) {
        return Err(fault(
            "its repository is not lower-case letters and digits, joined by single `.`, `_`, `__`, `-` or `/`",
            FORM,
        ));
    }
    if registry == DEFAULT_REGISTRY && !repository.contains('/') {
        return Ok((registry, format!("{OFFICIAL}/{repository}")));
    }
    Ok((registry, repository.to_owned()))
}

fn normal_registry(registry: &str) -> Result<String, Fault> {
    if !grammar::is_domain(registry) {
        return Err(fault(
            "its registry is not a host name with an optional port",
            "write the registry as `host` or `host:port`, for example `registry.example.com:5000/team/app:1`",
        ));
    }
    // Host names know no case, so two spellings of one host must be one key. A host that only its capitals
    // tell from a Docker Hub user (`Team/app`) keeps them: in lower case it would be another image.
    let lower = registry.to_ascii_lowercase();
    let normal = if grammar::is_registry(&lower) { lower } else { registry.to_owned() };
    Ok(if normal == LEGACY_DEFAULT_REGISTRY { DEFAULT_REGISTRY.to_owned() } else { normal })
}
