//! What a JSON Schema validator found, said so that an agent can mend its call.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use crate::refusal::Reason;

/// More faults than this help nobody.
const MOST_FAULTS: usize = 10;

/// The faults of `arguments`, none when they are valid. Never echoes a value: it may be a secret.
pub(super) fn faults(validator: &Validator, schema: &Map<String, Value>, arguments: &Value) -> Vec<Reason> {
    validator.iter_errors(arguments).take(MOST_FAULTS).map(|error| reason(&error, schema)).collect()
}

fn reason(error: &ValidationError<'_>, schema: &Map<String, Value>) -> Reason {
    let field = error.instance_path().to_string();
    let (message, hint) = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            (format!("`{name}` is required and missing"), format!("add `{name}`"))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> =
                unexpected.iter().take(5).map(|name| format!("`{}`", clip(name))).collect();
            let known = known_names(schema, &field);
            let hint = if known.is_empty() {
                "remove it".to_owned()
            } else {
                format!("remove it; the fields here are: {}", known.join(", "))
            };
            (format!("there is no field {}", names.join(", ")), hint)
        }
        ValidationErrorKind::BacktrackLimitExceeded { .. }
        | ValidationErrorKind::RegexEngineFailure { .. } => (
            "the value could not be checked against its pattern".to_owned(),
            "give a shorter value".to_owned(),
        ),
        _ => {
            let rule = clip(&error.masked_with("the value").to_string());
            (
                rule,
                format!("change it to fit the rule `{}` of the tool's input schema", error.kind().keyword()),
            )
        }
    };
    Reason::new(format!("schema.{}", error.kind().keyword()), message, field, hint)
}

/// The property names that the schema knows at a pointer into the arguments.
fn known_names(schema: &Map<String, Value>, pointer: &str) -> Vec<String> {
    let root = Value::Object(schema.clone());
    let mut at = &root;
    for part in pointer.split('/').skip(1) {
        let next =
            at.get("properties").and_then(|properties| properties.get(part)).or_else(|| at.get("items"));
        match next {
            Some(next) => at = next,
            None => return Vec::new(),
        }
    }
    at.get("properties")
        .and_then(Value::as_object)
        .map(|names| names.keys().cloned().collect())
        .unwrap_or_default()
}

/// At most 200 characters: a message must stay a message whatever the caller sent.
fn clip(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
