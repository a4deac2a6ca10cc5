//! Keeps file contents, environment values and commands out of records, whatever the pipeline hands over.
//!
//! Works by member name at every depth, so that a raw argument or a whole manifest passed by mistake loses
//! the same things as a well-formed view:
//!
//! - `env`: the names, each with the length of its value. No digest: a short secret can be guessed from one. A
//!   name that is none (`TOKEN=secret`) is replaced by `<not a name 1>` and so on.
//! - `files`: `path` and `mode`; contents as `{sha256, len}` where the caller made one, else `{len}`.
//! - `content`, `content_b64`, `stdin`, `data`, `stringData`, `binaryData` elsewhere: the same.
//! - `job_token`: the digest that the caller made, as the Job's label has it, else `{len}`. A token is a key.
//! - `command`, `args`: `{sha256, argc, len}` over the elements, each followed by a NUL byte
//!   (`printf 'echo\0hello\0' | sha256sum`), unless the operator asked for commands.
//!
//! The reasons of a refusal are cut to what their stage can vouch for; see [`reasons`].

use serde_json::{Map, Value, json};

use crate::audit::record::{byte_count, sha256_hex};
use crate::refusal::{Reason, Stage};

/// The names that the tools' input schemas give to properties: all that a recorded `field` may be made of, with
/// indices. A test compares them with the schemas.
const PROPERTIES: [&str; 31] = [
    "artifacts",
    "clone",
    "command",
    "container",
    "content_b64",
    "cpu",
    "env",
    "field_selector",
    "files",
    "for_kind",
    "for_name",
    "image",
    "job_token",
    "kind",
    "limits",
    "memory",
    "mode",
    "name",
    "namespace",
    "path",
    "previous",
    "ref",
    "repo_url",
    "selector",
    "since_seconds",
    "subdir",
    "tail_lines",
    "timeout_s",
    "wait_s",
    "warnings_only",
    "workdir",
];

/// Those below which the caller chooses the names.
const FREE_FORM: [&str; 1] = ["env"];

/// The most characters of an outcome's message.
const MOST_MESSAGE: usize = 1000;

/// The reasons of a refusal at `stage`, as a record may hold them.
///
/// Before the policy, a reason speaks of what the caller wrote: its message may quote a value that was refused,
/// its hint a name, its field the name of a variable. Of those the code is kept, which is ours, and the part of
/// the field that the tool's schema knows.
///
/// A reason of the policy is kept whole: it says why the rules refused, which is what the record is for. Environment
/// values, file contents and standard input cannot be in it, since the policy is given lengths and digests of them.
/// What it may quote has passed the plan's grammars (an image reference, the name of a variable, a namespace, a
/// path) and is in the record's `arguments` as well. The one exception is the command: a site's own rule may put an
/// argument into its message, and then its author has decided so. A reason of the limits stage speaks of numbers
/// alone, one of the audit stage of the log.
pub(in crate::audit) fn reasons(stage: Option<Stage>, reasons: Vec<Reason>) -> Vec<Reason> {
    match stage {
        Some(Stage::Schema | Stage::Plan) => reasons
            .into_iter()
            .map(|reason| Reason::new(reason.code, "", known_part(&reason.field), ""))
            .collect(),
        Some(Stage::Policy | Stage::Limits | Stage::Audit | Stage::Server) | None => reasons,
    }
}

/// The message of an outcome, on one line and of bounded length. Which messages may be recorded at all is decided
/// by whoever knows where their words come from.
pub(in crate::audit) fn message(text: &str) -> String {
    let mut bounded: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_MESSAGE).collect();
    if text.chars().nth(MOST_MESSAGE).is_some() {
        bounded.push('…');
    }
    bounded
}

/// The beginning of a JSON pointer, up to the first name that no schema gives.
fn known_part(pointer: &str) -> String {
    let mut known = String::new();
    for part in pointer.split('/').skip(1) {
        let index = part.len() <= 6 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !index && !PROPERTIES.contains(&part) {
            break;
        }
        known.push('/');
        known.push_str(part);
        if FREE_FORM.contains(&part) {
            break;
        }
    }
    known
}

/// `{sha256, len}` of the raw arguments of a call that never passed its schema.
#[must_use]
pub fn unparsed(raw: &[u8]) -> Value {
    json!({ "sha256": sha256_hex(raw), "len": byte_count(raw) })
}

/// The arguments of a call that passed its schema. Always an object.
pub(in crate::audit) fn arguments(value: Value, record_commands: bool) -> Value {
    match value {
        Value::Object(members) => Value::Object(object(members, record_commands)),
        other => unparsed(&text(&other)),
    }
}

/// The arguments of a call that did not: by digest only, since no rule says what each member means.
pub(in crate::audit) fn unchecked_arguments(value: Value) -> Value {
    digest(&value).unwrap_or_else(|| unparsed(&text(&value)))
}

