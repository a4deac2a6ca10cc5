//! Image references: Docker's grammar and normal forms, and which listed reference a name stands for.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::refusal::Reason;

/// A parsed image reference in normal form (`docker.io/library/busybox:1.36`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageReference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// An image that a call asked for and the reference that it stands for.
#[derive(Debug, Clone)]
pub struct ResolvedImage {
    /// What the caller wrote.
    pub requested: String,
    /// What will run.
    pub reference: ImageReference,
}

/// The references that a caller may use, indexed by short name. Built once per bundle and role set.
#[derive(Debug, Clone, Default)]
pub struct AllowedImages {
    by_name: BTreeMap<String, Vec<ImageReference>>,
}

impl ImageReference {
    /// Registry host with optional port; `docker.io` where none was written.
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

    /// The normal form, the key under which the policy's data lists an image.
    #[must_use]
    pub fn key(&self) -> String {
        self.to_string()
    }
}

impl FromStr for ImageReference {
    type Err = Reason;

    fn from_str(_text: &str) -> Result<Self, Self::Err> {
        Err(Reason::new("stub", "", "", ""))
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

impl AllowedImages {
    /// An index of `references`.
    #[must_use]
    pub fn new(_references: impl IntoIterator<Item = ImageReference>) -> Self {
        Self {
            by_name: BTreeMap::new(),
        }
    }

    /// Every listed reference, in order, shortened as a person would write it (`busybox:1.36`).
    #[must_use]
    pub fn listing(&self) -> Vec<String> {
        self.by_name.values().flatten().map(ToString::to_string).collect()
    }

    /// The reference that `requested` stands for.
    ///
    /// # Errors
    /// A [`Reason`] when it does not parse, or is a short name of several listed references.
    pub fn resolve(&self, requested: &str) -> Result<ResolvedImage, Reason> {
        Ok(ResolvedImage {
            requested: requested.to_owned(),
            reference: requested.parse()?,
        })
    }
}
