//! The Pod Security Standards as a check on a pod template's JSON.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/pod-security-standards/> at the levels of
//! Kubernetes 1.35. A plan asserts its own manifest with it before anything is judged or sent.
//!
//! It is stricter than the API server in three ways: a field of the wrong type violates its control; an
//! unknown kind of volume is not allowed; and what the standard relaxes for Windows pods and for pods with a
//! user namespace stays required.

mod baseline;
mod restricted;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Prevents known privilege escalations.
    Baseline,
    /// Baseline, and hardening practice.
    Restricted,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

/// The controls that a pod template (`{metadata, spec}`) violates, by the names that Kubernetes' admission
/// gives its checks (`hostNamespaces`). Something that is no pod template violates `podTemplate`.
#[must_use]
pub fn violations(level: Level, template: &Value) -> Vec<&'static str> {
    let Some(pod) = Pod::new(template) else {
        return vec!["podTemplate"];
    };
    let restricted: &[Control] = match level {
        Level::Baseline => &[],
        Level::Restricted => &restricted::CONTROLS,
    };
    baseline::CONTROLS
        .iter()
        .chain(restricted)
        .filter(|control| !(control.complies)(&pod))
        .map(|control| control.name)
        .collect()
}

/// One control of the standard.
struct Control {
    name: &'static str,
    complies: fn(&Pod<'_>) -> bool,
}

/// A pod template, taken apart.
struct Pod<'a> {
    template: &'a Value,
    spec: &'a Value,
    volumes: Vec<&'a Value>,
    /// Ordinary, init and ephemeral containers: the standard makes no difference between them.
    containers: Vec<&'a Value>,
}

impl<'a> Pod<'a> {
    fn new(template: &'a Value) -> Option<Self> {
        let spec = template.get("spec").filter(|spec| spec.is_object())?;
        let mut containers = objects(spec, "containers")?;
        if containers.is_empty() {
            return None;
        }
        containers.extend(objects(spec, "initContainers")?);
        containers.extend(objects(spec, "ephemeralContainers")?);
        Some(Self { template, spec, volumes: objects(spec, "volumes")?, containers })
    }

    /// Whether every container complies.
    fn every_container(&self, complies: impl FnMut(&Value) -> bool) -> bool {
        self.containers.iter().copied().all(complies)
    }

    /// Whether the security contexts of the pod and of every container comply, where there are any.
    fn every_context(&self, mut complies: impl FnMut(&Value) -> bool) -> bool {
        let mut holder = |holder: &Value| complies(holder.get("securityContext").unwrap_or(&Value::Null));
        holder(self.spec) && self.containers.iter().copied().all(holder)
    }
}

/// The objects of a list; none when the list is absent, `None` when it is something else.
fn objects<'a>(parent: &'a Value, list: &str) -> Option<Vec<&'a Value>> {
    match parent.get(list) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().all(Value::is_object).then(|| items.iter().collect()),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => None,
    }
}

/// Whether a value is absent or passes.
fn absent_or(value: Option<&Value>, complies: impl FnOnce(&Value) -> bool) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(value) => complies(value),
    }
}

/// Whether a flag is absent or false.
fn unset(value: Option<&Value>) -> bool {
    absent_or(value, |value| value == &Value::Bool(false))
}

/// Whether a string is absent or empty.
fn unnamed(value: Option<&Value>) -> bool {
    absent_or(value, |value| value == "")
}

/// Whether a value is one of these strings.
fn one_of(value: &Value, allowed: &[&str]) -> bool {
    value.as_str().is_some_and(|text| allowed.contains(&text))
}

/// Whether every entry of a list of strings is one of these; so it is when the list is absent.
fn all_of(value: Option<&Value>, allowed: &[&str]) -> bool {
    absent_or(value, |value| {
        value.as_array().is_some_and(|items| items.iter().all(|item| one_of(item, allowed)))
    })
}
