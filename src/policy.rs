//! Plan to [`Permit`]: the Rego bundle, its checks, its evaluation, and the only door to a permit.
//!
//! ```text
//! bundle ─┬─ data.yaml ── data ──────┐
//!         └─ *.rego ───── check ── compile ── evaluate ── Decision ── Verdict
//! caller, call, plan ──── input ─────────────────┘
//! ```

mod bundle;
mod check;
mod compile;
mod data;
mod decision;
mod error;
mod evaluate;
mod images;
mod init;
mod input;
mod permit;
pub mod test;

pub use bundle::BundleSource;
pub use data::Overlay;
pub use decision::Decision;
pub use error::{LoadError, Location, Problem};
pub use init::{InitError, init};
pub use permit::{Permit, Verdict};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::caller::Caller;
use crate::plan::{AllowedImages, CacheAccess, Plan, PodProfile, Rights};
use crate::schema::ToolCall;
use bundle::Bundle;
use data::{CloneEntry, Config, EVERY_NAMESPACE};
use evaluate::Evaluator;
use images::ImageLists;

/// How long a decision may take, unless [`Policy::with_time_limit`] says otherwise.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// A loaded bundle. Load it once and share it.
pub struct Policy {
    /// Prepared; cloned for each decision, which costs a few microseconds.
    engine: regorus::Engine,
    evaluator: Evaluator,
    time_limit: Duration,
    revision: String,
    images: ImageLists,
    read_namespaces: BTreeSet<String>,
    role_read_namespaces: BTreeMap<String, BTreeSet<String>>,
    jobs_per_caller: Option<u32>,
    role_jobs_per_caller: BTreeMap<String, u32>,
    pod_profile: PodProfile,
    clone_hosts: Vec<CloneEntry>,
    role_clone_hosts: BTreeMap<String, Vec<CloneEntry>>,
    submodules: bool,
    cache: CacheAccess,
    role_cache: BTreeMap<String, CacheAccess>,
}

/// What the policy is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// What was called.
    pub call: &'a ToolCall,
    /// What would run.
    pub plan: Plan,
    /// When. The rules have no clock of their own, so that a decision can be made again from its record.
    pub time: Timestamp,
}

impl Policy {
    /// Reads a bundle, checks it and prepares it.
    ///
    /// # Errors
    /// A [`LoadError`] that names the file, when something cannot be read, is not Rego or YAML, or could make
    /// a decision other than what its reader would expect.
    pub fn load(source: &BundleSource, overlay: &Overlay) -> Result<Self, LoadError> {
        Self::from_bundle(&Bundle::read(source)?, overlay)
    }

    fn from_bundle(bundle: &Bundle, overlay: &Overlay) -> Result<Self, LoadError> {
        let config = Config::parse(bundle.data()?, overlay)?;
        let engine = compile::compile(bundle.rules(), config.document.into())?;
        let overlay = serde_json::json!(overlay);
        Ok(Self {
            engine,
            evaluator: Evaluator::default(),
            time_limit: TIME_LIMIT,
            revision: bundle.revision(&overlay.to_string()),
            images: ImageLists::new(config.images, config.role_images),
            read_namespaces: config.read_namespaces,
            role_read_namespaces: config.role_read_namespaces,
            jobs_per_caller: config.jobs_per_caller,
            role_jobs_per_caller: config.role_jobs_per_caller,
            pod_profile: config.pod_profile,
            clone_hosts: config.clone_hosts,
            role_clone_hosts: config.role_clone_hosts,
            submodules: config.submodules,
            cache: config.cache,
            role_cache: config.role_cache,
        })
    }

    /// Sets how long a decision may take; it is a denial when it takes longer.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Judges a plan. Blocks for at most the time limit.
    #[must_use]
    pub fn judge(&self, question: Question<'_>) -> Verdict {
        let Question { caller, call, plan, time } = question;
        let input = input::document(caller, call, &plan, time);
        Verdict::new(plan, self.decide(input))
    }

    /// The decision for an input document in the shape of `schemas/policy-input.json`.
    #[must_use]
    pub fn decide(&self, input: serde_json::Value) -> Decision {
        let start = Instant::now();
        let evaluated =
            self.evaluator.run(self.engine.clone(), input.into(), compile::DECISION, self.time_limit);
        for line in evaluated.prints {
            tracing::debug!(target: "kubepermit::policy", "{line}");
        }
        Decision::new(evaluated.value, self.revision.clone(), start.elapsed())
    }

    /// The images that a caller with these roles may name: for the plan, which resolves short names.
    #[must_use]
    pub fn images_for(&self, roles: &[String]) -> AllowedImages {
        self.images.of(roles)
    }

    /// What the plan of a caller with these roles has to know before the rules judge it.
    #[must_use]
    pub fn rights_for(&self, roles: &[String]) -> Rights {
        let given = roles.iter().filter_map(|role| self.role_cache.get(role)).copied();
        let hosts = roles.iter().filter_map(|role| self.role_clone_hosts.get(role)).flatten();
        let submodules = self.clone_hosts.iter().chain(hosts).filter(|_| self.submodules);
        Rights {
            images: self.images_for(roles),
            cache: given.fold(self.cache, Ord::max),
            submodules: submodules.cloned().collect(),
        }
    }

    /// The namespaces that a caller with these roles may read, sorted; `["*"]` when it is every namespace.
    /// For descriptions and messages: the rules decide.
    #[must_use]
    pub fn readable_namespaces(&self, roles: &[String]) -> Vec<String> {
        let more = roles.iter().filter_map(|role| self.role_read_namespaces.get(role)).flatten();
        let all: BTreeSet<&String> = self.read_namespaces.iter().chain(more).collect();
        if all.iter().any(|name| name.as_str() == EVERY_NAMESPACE) {
            return vec![EVERY_NAMESPACE.to_owned()];
        }
        all.into_iter().cloned().collect()
    }

    /// How many jobs a caller with these roles may have at once: the largest number of the data's own and its
    /// roles'; `None` when none is given. It is no rule, since a rule cannot count what runs, nor wait.
    #[must_use]
    pub fn jobs_per_caller(&self, roles: &[String]) -> Option<usize> {
        let of_roles = roles.iter().filter_map(|role| self.role_jobs_per_caller.get(role));
        let most = self.jobs_per_caller.iter().chain(of_roles).max()?;
        usize::try_from(*most).ok()
    }

    /// Identifies the bundle and what was laid over it: SHA-256 in hexadecimal.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// `pod.profile` of the data.
    #[must_use]
    pub fn pod_profile(&self) -> PodProfile {
        self.pod_profile
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("revision", &self.revision).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