/// The facts of a plan. An object or null.
pub(in crate::audit) fn subject(value: Value, record_commands: bool) -> Value {
    match value {
        Value::Null => Value::Null,
        other => arguments(other, record_commands),
    }
}

fn object(members: Map<String, Value>, record_commands: bool) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(name, value)| {
            let value = member(&name, value, record_commands);
            (name, value)
        })
        .collect()
}

fn member(name: &str, value: Value, record_commands: bool) -> Value {
    match name {
        "env" => environment(value),
        "files" => files(value),
        "content" | "content_b64" | "stdin" | "data" | "stringData" | "binaryData" => content(&value),
        "job_token" => token(&value),
        "command" | "args" => command(value, record_commands),
        _ => nested(value, record_commands),
    }
}

fn nested(value: Value, record_commands: bool) -> Value {
    match value {
        Value::Object(members) => Value::Object(object(members, record_commands)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| nested(item, record_commands)).collect())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}

/// `{NAME: value}` or Kubernetes' `[{name, value}]`, to `{NAME: {len}}`.
fn environment(value: Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Object(members) => named(members.iter().map(|(name, value)| (name.as_str(), length(value)))),
        Value::Array(items) => named(items.iter().filter_map(|item| {
            let name = item.get("name")?.as_str()?;
            Some((name, item.get("value").map_or_else(|| json!({ "len": 0 }), length)))
        })),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => length(&other),
    }
}

fn named<'a>(variables: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let mut kept = Map::new();
    let mut nameless = 0;
    for (name, value) in variables {
        if is_variable(name) {
            kept.insert(name.to_owned(), value);
        } else {
            nameless += 1;
            kept.insert(format!("<not a name {nameless}>"), value);
        }
    }
    kept.into()
}

/// Whether this may be the name of a variable, by the grammar that the plan enforces.
fn is_variable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn files(value: Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Array(items) => Value::Array(items.into_iter().map(file).collect()),
        other => length(&other),
    }
}

fn file(value: Value) -> Value {
    let Value::Object(members) = value else {
        return length(&value);
    };
    members
        .into_iter()
        .map(|(name, value)| match (name.as_str(), value) {
            ("path" | "mode", kept @ (Value::String(_) | Value::Null)) => (name, kept),
            (_, other) => (name, content(&other)),
        })
        .collect::<Map<_, _>>()
        .into()
}

fn content(value: &Value) -> Value {
    digest(value).unwrap_or_else(|| length(value))
}

/// The value itself when it is exactly `{digest, len}`, of the length that a truncated digest has.
fn token(value: &Value) -> Value {
    let short = |members: &Map<String, Value>| {
        let digest = members.get("digest")?.as_str()?;
        let len = members.get("len")?.as_u64()?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (members.len() == 2 && digest.len() == 32 && digest.bytes().all(is_hex))
            .then(|| json!({ "digest": digest, "len": len }))
    };
    value.as_object().and_then(short).unwrap_or_else(|| length(value))
}

fn command(value: Value, record_commands: bool) -> Value {
    if value.is_null() {
        return value;
    }
    let argv =
        value.as_array().and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<&str>>>());
    let Some(argv) = argv else {
        return length(&value);
    };
    if record_commands {
        return value;
    }
    let mut framed = Vec::new();
    for argument in &argv {
        framed.extend_from_slice(argument.as_bytes());
        framed.push(0);
    }
    json!({ "sha256": sha256_hex(&framed), "argc": argv.len(), "len": byte_count(&framed) })
}

/// `{len}`: of a digest the length that it states, of a string its bytes, of anything else its JSON text.
fn length(value: &Value) -> Value {
    let stated = digest(value).and_then(|digest| digest.get("len").cloned());
    let len = match (stated, value) {
        (Some(len), _) => len,
        (None, Value::String(string)) => json!(string.len()),
        (None, other) => json!(text(other).len()),
    };
    json!({ "len": len })
}

