//! `data.yaml` to the policy's data: typed, checked, and brought to the normal forms that the rules look up.
//!
//! Rust parses, Rego decides: the rules never see an image reference or a quantity as text that they would
//! have to take apart. What they see as `data.config` is
//!
//! ```text
//! {
//!   images: {"docker.io/library/busybox:1.36": {}},   images_shown: ["busybox:1.36"],
//!   jobs: {namespaces: {"mcp-ephemeral": {}}, namespaces_shown: ["mcp-ephemeral"], require_limits: false},
//!   resources: {max_cpu: "4", max_cpu_millis: 4000, max_memory: "4Gi", max_memory_bytes: 4294967296},
//!   timeouts: {max_s: 600},
//!   files: {max_count: 100, max_bytes: 10485760},
//!   env: {reserved: {"LD_PRELOAD": {}}, reserved_prefixes: ["KUBERNETES_"]},
//!   reads: {namespaces: {"dev": {}}, verbs: {"get": {}}, forbidden_flags: {"server": {}}},
//!   clone: {hosts: {"github.com:443": ["my-org/"]}, submodules: false},   cache: {access: "write"},
//!   pod: {profile: "restricted"},
//!   limits: {jobs_per_caller: null},
//!   roles: {"builder": {images: {…}, images_shown: […], read_namespaces: {…}, jobs_per_caller: 8,
//!                       clone_hosts: {…}, cache: "none"}},
//!   site: {…}
//! }
//! ```
//!
//! Lists become objects, so that a lookup costs the same in a list of 100,000; `…_shown` holds the first few,
//! for hints. `schemas/policy-data.json` is the same as a schema.

mod clone;
mod document;
mod reads;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::plan::{CacheAccess, ImageReference, PodProfile, quantity};
use crate::policy::bundle::DATA_FILE;
use crate::policy::error::{LoadError, Problem};
use crate::refusal::Reason;
use crate::strict;
pub(in crate::policy) use clone::CloneEntry;
use document::{Config as Written, Profile};
pub(in crate::policy) use reads::EVERY_NAMESPACE;
use reads::{parse_flags, parse_namespaces, parse_read_namespaces, parse_verbs};

/// What configuration lays over the bundle's data.
///
/// A list that is set replaces the list in the data; an empty one means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Overlay {
    /// Replaces `images`, and empties the image lists of `roles`: what is set here is the whole truth.
    pub images: Option<Vec<String>>,
    /// Joins `images`, unless the field above is set.
    pub extra_images: Vec<String>,
    /// Replaces `jobs.namespaces`.
    pub job_namespaces: Option<Vec<String>>,
    /// Replaces `reads.namespaces`, and empties those lists of `roles`.
    pub read_namespaces: Option<Vec<String>>,
    /// Joins `reads.namespaces`, unless the field above is set.
    pub extra_read_namespaces: Vec<String>,
    /// Replaces `clone.hosts`, and empties those lists of `roles`.
    pub clone_hosts: Option<Vec<String>>,
    /// In seconds; the lower of this and `timeouts.max_s` holds.
    pub max_timeout_s: Option<u64>,
}

/// The data of a bundle, ready for use.
#[derive(Debug)]
pub(in crate::policy) struct Config {
    /// `data.config`.
    pub(in crate::policy) document: Value,
    /// The images for everybody.
    pub(in crate::policy) images: Vec<ImageReference>,
    /// The further images of each role that has any.
    pub(in crate::policy) role_images: BTreeMap<String, Vec<ImageReference>>,
    /// `reads.namespaces`.
    pub(in crate::policy) read_namespaces: BTreeSet<String>,
    /// The further namespaces of each role that has any.
    pub(in crate::policy) role_read_namespaces: BTreeMap<String, BTreeSet<String>>,
    /// `limits.jobs_per_caller`.
    pub(in crate::policy) jobs_per_caller: Option<u32>,
    /// The same of each role that has one.
    pub(in crate::policy) role_jobs_per_caller: BTreeMap<String, u32>,
    /// `pod.profile`.
    pub(in crate::policy) pod_profile: PodProfile,
    /// `clone.hosts`.
    pub(in crate::policy) clone_hosts: Vec<CloneEntry>,
    /// Those of each role.
    pub(in crate::policy) role_clone_hosts: BTreeMap<String, Vec<CloneEntry>>,
    /// `clone.submodules`.
    pub(in crate::policy) submodules: bool,
    /// `cache.access`.
    pub(in crate::policy) cache: CacheAccess,
    /// That of each role.
    pub(in crate::policy) role_cache: BTreeMap<String, CacheAccess>,
}

/// How many entries of a list a hint may name.
const SHOWN: usize = 10;

