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
        ValidationErrorKind::Type { .. } => {
            let rule = clip(&error.masked_with("the value").to_string());
            (rule, how_to_write(schema, &field))
        }
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

/// How a value of the schema's type is written, since a wrong type is a model's commonest slip.
fn how_to_write(schema: &Map<String, Value>, pointer: &str) -> String {
    let root = Value::Object(schema.clone());
    let kind = at(&root, pointer).and_then(|schema| schema.get("type")).and_then(Value::as_str);
    match kind.unwrap_or_default() {
        "string" => "write a text in quotes",
        "integer" | "number" => "write a number without quotes",
        "boolean" => "write true or false without quotes",
        "array" if pointer == "/command" => r#"write a list of texts, for example ["sh", "-c", "echo hi"]"#,
        "array" => "write a list in brackets",
        _ => "write an object in braces",
    }
    .to_owned()
}

/// The property names that the schema knows at a pointer into the arguments.
fn known_names(schema: &Map<String, Value>, pointer: &str) -> Vec<String> {
    let root = Value::Object(schema.clone());
    let names = at(&root, pointer).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    names.map(|names| names.keys().cloned().collect()).unwrap_or_default()
}

/// The schema of what a pointer into the arguments leads to.
fn at<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut at = root;
    for part in pointer.split('/').skip(1) {
        let named = at.get("properties").and_then(|properties| properties.get(part));
        at = named.or_else(|| at.get("items")).or_else(|| at.get("additionalProperties"))?;
    }
    Some(at)
}

/// At most 200 characters: a message must stay a message whatever the caller sent.
fn clip(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
