//! What some jobs need beside the common settings: a cloner, a cache, an environment.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde_json::Value;

use crate::config::reader::Reader;
use crate::config::{Setting, defaults};
use crate::plan::{CloneHost, checks};
use crate::strict;

/// What cloning needs. A call may clone only when image and secret are both set, as with the reference server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneConfig {
    /// Image of the cloner.
    pub image: Option<String>,
    /// Secret of the jobs' namespace with one token for each git host.
    pub secret: Option<String>,
    /// Replaces the policy's list of hosts when set.
    pub hosts: Option<Vec<String>>,
}

impl CloneConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            image: reader.text(Setting::CloneImage).map(|_| reader.image(Setting::CloneImage, "")),
            secret: reader.object_name(Setting::CloneSecret),
            hosts: reader.list(Setting::CloneHosts).inspect(|hosts| {
                for host in hosts {
                    if let Err(fault) = CloneHost::parse_entry(host) {
                        reader.fault(Setting::CloneHosts, &format!("`{host}` {fault}"));
                    }
                }
            }),
        }
    }

    /// One of the two alone switches nothing on, which whoever set it should know.
    pub(super) fn notice(&self) -> Option<String> {
        let (set, missing) = match (&self.image, &self.secret) {
            (Some(_), None) => (Setting::CloneImage, Setting::CloneSecret),
            (None, Some(_)) => (Setting::CloneSecret, Setting::CloneImage),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(format!(
            "`clone` is refused: {} is set without {} (--{})",
            set.variable(),
            missing.variable(),
            missing.flag()
        ))
    }
}

/// A volume that all jobs share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// The PersistentVolumeClaim, in the jobs' namespace.
    pub claim: String,
    /// Where jobs see it.
    pub mount_path: String,
}

impl CacheConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let claim = reader.object_name(Setting::CachePvc);
        let mount_path = reader.text(Setting::CacheMountPath);
        let checked = mount_path.as_deref().map(checks::cache_mount_path);
        if let (Some(path), Some(Err(fault))) = (&mount_path, &checked) {
            reader.fault(Setting::CacheMountPath, &format!("`{path}` {fault}"));
        }
        let (missing, beside) = match (claim, checked) {
            (Some(claim), Some(path)) => {
                return Some(Self { claim, mount_path: path.unwrap_or_default().to_owned() });
            }
            (None, None) => return None,
            (Some(_), None) => (Setting::CacheMountPath, Setting::CachePvc),
            (None, Some(_)) => (Setting::CachePvc, Setting::CacheMountPath),
        };
        reader.fault(missing, &format!("it has to be set together with {}", beside.variable()));
        None
    }
}

/// `MCP_K8S_JOB_EXTRA_ENV`. Faults never quote it: a value may be a credential.
pub(super) fn extra_env(reader: &mut Reader<'_>) -> BTreeMap<String, String> {
    let Some(text) = reader.text(Setting::JobExtraEnv) else { return BTreeMap::new() };
    let faults = match strict::json(text.as_bytes()) {
        Ok(Value::Object(entries)) => {
            let texts = entries.into_iter().map(|(name, value)| match value {
                Value::String(text) => Ok((name, text)),
                _ => Err(format!("the value of `{name}` has to be a text in quotes")),
            });
            match texts.collect::<Result<BTreeMap<_, _>, _>>() {
                Ok(env) => match checks::extra_env(&env) {
                    Ok(()) => return env,
                    Err(faults) => faults,
                },
                Err(fault) => vec![fault],
            }
        }
        Ok(_) => vec!["it is not a JSON object such as {\"NAME\":\"value\"}".to_owned()],
        Err(error) => vec![error.to_string()],
    };
    for fault in faults {
        reader.fault(Setting::JobExtraEnv, &fault);
    }
    BTreeMap::new()
}

/// `MCP_K8S_ADDR`: `host:port` or, as the reference server has it by default, `:port`.
pub(super) fn address(reader: &mut Reader<'_>) -> String {
    let Some(text) = reader.text(Setting::Addr) else { return defaults::ADDR.to_owned() };
    let valid = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_fits = match bracketed {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-'),
        };
        host_fits && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    if !valid {
        reader.fault(
            Setting::Addr,
            &format!("`{text}` is not an address with a port, for example `127.0.0.1:8080`"),
        );
    }
    text
}
