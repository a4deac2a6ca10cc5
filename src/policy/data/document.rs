//! `data.yaml` as it is written. Unknown keys are errors; every key is needed, except `limits`, `roles` and `site`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::{Map, Value};

/// The file: data files may define `config` and nothing else, because data silently overrides a rule of the
/// same path.
#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) config: Config,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) images: Vec<String>,
    pub(super) jobs: Jobs,
    pub(super) resources: Resources,
    pub(super) timeouts: Timeouts,
    pub(super) files: Files,
    pub(super) env: Env,
    pub(super) clone: Clones,
    pub(super) cache: Cache,
    pub(super) reads: Reads,
    pub(super) pod: Pod,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Role>,
    #[serde(default)]
    pub(super) site: Map<String, Value>,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Jobs {
    pub(super) namespaces: Vec<String>,
    pub(super) require_limits: bool,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resources {
    pub(super) max_cpu: Quantity,
    pub(super) max_memory: Quantity,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timeouts {
    pub(super) max_s: u64,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    pub(super) max_count: u64,
    pub(super) max_bytes: Quantity,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Env {
    pub(super) reserved: Vec<String>,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clones {
    pub(super) hosts: Vec<String>,
    pub(super) submodules: bool,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cache {
    pub(super) access: Access,
}

#[derive(Clone, Copy, Default, DeriveDeserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Access {
    #[default]
    None,
    Read,
    Write,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reads {
    pub(super) namespaces: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) forbidden_flags: Vec<String>,
}

#[derive(DeriveDeserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) jobs_per_caller: Option<u32>,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pod {
    pub(super) profile: Profile,
}

#[derive(Clone, Copy, DeriveDeserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Profile {
    Restricted,
    Compat,
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    #[serde(default)]
    pub(super) images: Vec<String>,
    #[serde(default)]
    pub(super) read_namespaces: Vec<String>,
    pub(super) jobs_per_caller: Option<u32>,
    #[serde(default)]
    pub(super) clone_hosts: Vec<String>,
    #[serde(default)]
    pub(super) cache: Access,
}

/// A Kubernetes quantity as text. A number without quotes is taken as Kubernetes takes it.
pub(super) struct Quantity(pub(super) String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes quantity such as 500m, 4 or 4Gi")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }
}
