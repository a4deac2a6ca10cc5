//! Which listed reference a name stands for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::image::ImageReference;
use crate::plan::quote;
use crate::refusal::Reason;

/// How many candidates a refusal names.
const MAX_CANDIDATES: usize = 10;

/// An image that a call asked for and the reference that it stands for.
#[derive(Debug, Clone)]
pub struct ResolvedImage {
    /// What the caller wrote.
    pub requested: String,
    /// What will run.
    pub reference: ImageReference,
}

/// The references that a caller may use, indexed by short name. Built once per bundle and role set;
/// a clone shares the index.
#[derive(Debug, Clone, Default)]
pub struct AllowedImages {
    by_name: Arc<BTreeMap<String, Vec<ImageReference>>>,
}

impl AllowedImages {
    /// An index of `references`; the same reference twice counts once.
    #[must_use]
    pub fn new(references: impl IntoIterator<Item = ImageReference>) -> Self {
        let mut by_name: BTreeMap<String, Vec<ImageReference>> = BTreeMap::new();
        for reference in references {
            match by_name.get_mut(reference.short_name()) {
                Some(listed) => listed.push(reference),
                None => {
                    by_name.insert(reference.short_name().to_owned(), vec![reference]);
                }
            }
        }
        for listed in by_name.values_mut() {
            listed.sort_unstable();
            listed.dedup();
        }
        Self { by_name: Arc::new(by_name) }
    }

    /// Whether nothing is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many references are listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.values().map(Vec::len).sum()
    }

    /// Every listed reference, shortened as a person would write it (`busybox:1.36`), sorted.
    #[must_use]
    pub fn listing(&self) -> Vec<String> {
        let mut listing: Vec<String> =
            self.by_name.values().flatten().map(ImageReference::familiar).collect();
        listing.sort_unstable();
        listing
    }

    /// Whether exactly this reference is listed.
    #[must_use]
    pub fn contains(&self, reference: &ImageReference) -> bool {
        self.by_name.get(reference.short_name()).is_some_and(|listed| listed.binary_search(reference).is_ok())
    }

    /// The reference that `requested` stands for.
    ///
    /// A short name (no registry, path, tag or digest) stands for the one listed reference of that name,
    /// and for its own normal form when none is listed. Everything else stands for its normal form: what
    /// was asked for is never exchanged for something that is listed.
    ///
    /// # Errors
    /// A [`Reason`] when it does not parse (`image.invalid`), or is a short name of several listed
    /// references (`image.ambiguous`).
    pub fn resolve(&self, requested: &str) -> Result<ResolvedImage, Reason> {
        let own: ImageReference = requested.parse()?;
        let reference = if requested.contains(['/', ':', '@']) {
            own
        } else {
            match self.by_name.get(requested).map(Vec::as_slice) {
                None | Some([]) => own,
                Some([only]) => only.clone(),
                Some(several) => return Err(ambiguous(requested, several)),
            }
        };
        Ok(ResolvedImage { requested: requested.to_owned(), reference })
    }
}

fn ambiguous(requested: &str, several: &[ImageReference]) -> Reason {
    let named: Vec<String> = several.iter().take(MAX_CANDIDATES).map(ImageReference::familiar).collect();
    let more = several.len().saturating_sub(named.len());
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    Reason::new(
        "image.ambiguous",
        format!(
            "image {} stands for {} listed images: {}{rest}",
            quote(requested),
            several.len(),
            named.join(", ")
        ),
        "/image",
        "write one of them in full",
    )
}
