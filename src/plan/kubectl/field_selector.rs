//! Field selectors of pods: a closed list of fields, each with the values that it can have.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::plan::kubectl::name::DnsSubdomain;
use crate::plan::quote;

/// A field selector in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct FieldSelector(String);

/// Why a text is no field selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(in crate::plan) enum FieldSelectorError {
    #[error("is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("has an empty term")]
    EmptyTerm,
    #[error("has the term {0}, which is not FIELD=VALUE or FIELD!=VALUE")]
    NoOperator(String),
    #[error("names the field {0}, which is not one of {FIELDS}")]
    UnknownField(String),
    #[error("has {value} for {field}, which can be {expected}")]
    Value { field: &'static str, value: String, expected: &'static str },
}

const MAX_BYTES: usize = 1024;

/// For messages.
const FIELDS: &str = "`metadata.name`, `spec.nodeName`, `spec.restartPolicy`, `spec.serviceAccountName`, \
                      `status.phase`, `status.podIP`";

/// Fields that the API server can select pods by (Kubernetes, "Field Selectors").
#[derive(Clone, Copy)]
enum Field {
    Name,
    NodeName,
    RestartPolicy,
    ServiceAccountName,
    Phase,
    PodIp,
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        if text.len() > MAX_BYTES {
            return Err(FieldSelectorError::TooLong);
        }
        let mut canonical = String::with_capacity(text.len());
        for term in text.split(',') {
            let term = term.trim_matches(' ');
            if term.is_empty() {
                return Err(FieldSelectorError::EmptyTerm);
            }
            let no_operator = || FieldSelectorError::NoOperator(quote(term));
            let (left, value) = term.split_once('=').ok_or_else(no_operator)?;
            let (name, operator) = match left.strip_suffix('!') {
                Some(name) => (name, "!="),
                None => (left, "="),
            };
            // `==` is the same as `=`.
            let value = if operator == "=" { value.strip_prefix('=').unwrap_or(value) } else { value };
            let field = Field::of(name.trim_end_matches(' '))
                .ok_or_else(|| FieldSelectorError::UnknownField(quote(name)))?;
            let value = field.value(value.trim_start_matches(' '))?;
            if !canonical.is_empty() {
                canonical.push(',');
            }
            // Writing to a String cannot fail.
            let _ = write!(canonical, "{}{operator}{value}", field.as_str());
        }
        Ok(Self(canonical))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Field {
    fn of(name: &str) -> Option<Self> {
        match name {
            "metadata.name" => Some(Self::Name),
            "spec.nodeName" => Some(Self::NodeName),
            "spec.restartPolicy" => Some(Self::RestartPolicy),
            "spec.serviceAccountName" => Some(Self::ServiceAccountName),
            "status.phase" => Some(Self::Phase),
            "status.podIP" => Some(Self::PodIp),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Name => "metadata.name",
            Self::NodeName => "spec.nodeName",
            Self::RestartPolicy => "spec.restartPolicy",
            Self::ServiceAccountName => "spec.serviceAccountName",
            Self::Phase => "status.phase",
            Self::PodIp => "status.podIP",
        }
    }

    /// The value in canonical form.
    fn value(self, text: &str) -> Result<String, FieldSelectorError> {
        let one_of = |values: &[&str]| values.contains(&text).then(|| text.to_owned());
        let name = || text.parse::<DnsSubdomain>().ok().map(|name| name.to_string());
        let (value, expected) = match self {
            Self::Name | Self::ServiceAccountName => (name(), "an object's name"),
            // A pod without a node waits for the scheduler.
            Self::NodeName if text.is_empty() => (Some(String::new()), ""),
            Self::NodeName => (name(), "a node's name, or nothing for pods that have none yet"),
            Self::RestartPolicy => {
                (one_of(&["Always", "OnFailure", "Never"]), "`Always`, `OnFailure` or `Never`")
            }
            Self::Phase => (
                one_of(&["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
                "`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`",
            ),
            Self::PodIp => (text.parse::<IpAddr>().ok().map(|ip| ip.to_string()), "an IP address"),
        };
        value.ok_or_else(|| FieldSelectorError::Value { field: self.as_str(), value: quote(text), expected })
    }
}

#[cfg(test)]
mod tests;
