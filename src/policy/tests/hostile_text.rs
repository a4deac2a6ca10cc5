//! Every text that a caller can write, in every field that takes text: the fields come from the schemas, so
//! that a new one is covered the day it is added.

use std::collections::BTreeSet;

use super::reads::planned;
use super::*;

/// What no field may take, unless the list below says why.
fn hostile() -> Vec<(&'static str, String)> {
    [
        ("a flag", "--server=http://127.0.0.1:1"),
        ("a short flag", "-sX"),
        ("a cluster of short flags", "-AsX"),
        ("an output format", "-oyaml"),
        ("standard input", "-"),
        ("the end of flags", "--"),
        ("a second command", "a;id"),
        ("a substitution", "$(id)"),
        ("NUL", "a\0b"),
        ("a newline", "a\nb"),
        ("a change of direction", "a\u{202e}b"),
    ]
    .into_iter()
    .map(|(what, text)| (what, text.to_owned()))
    .chain([("a mebibyte", "a".repeat(1024 * 1024))])
    .collect()
}

/// Fields whose content is the caller's own and reaches no argv of kubectl: tool, field, what it may hold, why.
const LEGITIMATE: [(&str, &str, &[&str], &str); 5] = [
    (
        "run_job",
        "/command/0",
        &[
            "a flag",
            "a short flag",
            "a cluster of short flags",
            "an output format",
            "standard input",
            "the end of flags",
            "a second command",
            "a substitution",
            "a newline",
            "a change of direction",
        ],
        "the argv of the caller's own program in its own pod; no shell reads it, and `$(` is escaped from the kubelet",
    ),
    (
        "run_job",
        "/env/A",
        &[
            "a flag",
            "a short flag",
            "a cluster of short flags",
            "an output format",
            "standard input",
            "the end of flags",
            "a second command",
            "a substitution",
            "a newline",
            "a change of direction",
        ],
        "a variable of that program; its value reaches no argv and no record",
    ),
    (
        "run_job",
        "/files/0/path",
        &[
            "a short flag",
            "a cluster of short flags",
            "an output format",
            "standard input",
            "the end of flags",
            "a second command",
            "a substitution",
        ],
        "a file's name below the work directory, written by the archive's own reader and not through a shell",
    ),
    (
        "run_job",
        "/artifacts/0",
        &[
            "a short flag",
            "a cluster of short flags",
            "an output format",
            "standard input",
            "the end of flags",
            "a second command",
            "a substitution",
        ],
        "a glob that the gateway itself matches with names; it reaches no program",
    ),
    (
        "run_job",
        "/files/0/content_b64",
        &["a mebibyte"],
        "a file's content; the policy has a ceiling for all of them together",
    ),
];

/// A call that every stage takes, with every field that the tool has.
fn whole_call(tool: &str) -> Value {
    match tool {
        "run_job" | "submit_job" => json!({
            "image": "busybox:1.36", "command": ["true"], "env": { "A": "b" }, "timeout_s": 1, "workdir": "/work",
            "files": [{ "path": "a", "content_b64": "", "mode": "0644" }], "limits": { "cpu": "1", "memory": "1Gi" },
            "artifacts": ["out"],
            "clone": { "repo_url": "https://github.com/a/b", "ref": "main", "subdir": "repo" },
        }),
        "fetch_job" => json!({ "job_token": "job-0123456789abcdef0123456789abcdef", "wait_s": 1 }),
        "cancel_job" => json!({ "job_token": "job-0123456789abcdef0123456789abcdef" }),
        "list_pods" => {
            json!({ "namespace": "dev", "selector": "a=b", "field_selector": "status.phase=Running" })
        }
        "pod_logs" => json!({
            "namespace": "dev", "name": "a", "container": "a", "tail_lines": 1, "previous": true, "since_seconds": 1,
        }),
        "describe_resource" => json!({ "namespace": "dev", "kind": "pod", "name": "a" }),
        "list_events" => json!({
            "namespace": "dev", "for_kind": "pod", "for_name": "a", "warnings_only": true,
        }),
        other => panic!("the tool `{other}` has no call here: add one with all its fields"),
    }
}

/// JSON pointers to every text in a call of this schema.
fn text_fields(schema: &Value, at: &str, found: &mut Vec<String>) {
    match schema["type"].as_str() {
        Some("string") => found.push(at.to_owned()),
        Some("array") => text_fields(&schema["items"], &format!("{at}/0"), found),
        Some("object") => {
            for (name, property) in schema["properties"].as_object().unwrap() {
                text_fields(property, &format!("{at}/{name}"), found);
            }
            if schema["additionalProperties"].is_object() {
                text_fields(&schema["additionalProperties"], &format!("{at}/A"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn no_field_takes_a_hostile_text() {
    let catalogue = Catalogue::load().unwrap();
    let (mut excused, mut wrong) = (BTreeSet::new(), Vec::new());
    for tool in catalogue.definitions() {
        let call = whole_call(&tool.name);
        planned(&tool.name, call.clone()).unwrap();
        let mut fields = Vec::new();
        text_fields(&Value::Object(tool.input_schema.clone()), "", &mut fields);
        assert!(!fields.is_empty(), "{}", tool.name);
        // One schema, one plan, one set of excuses.
        let like = if tool.name == "submit_job" { "run_job" } else { tool.name.as_str() };
        for field in fields {
            for (what, text) in hostile() {
                let mut call = call.clone();
                let place = call.pointer_mut(&field).unwrap_or_else(|| {
                    panic!("{} has the field {field}, and the call here does not: add it", tool.name)
                });
                *place = json!(text);
                let excuse = LEGITIMATE.iter().find(|(name, pointer, texts, _)| {
                    *name == like && *pointer == field && texts.contains(&what)
                });
                match (planned(&tool.name, call), excuse) {
                    (Err(_), None) => {}
                    (Ok(_), Some((name, pointer, ..))) => {
                        excused.insert((*name, *pointer, what));
                    }
                    (Ok(_), None) => wrong.push(format!("{} takes {what} in {field}", tool.name)),
                    (Err(_), Some(_)) => wrong.push(format!("{} refuses {what} in {field}", tool.name)),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let listed: usize = LEGITIMATE.iter().map(|(_, _, texts, _)| texts.len()).sum();
    assert_eq!(excused.len(), listed, "an excuse names a field or a text that is not there");
}

/// A refusal says what was wrong without handing the text on as it came: it is read by people and models.
#[test]
fn a_refusal_shows_no_hostile_character() {
    for (tool, field) in [("list_pods", "selector"), ("list_pods", "field_selector"), ("pod_logs", "name")] {
        for (what, text) in hostile() {
            let mut call = whole_call(tool);
            call[field] = json!(text);
            let text = planned(tool, call).unwrap_err().to_string();
            assert!(text.len() < 1500, "{what} in {field}: {} bytes", text.len());
            assert!(
                text.chars().all(|c| c == '\n' || (' '..='~').contains(&c) || c == '…'),
                "{what} in {field}: {text:?}"
            );
        }
    }
}
