//! The operator's settings, by the rules that a call's own values keep.

use std::collections::BTreeMap;

use crate::plan::kubectl::DnsSubdomain;
use crate::plan::{path, process};

/// An environment for every job.
///
/// # Errors
/// Sentences that quote names and no values.
pub fn extra_env(env: &BTreeMap<String, String>) -> Result<(), Vec<String>> {
    process::env(env).map_err(|reasons| reasons.into_iter().map(|reason| reason.message).collect())
}

/// Where a cache may be mounted: like a work directory, and not over the `/tmp` of every job. The path without a
/// trailing slash.
///
/// # Errors
/// What is wrong with it.
pub fn cache_mount_path(text: &str) -> Result<&str, &'static str> {
    match path::absolute(text)? {
        "/tmp" => Err("is where every job has its own place for temporary files"),
        path if path::overlap(path, path::DEFAULT_WORKDIR) => {
            Err("is in the way of `/work`, where a call works that names no place")
        }
        path => Ok(path),
    }
}

/// The name of a Secret or a PersistentVolumeClaim.
///
/// # Errors
/// What is wrong with it.
pub fn object_name(text: &str) -> Result<(), String> {
    text.parse::<DnsSubdomain>().map(drop).map_err(|fault| fault.to_string())
}