/// The value itself when it is exactly `{sha256, len}`: the name alone does not make it one.
fn digest(value: &Value) -> Option<Value> {
    let members = value.as_object()?;
    let sha256 = members.get("sha256")?.as_str()?;
    let len = members.get("len")?.as_u64()?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (members.len() == 2 && sha256.len() == 64 && sha256.bytes().all(is_hex))
        .then(|| json!({ "sha256": sha256, "len": len }))
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_a_record_must_not_hold() {
        let hex = "a".repeat(64);
        let sealed = json!({ "sha256": hex, "len": 5 });
        for (given, expected) in [
            (json!({ "env": { "TOKEN": sealed } }), json!({ "env": { "TOKEN": { "len": 5 } } })),
            (json!({ "env": { "TOKEN": "canary" } }), json!({ "env": { "TOKEN": { "len": 6 } } })),
            (
                json!({ "env": { "TOKEN": { "sha256": "canary", "len": 5 } } }),
                json!({ "env": { "TOKEN": { "len": 27 } } }),
            ),
            (json!({ "env": "canary" }), json!({ "env": { "len": 6 } })),
            (
                json!({ "env": { "A=canary": "x", "": "", "1canary": "y", "_OK1": "z" } }),
                json!({ "env": { "<not a name 1>": { "len": 0 }, "<not a name 2>": { "len": 1 }, "<not a name 3>": { "len": 1 }, "_OK1": { "len": 1 } } }),
            ),
            (
                json!({ "env": [{ "name": "A=canary", "value": "x" }] }),
                json!({ "env": { "<not a name 1>": { "len": 1 } } }),
            ),
            (
                json!({ "spec": [{ "env": [{ "name": "A", "value": "canary" }, "canary"] }] }),
                json!({ "spec": [{ "env": { "A": { "len": 6 } } }] }),
            ),
            (
                json!({ "files": [{ "path": "a", "mode": null, "content": sealed }] }),
                json!({ "files": [{ "path": "a", "mode": null, "content": sealed }] }),
            ),
            (
                json!({ "files": [{ "path": "a", "content_b64": "canary", "other": ["canary"] }, "canary"] }),
                json!({ "files": [{ "path": "a", "content_b64": { "len": 6 }, "other": { "len": 10 } }, { "len": 6 }] }),
            ),
            (json!({ "deep": { "content": "canary" } }), json!({ "deep": { "content": { "len": 6 } } })),
            (json!({ "job_token": "job-canary" }), json!({ "job_token": { "len": 10 } })),
            (
                json!({ "job_token": { "digest": "0".repeat(32), "len": 36 } }),
                json!({ "job_token": { "digest": "0".repeat(32), "len": 36 } }),
            ),
            (
                json!({ "job_token": { "digest": "canary", "len": 36 } }),
                json!({ "job_token": { "len": 28 } }),
            ),
            (json!({ "command": "canary" }), json!({ "command": { "len": 6 } })),
            (json!({ "command": ["canary", 1] }), json!({ "command": { "len": 12 } })),
            (json!({ "image": "busybox", "timeout_s": 3 }), json!({ "image": "busybox", "timeout_s": 3 })),
        ] {
            assert_eq!(arguments(given, false), expected);
        }
    }

    #[test]
    fn a_field_ends_where_the_caller_chose_the_name() {
        for (field, kept) in [
            ("", ""),
            ("/env", "/env"),
            ("/env/canary", "/env"),
            ("/env/path", "/env"),
            ("/env/1", "/env"),
            ("/canary", ""),
            ("/canary/env", ""),
            ("canary", ""),
            ("/files/12/content_b64", "/files/12/content_b64"),
            ("/files/12/canary", "/files/12"),
            ("/files/12345678", "/files"),
            ("/limits/cpu", "/limits/cpu"),
            ("/command/3", "/command/3"),
        ] {
            assert_eq!(known_part(field), kept, "{field}");
        }
    }

    #[test]
    fn the_properties_are_those_of_the_schemas() {
        fn collect(
            schema: &Value,
            names: &mut std::collections::BTreeSet<String>,
            free: &mut std::collections::BTreeSet<String>,
        ) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                names.insert(name.clone());
                if property["type"] == "object" && property["additionalProperties"] != json!(false) {
                    free.insert(name.clone());
                }
                collect(property, names, free);
                collect(&property["items"], names, free);
            }
        }
        let (mut names, mut free) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/tools");
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let tool: Value = serde_json::from_str(&text).unwrap();
            collect(&tool["inputSchema"], &mut names, &mut free);
        }
        assert_eq!(names, PROPERTIES.map(str::to_owned).into());
        assert_eq!(free, FREE_FORM.map(str::to_owned).into());
    }

    #[test]
    fn a_message_is_one_bounded_line() {
        assert_eq!(message("a\nb\u{1b}[2J"), "a b [2J");
        assert_eq!(message(&"ä".repeat(MOST_MESSAGE)), "ä".repeat(MOST_MESSAGE));
        assert_eq!(message(&"ä".repeat(1 << 20)), "ä".repeat(MOST_MESSAGE) + "…");
    }

    #[test]
    fn a_command_is_kept_only_when_asked_for() {
        let given = json!({ "command": ["echo", "hello"] });
        assert_eq!(arguments(given.clone(), true), given);
        // printf 'echo\0hello\0' | sha256sum
        let sha256 = "45fd4fec0b4c159deda7034e976be8c7d8844e30fae20764fb477e4312efebc0";
        assert_eq!(arguments(given, false), json!({ "command": { "sha256": sha256, "argc": 2, "len": 11 } }));
    }

    #[test]
    fn arguments_that_failed_their_schema_become_a_digest() {
        let kept = unparsed(b"{}");
        assert_eq!(unchecked_arguments(kept.clone()), kept);
        assert_eq!(unchecked_arguments(json!({ "x": "canary" })), unparsed(br#"{"x":"canary"}"#));
        assert_eq!(arguments(json!("canary"), true), unparsed(br#""canary""#));
    }
}