impl Config {
    /// Parses the text of `data.yaml` and lays `overlay` over it.
    pub(in crate::policy) fn parse(text: &str, overlay: &Overlay) -> Result<Self, LoadError> {
        let written: document::File = strict::yaml(text).map_err(yaml_error)?;
        Self::normalise(written.config, overlay)
    }

    fn normalise(written: Written, overlay: &Overlay) -> Result<Self, LoadError> {
        let images = match &overlay.images {
            Some(set) => parse_images(set).map_err(of_overlay("images"))?,
            None => {
                let mut images = parse_images(&written.images).map_err(of_data("config.images"))?;
                images.extend(parse_images(&overlay.extra_images).map_err(of_overlay("images"))?);
                images
            }
        };
        let base = keys(&images);
        let reads = Reads::of(&written, overlay)?;
        let jobs_per_caller = at_least_one(written.limits.jobs_per_caller, "config.limits.jobs_per_caller")?;
        let clone_hosts = match &overlay.clone_hosts {
            Some(set) => clone::parse_hosts(set).map_err(of_overlay("clone hosts"))?,
            None => clone::parse_hosts(&written.clone.hosts).map_err(of_data("config.clone.hosts"))?,
        };
        let mut role_clone_hosts = BTreeMap::new();
        let mut role_images = BTreeMap::new();
        let mut role_jobs_per_caller = BTreeMap::new();
        let mut roles = Map::new();
        for (name, role) in &written.roles {
            let place = format!("config.roles.{name}.images");
            let mut images = parse_images(&role.images).map_err(of_data(&place))?;
            if overlay.images.is_some() {
                images.clear();
            }
            images.retain(|image| !base.contains(&image.key()));
            let place = format!("config.roles.{name}.clone_hosts");
            let mut more = clone::parse_hosts(&role.clone_hosts).map_err(of_data(&place))?;
            if overlay.clone_hosts.is_some() {
                more.clear();
            }
            roles.insert(
                name.clone(),
                json!({
                    "images": object(keys(&images)),
                    "images_shown": shown(&images),
                    "read_namespaces": object(reads.role_namespaces.get(name).cloned().unwrap_or_default()),
                    "jobs_per_caller": role.jobs_per_caller,
                    "clone_hosts": clone::hosts(&more),
                    "cache": role.cache,
                }),
            );
            role_clone_hosts.insert(name.clone(), more);
            let place = format!("config.roles.{name}.jobs_per_caller");
            if let Some(most) = at_least_one(role.jobs_per_caller, &place)? {
                role_jobs_per_caller.insert(name.clone(), most);
            }
            if !images.is_empty() {
                role_images.insert(name.clone(), images);
            }
        }

        let namespaces = match &overlay.job_namespaces {
            Some(set) => parse_namespaces(set).map_err(of_overlay("job namespaces"))?,
            None => parse_namespaces(&written.jobs.namespaces).map_err(of_data("config.jobs.namespaces"))?,
        };
        if written.timeouts.max_s == 0 {
            return Err(of_data("config.timeouts.max_s")("it must be at least 1"));
        }
        let max_s =
            overlay.max_timeout_s.map_or(written.timeouts.max_s, |set| set.min(written.timeouts.max_s));
        let max_cpu = written.resources.max_cpu.0;
        let max_memory = written.resources.max_memory.0;
        let max_cpu_millis = quantity::cpu_millis(&max_cpu).map_err(of_data("config.resources.max_cpu"))?;
        let max_memory_bytes =
            quantity::memory_bytes(&max_memory).map_err(of_data("config.resources.max_memory"))?;
        let max_file_bytes =
            quantity::memory_bytes(&written.files.max_bytes.0).map_err(of_data("config.files.max_bytes"))?;
        let (names, prefixes) =
            parse_reserved(&written.env.reserved).map_err(of_data("config.env.reserved"))?;

        let document = json!({
            "images": object(base),
            "images_shown": shown(&images),
            "jobs": {
                "namespaces_shown": namespaces.iter().take(SHOWN).collect::<Vec<_>>(),
                "namespaces": object(namespaces),
                "require_limits": written.jobs.require_limits,
            },
            "resources": {
                "max_cpu": max_cpu,
                "max_cpu_millis": max_cpu_millis,
                "max_memory": max_memory,
                "max_memory_bytes": max_memory_bytes,
            },
            "timeouts": { "max_s": max_s },
            "files": { "max_count": written.files.max_count, "max_bytes": max_file_bytes },
            "env": { "reserved": object(names), "reserved_prefixes": prefixes },
            "reads": {
                "namespaces": object(reads.namespaces.clone()),
                "verbs": object(reads.verbs),
                "forbidden_flags": object(reads.forbidden_flags),
            },
            "clone": { "hosts": clone::hosts(&clone_hosts), "submodules": written.clone.submodules },
            "cache": { "access": written.cache.access },
            "pod": { "profile": written.pod.profile },
            "limits": { "jobs_per_caller": jobs_per_caller },
            "roles": roles,
            "site": written.site,
        });
        Ok(Self {
            document,
            images,
            role_images,
            read_namespaces: reads.namespaces,
            role_read_namespaces: reads.role_namespaces,
            jobs_per_caller,
            role_jobs_per_caller,
            clone_hosts,
            role_clone_hosts,
            submodules: written.clone.submodules,
            cache: written.cache.access.into(),
            role_cache: written.roles.into_iter().map(|(name, role)| (name, role.cache.into())).collect(),
            pod_profile: match written.pod.profile {
                Profile::Restricted => PodProfile::Restricted,
                Profile::Compat => PodProfile::Compat,
            },
        })
    }
}

