//! The pipeline's types as MCP's.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use crate::reply::Reply;
use crate::schema::ToolDefinition;

/// More names than this are counted, not listed: every client pays for the description in tokens.
const MOST_NAMES: usize = 40;

/// What a caller may use now, for the descriptions of tools.
#[derive(Debug, Clone, Default)]
pub struct Usable {
    /// Images that may run.
    pub images: Vec<String>,
    /// Namespaces that may be read; one star for every namespace.
    pub namespaces: Vec<String>,
}

/// A tool as `tools/list` shows it.
pub(super) fn tool(definition: &ToolDefinition, usable: &Usable) -> Tool {
    let namespaces = match usable.namespaces.as_slice() {
        [star] if star == "*" => "every namespace".to_owned(),
        names => list(names, "none; the operator has listed no namespace"),
    };
    let description = definition
        .description
        .replace("{images}", &list(&usable.images, "none; the operator has listed no image"))
        .replace("{namespaces}", &namespaces);
    let annotations: ToolAnnotations =
        serde_json::from_value(definition.annotations.clone()).unwrap_or_default();
    Tool::new(definition.name.clone(), description, Arc::new(definition.input_schema.clone()))
        .with_title(definition.title.clone())
        .with_raw_output_schema(Arc::new(definition.output_schema.clone()))
        .with_annotations(annotations)
}

fn list(names: &[String], none: &str) -> String {
    match names {
        [] => none.to_owned(),
        _ => {
            let shown: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
            match names.len().saturating_sub(shown.len()) {
                0 => shown.join(", "),
                more => format!("{} and {more} more", shown.join(", ")),
            }
        }
    }
}

/// A reply as the answer to `tools/call`. Only a failure inside the gateway is a protocol error.
pub(super) fn answer(reply: &Reply) -> Result<CallToolResult, ErrorData> {
    if let Some(result) = reply.result() {
        let text = reply.text().map(|text| vec![ContentBlock::text(text)]);
        let mut answer = CallToolResult::structured(result);
        answer.content = text.unwrap_or(answer.content);
        return Ok(answer);
    }
    let text = reply.error_text().unwrap_or_default();
    match reply {
        Reply::Broken { .. } => Err(ErrorData::internal_error(text, None)),
        Reply::Job { .. }
        | Reply::Read { .. }
        | Reply::Submitted { .. }
        | Reply::Handle { .. }
        | Reply::Refused { .. }
        | Reply::Unrecorded { .. } => {
            let mut meta = MetaObject::default();
            if let Some(document) = reply.error_document() {
                meta.insert("kubepermit/error".to_owned(), document);
            }
            Ok(CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(meta)))
        }
    }
}

/// A stranger's text for a message: bounded, on one line.
pub(super) fn shown(text: &str) -> String {
    let clean: String = text.chars().take(64).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if clean.len() < text.len() { format!("{clean}…") } else { clean }
}

/// Why the params of a method that exists cannot be read. Never quotes them: they may hold secrets, and rmcp logs
/// the answer.
pub(super) fn bad_params(method: &str, params: Option<&Value>) -> String {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let cause = match params {
        None => "they are missing".to_owned(),
        Some(Value::Object(params)) if method == "tools/call" => {
            match (params.get("name"), params.get("arguments")) {
                (None, _) => "`name` is missing; it names the tool".to_owned(),
                (Some(Value::String(_)), Some(arguments)) if !arguments.is_object() => {
                    format!(
                        "`arguments` has to be an object, and is {}; send JSON, not text",
                        kind(arguments)
                    )
                }
                (Some(Value::String(_)), _) => {
                    "a member beside `name` and `arguments` has another form".to_owned()
                }
                (Some(name), _) => format!("`name` has to be a string, and is {}", kind(name)),
            }
        }
        Some(Value::Object(_)) => "a member has another form".to_owned(),
        Some(other) => format!("they have to be an object, and are {}", kind(other)),
    };
    format!("the params of {method} cannot be read: {cause}")
}
