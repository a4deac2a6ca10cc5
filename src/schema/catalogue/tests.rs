//! The catalogue as clients meet it, and what it refuses.

use serde_json::json;

use super::*;
use crate::schema::Arguments;

fn admit(arguments: Value) -> Result<ToolCall, Refusal> {
    Catalogue::load().unwrap().admit(DecisionId::mint(), "run_job", arguments)
}

fn codes(arguments: Value) -> Vec<(String, String)> {
    let refusal = admit(arguments).unwrap_err();
    assert_eq!(refusal.stage, Stage::Schema);
    refusal.reasons.into_iter().map(|reason| (reason.code, reason.field)).collect()
}

#[test]
fn the_reference_servers_example_is_admitted() {
    let call = admit(json!({
        "image": "python:3.12-slim",
        "command": ["python", "gen.py"],
        "files": [{ "path": "gen.py", "content_b64": "cHJpbnQoMSk=" }],
        "limits": { "cpu": "500m", "memory": "256Mi" },
        "timeout_s": 30,
    }))
    .unwrap();
    let Arguments::RunJob(job) = call.arguments() else { panic!("not a run_job") };
    assert_eq!(job.command, ["python", "gen.py"]);
    assert_eq!(job.files.first().unwrap().content.as_ref(), b"print(1)");
    assert_eq!(job.limits.cpu.as_deref(), Some("500m"));
    assert_eq!(job.timeout_s, Some(30));
}

#[test]
fn each_fault_names_its_path_and_rule() {
    let cases = [
        (json!({ "image": "a" }), "schema.required", ""),
        (json!({ "image": 1, "command": ["a"] }), "schema.type", "/image"),
        (json!({ "image": "", "command": ["a"] }), "schema.minLength", "/image"),
        (json!({ "image": "a", "command": [] }), "schema.minItems", "/command"),
        (json!({ "image": "a", "command": ["a"], "context": "prod" }), "schema.additionalProperties", ""),
        (json!({ "image": "a", "command": ["a"], "env": { "A": 1 } }), "schema.type", "/env/A"),
        (json!({ "image": "a", "command": ["a"], "timeout_s": -1 }), "schema.minimum", "/timeout_s"),
        (json!({ "image": "a", "command": ["a"], "timeout_s": 1.5 }), "schema.type", "/timeout_s"),
        (json!({ "image": "a", "command": ["a"], "timeout_s": 1e300 }), "schema.maximum", "/timeout_s"),
        (
            json!({ "image": "a", "command": ["a"], "files": [{ "path": "x", "content_b64": "*" }] }),
            "schema.base64",
            "/files/0/content_b64",
        ),
        (json!([]), "schema.type", ""),
        (json!(null), "schema.type", ""),
    ];
    for (arguments, code, field) in cases {
        assert_eq!(codes(arguments.clone()), [(code.to_owned(), field.to_owned())], "{arguments}");
    }
}

#[test]
fn faults_never_echo_a_value() {
    let refusal = admit(json!({
        "image": { "secret": "hunter2" }, "command": ["a"], "env": { "T": ["hunter2"] }, "workdir": 5,
    }))
    .unwrap_err();
    assert!(refusal.reasons.len() >= 3);
    assert!(!format!("{refusal:?} {refusal}").contains("hunter2"));
}

#[test]
fn a_whole_float_is_an_integer() {
    let call = admit(json!({ "image": "a", "command": ["a"], "timeout_s": 30.0 })).unwrap();
    let Arguments::RunJob(job) = call.arguments() else { panic!("not a run_job") };
    assert_eq!(job.timeout_s, Some(30));
}

#[test]
fn contents_and_values_do_not_pass_the_redaction() {
    let call = admit(json!({
        "image": "a", "command": ["a"], "env": { "TOKEN": "hunter2" },
        "files": [{ "path": "f", "content_b64": "aHVudGVyMg==" }],
    }))
    .unwrap();
    let view = call.redacted();
    assert!(!view.to_string().contains("hunter2") && !view.to_string().contains("aHVudGVyMg"));
    // printf hunter2 | sha256sum
    let digest = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    assert_eq!(view["env"]["TOKEN"], json!({ "sha256": digest, "len": 7 }));
    assert_eq!(view["files"][0]["content"], json!({ "sha256": digest, "len": 7 }));
}

fn one_tool(change: impl FnOnce(&mut Value)) -> Result<Catalogue, CatalogueError> {
    let text = TOOLS.get_file("run_job.json").unwrap().contents_utf8().unwrap();
    let mut tool: Value = serde_json::from_str(text).unwrap();
    change(&mut tool);
    Catalogue::from_files([("run_job.json".to_owned(), tool.to_string())])
}

