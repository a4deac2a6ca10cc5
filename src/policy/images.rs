//! The images that a caller may name, by the roles that it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::plan::{AllowedImages, ImageReference};

/// The list for everybody, and those of the roles.
#[derive(Debug)]
pub(in crate::policy) struct ImageLists {
    everybody: AllowedImages,
    /// Kept only where a role has a list.
    base: Vec<ImageReference>,
    roles: BTreeMap<String, Vec<ImageReference>>,
    /// One index for each set of listed roles that came up. There are as many as the operator's
    /// authentication hands out, and no caller can add one.
    joined: Mutex<BTreeMap<BTreeSet<String>, AllowedImages>>,
}

impl ImageLists {
    pub(in crate::policy) fn new(
        base: Vec<ImageReference>,
        roles: BTreeMap<String, Vec<ImageReference>>,
    ) -> Self {
        Self {
            everybody: AllowedImages::new(base.iter().cloned()),
            base: if roles.is_empty() { Vec::new() } else { base },
            roles,
            joined: Mutex::default(),
        }
    }

    /// What a caller with these roles may name. Indexed once for each set of roles that have a list.
    pub(in crate::policy) fn of(&self, roles: &[String]) -> AllowedImages {
        let listed: BTreeSet<String> =
            roles.iter().filter(|role| self.roles.contains_key(*role)).cloned().collect();
        if listed.is_empty() {
            return self.everybody.clone();
        }
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let index = joined.entry(listed).or_insert_with_key(|listed| {
            let more = listed.iter().filter_map(|role| self.roles.get(role)).flatten();
            AllowedImages::new(self.base.iter().chain(more).cloned())
        });
        index.clone()
    }
}
