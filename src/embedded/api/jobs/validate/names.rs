//! The grammars of names, labels and annotations.

use std::collections::BTreeMap;

use super::Causes;

/// What a name of several labels must be.
pub const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                             '.', and must start and end with an alphanumeric character";

/// What a name of one label must be.
pub const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                         must start and end with an alphanumeric character";

const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                         with an alphanumeric character";

const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character";

/// All annotations together: 256 KiB.
const ANNOTATIONS: usize = 256 << 10;

/// An RFC 1123 subdomain.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns)
}

/// An RFC 1123 label.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns(text)
}

/// Checks a label map.
pub fn labels(causes: &mut Causes, field: &str, labels: Option<&BTreeMap<String, String>>) {
    for (key, value) in labels.into_iter().flatten() {
        label_value(causes, field, key, value);
    }
}

/// Checks one label.
pub fn label_value(causes: &mut Causes, field: &str, key: &str, value: &str) {
    if !is_qualified(key) {
        causes.invalid(field, key, QUALIFIED);
    }
    if value.len() > 63 {
        causes.invalid(field, value, "must be no more than 63 characters");
    } else if !value.is_empty() && !is_word(value) {
        causes.invalid(field, value, VALUE);
    }
}

/// Checks annotations.
pub fn annotations(causes: &mut Causes, field: &str, annotations: Option<&BTreeMap<String, String>>) {
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        if !is_qualified(&key.to_ascii_lowercase()) {
            causes.invalid(field, key, QUALIFIED);
        }
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS {
        causes.push(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {ANNOTATIONS} bytes"),
        );
    }
}

/// `name` or `prefix/name`.
fn is_qualified(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_subdomain) && name.len() <= 63 && is_word(name)
}

fn is_dns(part: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(inner) && part.ends_with(inner) && part.chars().all(|c| inner(c) || c == '-')
}

fn is_word(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(inner)
        && text.ends_with(inner)
        && text.chars().all(|c| inner(c) || matches!(c, '-' | '_' | '.'))
}