#[test]
fn a_schema_that_does_not_compile_stops_the_start() {
    one_tool(|_| {}).unwrap();
    let error =
        one_tool(|tool| tool["inputSchema"]["properties"]["image"]["type"] = json!("strin")).unwrap_err();
    assert!(matches!(&error, CatalogueError::Schema { schema: "inputSchema", .. }), "{error}");
    let error = one_tool(|tool| tool["outputSchema"]["type"] = json!(7)).unwrap_err();
    assert!(matches!(&error, CatalogueError::Schema { schema: "outputSchema", .. }), "{error}");
    // Nothing is fetched to make sense of a schema.
    let error = one_tool(|tool| {
        tool["inputSchema"]["properties"]["image"] = json!({ "$ref": "http://127.0.0.1:9/image.json" });
    })
    .unwrap_err();
    assert!(matches!(error, CatalogueError::Schema { .. }), "{error}");
    let error = one_tool(|tool| tool["name"] = json!("rm_rf")).unwrap_err();
    assert!(matches!(error, CatalogueError::Unimplemented { .. }), "{error}");
    let error = one_tool(|tool| tool["surprise"] = json!(true)).unwrap_err();
    assert!(matches!(error, CatalogueError::Definition { .. }), "{error}");
}

#[test]
fn a_validator_that_gives_up_refuses() {
    // A back-reference needs the backtracking engine, whose step limit this value exceeds.
    let catalogue = one_tool(|tool| {
        tool["inputSchema"]["properties"]["image"]["pattern"] = json!(r"^(?:(a|aa)+)+\1x$");
    })
    .unwrap();
    let image = format!("{}b", "a".repeat(400));
    let refusal = catalogue
        .admit(DecisionId::mint(), "run_job", json!({ "image": image, "command": ["a"] }))
        .unwrap_err();
    let reason = refusal.reasons.first().unwrap();
    assert_eq!((reason.code.as_str(), reason.field.as_str()), ("schema.pattern", "/image"));
    assert!(reason.message.contains("could not be checked"), "{}", reason.message);
}

/// What the clients that people use accept: one schema outside it disables every tool (see the MCP clients'
/// reports on `additionalProperties`, type arrays, boolean subschemas, `$ref` and unsigned formats).
#[test]
fn schemas_survive_every_client() {
    fn walk(at: &str, schema: &Value) {
        let object = schema.as_object().unwrap_or_else(|| panic!("{at}: boolean subschema"));
        for banned in ["$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "format"]
        {
            assert!(!object.contains_key(banned), "{at}: {banned}");
        }
        let kind = object["type"].as_str().unwrap_or_else(|| panic!("{at}: type is not one string"));
        if kind == "object" {
            let properties =
                object["properties"].as_object().unwrap_or_else(|| panic!("{at}: no properties"));
            for (name, property) in properties {
                walk(&format!("{at}/{name}"), property);
            }
            match &object["additionalProperties"] {
                Value::Bool(false) => {}
                open @ Value::Object(_) => walk(&format!("{at}/*"), open),
                other => panic!("{at}: additionalProperties is {other}"),
            }
        }
        if kind == "array" {
            walk(&format!("{at}/[]"), &object["items"]);
        }
    }
    let catalogue = Catalogue::load().unwrap();
    let mut seen = 0;
    for tool in catalogue.definitions() {
        assert!(tool.name.len() <= 64);
        assert!(tool.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        walk(&format!("{}.in", tool.name), &Value::Object(tool.input_schema.clone()));
        walk(&format!("{}.out", tool.name), &Value::Object(tool.output_schema.clone()));
        seen += 1;
    }
    assert!(seen > 0);
}

/// submit_job takes what run_job takes, and fetch_job gives what run_job gives: one contract, written twice
/// because each definition stands for itself.
#[test]
fn the_background_tools_share_run_jobs_contract() {
    let catalogue = Catalogue::load().unwrap();
    let of = |name: &str| catalogue.definitions().find(|tool| tool.name == name).unwrap();
    assert_eq!(of("submit_job").input_schema, of("run_job").input_schema);
    for name in ["fetch_job", "cancel_job"] {
        let result = &of(name).output_schema["properties"]["result"];
        for part in ["properties", "required", "additionalProperties"] {
            assert_eq!(result[part], of("run_job").output_schema[part], "{name}: {part}");
        }
    }
}

#[test]
fn a_token_is_never_shown_again() {
    let token = "job-0123456789abcdef0123456789abcdef";
    for (tool, arguments) in [
        ("fetch_job", json!({ "job_token": token, "wait_s": 500.0 })),
        ("cancel_job", json!({ "job_token": token })),
    ] {
        let call = Catalogue::load().unwrap().admit(DecisionId::mint(), tool, arguments).unwrap();
        assert!(!call.redacted().to_string().contains("0123456789"), "{call:?}");
        assert!(!format!("{call:?}").contains("0123456789"));
        assert_eq!(call.handle(), None, "nobody's job without a caller");
    }
    for bad in [json!(""), json!("job-1"), json!(7), json!(token.to_uppercase()), json!(null)] {
        let refusal = Catalogue::load()
            .unwrap()
            .admit(DecisionId::mint(), "fetch_job", json!({ "job_token": bad }))
            .unwrap_err();
        assert_eq!(refusal.reasons.first().unwrap().field, "/job_token");
    }
}
