//! The part of `data.yaml` that is about reads: namespaces, verbs and flags.

use std::collections::BTreeSet;

use crate::plan::DnsLabel;

/// Stands for every namespace.
pub(in crate::policy) const EVERY_NAMESPACE: &str = "*";

/// kubectl's verbs that only read, with whatever flags.
const VERBS: [&str; 7] = ["get", "describe", "logs", "top", "version", "api-resources", "explain"];

/// Names of namespaces.
pub(super) fn parse_namespaces(written: &[String]) -> Result<BTreeSet<String>, String> {
    for name in written {
        if name.parse::<DnsLabel>().is_err() {
            return Err(format!("`{name}` is not a namespace's name"));
        }
    }
    Ok(written.iter().cloned().collect())
}

/// Names of namespaces, or a star for all of them.
pub(super) fn parse_read_namespaces(written: &[String]) -> Result<BTreeSet<String>, String> {
    let names: Vec<String> = written.iter().filter(|name| *name != EVERY_NAMESPACE).cloned().collect();
    let mut names = parse_namespaces(&names)?;
    if written.iter().any(|name| name == EVERY_NAMESPACE) {
        names.insert(EVERY_NAMESPACE.to_owned());
    }
    Ok(names)
}

/// Verbs that only read.
pub(super) fn parse_verbs(written: &[String]) -> Result<BTreeSet<String>, String> {
    match written.iter().find(|verb| !VERBS.contains(&verb.as_str())) {
        Some(verb) => Err(format!("`{verb}` is not one of {}", VERBS.join(", "))),
        None => Ok(written.iter().cloned().collect()),
    }
}

/// Long flags in kubectl's own spelling, without the dashes in front.
pub(super) fn parse_flags(written: &[String]) -> Result<BTreeSet<String>, String> {
    let parse = |flag: &String| {
        let name = flag.strip_prefix("--").unwrap_or(flag);
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.starts_with('-') || !name.chars().all(good) {
            return Err(format!("`{flag}` is not a long flag's name, such as --server"));
        }
        Ok(name.to_owned())
    };
    written.iter().map(parse).collect()
}
