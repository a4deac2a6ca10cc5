//! Label and field selectors of list and watch requests.

use std::collections::BTreeMap;

use super::status::ApiError;
use crate::embedded::store::Kind;

/// Which objects a request is about. The empty selector matches all.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelRule {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

#[derive(Debug, Clone)]
struct FieldRule {
    path: String,
    value: String,
    equal: bool,
}

impl Selectors {
    /// Reads the `labelSelector` and `fieldSelector` parameters.
    ///
    /// # Errors
    /// 400, as the API server's, when one cannot be parsed.
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = labels.map_or(Ok(Vec::new()), parse_labels).map_err(|text| {
            ApiError::bad_request(format!(
                "unable to parse requirement: found `{text}` in the label selector"
            ))
        })?;
        let fields = fields.map_or(Ok(Vec::new()), parse_fields).map_err(|text| {
            ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{text}'"))
        })?;
        Ok(Self { labels, fields })
    }

    /// Whether `object` is one of those.
    ///
    /// # Errors
    /// 400 when the kind has no such field to select by.
    pub fn matches<K: Kind>(&self, object: &K) -> Result<bool, ApiError> {
        let meta = object.metadata();
        let none = BTreeMap::new();
        let labels = meta.labels.as_ref().unwrap_or(&none);
        for rule in &self.fields {
            let value = match rule.path.as_str() {
                "metadata.name" => meta.name.clone().unwrap_or_default(),
                "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
                path => object
                    .field(path)
                    .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {path}")))?,
            };
            if (value == rule.value) != rule.equal {
                return Ok(false);
            }
        }
        Ok(self.labels.iter().all(|rule| rule.matches(labels)))
    }
}

impl LabelRule {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            // An object without the label matches `!=` and `notin`.
            Self::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Missing(key) => !labels.contains_key(key),
        }
    }
}

fn parse_labels(text: &str) -> Result<Vec<LabelRule>, String> {
    split_outside_parentheses(text)
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .map(|part| parse_label(part.trim()).ok_or_else(|| part.trim().to_owned()))
        .collect()
}

fn parse_label(part: &str) -> Option<LabelRule> {
    if let Some(key) = part.strip_prefix('!') {
        return Some(LabelRule::Missing(label_key(key)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(LabelRule::NotIn(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(LabelRule::In(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((left, values)) = part.split_once('(') {
        let values = values.strip_suffix(')')?;
        let values = values.split(',').map(label_value).collect::<Option<Vec<_>>>()?;
        let (key, operator) = left.trim().rsplit_once(char::is_whitespace)?;
        return match operator {
            "in" => Some(LabelRule::In(label_key(key)?, values)),
            "notin" => Some(LabelRule::NotIn(label_key(key)?, values)),
            _ => None,
        };
    }
    Some(LabelRule::Exists(label_key(part)?))
}

fn label_key(text: &str) -> Option<String> {
    let key = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    (!key.is_empty() && key.chars().all(fits)).then(|| key.to_owned())
}

fn label_value(text: &str) -> Option<String> {
    let value = text.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (value.len() <= 63 && value.chars().all(fits)).then(|| value.to_owned())
}

fn parse_fields(text: &str) -> Result<Vec<FieldRule>, String> {
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
                (path, value, false)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, value, true)
            } else {
                return Err(part.to_owned());
            };
            Ok(FieldRule { path: path.to_owned(), value: value.to_owned(), equal })
        })
        .collect()
}

/// Splits at commas, but not inside `in (a,b)`.
fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels_match(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        parse_labels(selector).unwrap().iter().all(|rule| rule.matches(&labels))
    }

    /// The operators of the Kubernetes documentation, "Labels and Selectors".
    #[test]
    fn label_selectors() {
        let web = [("app", "web"), ("tier", "front")];
        for (selector, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app=db", false),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db,cache)", true),
            ("other notin (db)", true),
            ("app in (web,db),tier=front", true),
            ("app in (web,db),tier=back", false),
        ] {
            assert_eq!(labels_match(selector, &web), expected, "{selector}");
        }
        for wrong in ["a b", "app=we b", "app in web", "=x", "app within (x)", "app in (x", "a=b=c"] {
            assert!(parse_labels(wrong).is_err(), "{wrong}");
        }
    }
}
