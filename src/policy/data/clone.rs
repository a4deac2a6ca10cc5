//! The part of `data.yaml` that is about clones and the cache.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::plan::{CacheAccess, CloneHost};
use crate::policy::data::document::Access;

/// A host, and the beginning of a path there with a slash at its end: `/` for all of them.
pub(in crate::policy) type CloneEntry = (CloneHost, String);

/// Hosts, perhaps with a port and the beginning of a path.
pub(super) fn parse_hosts(written: &[String]) -> Result<Vec<CloneEntry>, String> {
    let parse = |entry: &String| {
        let (host, path) = CloneHost::parse_entry(entry).map_err(|fault| format!("`{entry}` {fault}"))?;
        // A repository may be listed with git's ending or without.
        let path = path.strip_suffix(".git").unwrap_or(&path);
        Ok((host, format!("{path}/")))
    };
    written.iter().map(parse).collect()
}

/// `{"github.com:443": ["", "my-org/"]}`.
pub(super) fn hosts(entries: &[CloneEntry]) -> Value {
    let mut hosts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (host, prefix) in entries {
        let prefixes = hosts.entry(host.key()).or_default();
        let prefix = prefix.trim_start_matches('/');
        if !prefixes.contains(&prefix) {
            prefixes.push(prefix);
        }
    }
    json!(hosts)
}

impl From<Access> for CacheAccess {
    fn from(access: Access) -> Self {
        match access {
            Access::None => Self::None,
            Access::Read => Self::Read,
            Access::Write => Self::Write,
        }
    }
}
