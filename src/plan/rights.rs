//! What the policy's data gives a caller, as far as the plan must know it before the rules judge the plan.

use crate::plan::{AllowedImages, CloneHost};

/// What a caller may have. The rules decide; this only shapes the plan that they are shown.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// The images that short names may mean.
    pub images: AllowedImages,
    /// How jobs see the cache, where there is one.
    pub cache: CacheAccess,
    /// Where submodules may come from: hosts and the beginnings of paths, with a slash at the end. Empty when none
    /// are fetched.
    pub submodules: Vec<(CloneHost, String)>,
}

/// How a caller's jobs see the cache. Ordered: the more, the larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheAccess {
    /// Not at all.
    #[default]
    None,
    /// They can read it.
    Read,
    /// They can also write to it.
    Write,
}

/// A list of images gives no other right.
impl From<&AllowedImages> for Rights {
    fn from(images: &AllowedImages) -> Self {
        Self { images: images.clone(), ..Self::default() }
    }
}