/// `reads`, parsed.
struct Reads {
    namespaces: BTreeSet<String>,
    role_namespaces: BTreeMap<String, BTreeSet<String>>,
    verbs: BTreeSet<String>,
    forbidden_flags: BTreeSet<String>,
}

impl Reads {
    fn of(written: &Written, overlay: &Overlay) -> Result<Self, LoadError> {
        let set = of_overlay("namespaces for reads");
        let namespaces = match &overlay.read_namespaces {
            Some(replaced) => parse_read_namespaces(replaced).map_err(set)?,
            None => {
                let mut namespaces = parse_read_namespaces(&written.reads.namespaces)
                    .map_err(of_data("config.reads.namespaces"))?;
                namespaces.extend(parse_read_namespaces(&overlay.extra_read_namespaces).map_err(set)?);
                namespaces
            }
        };
        let mut role_namespaces = BTreeMap::new();
        for (name, role) in &written.roles {
            let place = format!("config.roles.{name}.read_namespaces");
            let more = parse_read_namespaces(&role.read_namespaces).map_err(of_data(&place))?;
            if overlay.read_namespaces.is_none() && !more.is_empty() {
                role_namespaces.insert(name.clone(), more);
            }
        }
        Ok(Self {
            namespaces,
            role_namespaces,
            verbs: parse_verbs(&written.reads.verbs).map_err(of_data("config.reads.verbs"))?,
            forbidden_flags: parse_flags(&written.reads.forbidden_flags)
                .map_err(of_data("config.reads.forbidden_flags"))?,
        })
    }
}

/// A caller that may have no job is the rules' to deny, with a reason.
fn at_least_one(most: Option<u32>, place: &str) -> Result<Option<u32>, LoadError> {
    if most == Some(0) {
        return Err(of_data(place)("it must be at least 1"));
    }
    Ok(most)
}

fn parse_images(written: &[String]) -> Result<Vec<ImageReference>, String> {
    let parse = |text: &String| text.parse().map_err(|reason: Reason| reason.message);
    written.iter().map(parse).collect()
}

/// Splits the names from the prefixes, which end in a star.
fn parse_reserved(written: &[String]) -> Result<(BTreeSet<String>, BTreeSet<String>), String> {
    let mut names = BTreeSet::new();
    let mut prefixes = BTreeSet::new();
    for entry in written {
        let (name, is_prefix) = match entry.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (entry.as_str(), false),
        };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(word) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!(
                "`{entry}` is neither a variable's name nor the beginning of one and a star"
            ));
        }
        if is_prefix {
            prefixes.insert(name.to_owned());
        } else {
            names.insert(name.to_owned());
        }
    }
    Ok((names, prefixes))
}

fn keys(images: &[ImageReference]) -> BTreeSet<String> {
    images.iter().map(ImageReference::key).collect()
}

/// `{key: {}}`.
fn object(keys: BTreeSet<String>) -> Value {
    Value::Object(keys.into_iter().map(|key| (key, Value::Object(Map::new()))).collect())
}

/// The first few, as a person writes them.
fn shown(images: &[ImageReference]) -> Vec<String> {
    images.iter().take(SHOWN).map(ImageReference::familiar).collect()
}

fn of_data<E: ToString>(place: &str) -> impl Fn(E) -> LoadError {
    move |problem| {
        LoadError::rejected(DATA_FILE, None, Problem::Data(format!("{place}: {}", problem.to_string())))
    }
}

fn of_overlay(setting: &'static str) -> impl Fn(String) -> LoadError {
    move |problem| LoadError::Overlay { setting, problem }
}

/// The parser's message begins with the key's path; its end, the place, is taken off and kept apart.
fn yaml_error(error: serde_yaml::Error) -> LoadError {
    let line = error.location().and_then(|at| u32::try_from(at.line()).ok());
    let message = error.to_string();
    let message = match message.rsplit_once(" at line ") {
        Some((message, _)) if line.is_some() => message.to_owned(),
        _ => message,
    };
    LoadError::rejected(DATA_FILE, line, Problem::Data(message))
}

#[cfg(test)]
mod tests;
