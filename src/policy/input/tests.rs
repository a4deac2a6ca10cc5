//! The input document of a real call, and the schemas that describe what the rules see and say.

use jsonschema::Validator;
use serde_json::json;

use super::*;
use crate::plan::{AllowedImages, plan};
use crate::policy::bundle::{Bundle, BundleSource};
use crate::policy::compile::compile;
use crate::policy::data::{Config, Overlay};
use crate::policy::tests::{call, reads, settings};

fn validator(schema: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::options().build(&schema).unwrap()
}

#[track_caller]
fn valid(validator: &Validator, document: &Value) {
    let errors: Vec<_> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
}

const INPUT: &str = include_str!("../../../schemas/policy-input.json");
const DECISION: &str = include_str!("../../../schemas/decision.json");
const DATA: &str = include_str!("../../../schemas/policy-data.json");

fn of(caller: &Caller, arguments: Value) -> Value {
    let call = call(arguments);
    let listed = AllowedImages::new(["python:3.12-slim".parse().unwrap()]);
    let plan = plan(
        &call,
        &crate::plan::Settings {
            jobs: settings(),
            kubectl: crate::plan::KubectlSettings {
                context: "test".into(),
                cache_dir: "/private/cache".into(),
                request_timeout_s: 20,
            },
        },
        &listed,
    )
    .unwrap();
    document(caller, &call, &plan, "2026-01-02T03:04:05Z".parse().unwrap())
}

#[test]
fn a_call_becomes_facts() {
    let arguments = json!({
        "image": "python",
        "command": ["python", "gen.py"],
        "files": [
            { "path": "gen.py", "content_b64": "cHJpbnQoKQ==" },
            { "path": "b.txt", "content_b64": "MTIz", "mode": "0600" },
        ],
        "env": { "TOKEN": "hunter2", "MODE": "x" },
        "limits": { "cpu": "2500m", "memory": "256Mi" },
        "timeout_s": 30,
        "artifacts": ["out/*.json"],
    });
    let input = of(&Caller::over_stdio(Some("inspector".to_owned())), arguments);
    valid(&validator(INPUT), &input);

    assert_eq!(input["schema"], 1);
    assert_eq!(input["request"]["time"], "2026-01-02T03:04:05Z");
    assert_eq!(
        input["caller"],
        json!({ "name": "local", "roles": [], "transport": "stdio", "client": "inspector" })
    );
    assert_eq!(input["tool"], "run_job");
    let job = &input["job"];
    assert_eq!(
        job["image"],
        json!({
            "requested": "python",
            "registry": "docker.io",
            "repository": "library/python",
            "tag": "3.12-slim",
            "digest": null,
            "key": "docker.io/library/python:3.12-slim",
        })
    );
    assert_eq!(job["namespace"], "mcp-ephemeral");
    assert_eq!(job["command"], json!(["python", "gen.py"]));
    assert_eq!(job["env_names"], json!(["MODE", "TOKEN"]));
    assert_eq!(job["files"], json!({ "count": 2, "bytes": 10 }));
    assert_eq!(job["workdir"], "/work");
    assert_eq!(job["artifacts"], json!({ "wanted": "matching", "patterns": ["out/*.json"] }));
    assert_eq!(job["timeout_s"], 30);
    // requests.cpu is the lower of default and limit; a memory limit sets the request in both directions.
    assert_eq!(
        job["resources"],
        json!({
            "cpu_millis": 2500, "memory_bytes": 268_435_456,
            "cpu_request_millis": 1000, "memory_request_bytes": 268_435_456,
            "cpu_limit_millis": 2500, "memory_limit_bytes": 268_435_456,
        })
    );
    assert_eq!(job["manifest"]["kind"], "Job");
    // Neither a secret nor a file's content reaches the rules, and so neither reaches a record of them.
    let text = input.to_string();
    for secret in ["hunter2", "print()", "cHJpbnQoKQ"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn every_field_is_there_when_little_is_given() {
    let input = of(&Caller::at_command_line(), json!({ "image": "busybox:1.36", "command": ["true"] }));
    valid(&validator(INPUT), &input);
    assert_eq!(input["caller"]["client"], Value::Null);
    assert_eq!(input["job"]["resources"]["cpu_limit_millis"], Value::Null);
    assert_eq!(input["job"]["resources"]["cpu_millis"], 1000);
    assert_eq!(input["job"]["clone"], Value::Null);
    assert_eq!((&input["kubectl"], &input["handle"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_clone_becomes_facts() {
    let arguments = json!({
        "image": "busybox:1.36", "command": ["true"],
        "clone": { "repo_url": "https://GitHub.com/My-Org/Tool.git", "ref": "v1", "subdir": "src" },
    });
    let input = of(&Caller::at_command_line(), arguments);
    valid(&validator(INPUT), &input);
    assert_eq!(
        input["job"]["clone"],
        json!({
            "host": "github.com", "port": 443, "path": "/My-Org/Tool.git", "repository": "My-Org/Tool",
            "ref": "v1", "commit": false, "subdir": "src", "submodules": [],
        })
    );
    assert_eq!((&input["job"]["cache"], &input["job"]["extra_env_names"]), (&Value::Null, &json!([])));
}

/// `submodules` and `cache` where the policy's data gives them.
#[test]
fn what_a_role_gives_becomes_facts() {
    let data = std::str::from_utf8(include_bytes!("../../../policies/data.yaml")).unwrap();
    let data = data
        .replace("    hosts: []", "    hosts: [github.com/my-org]")
        .replace("    submodules: false", "    submodules: true")
        .replace("    access: write", "    access: none")
        .replace("roles: {}", "roles: {builder: {cache: read, clone_hosts: ['github.com:8443']}}");
    let rules = b"package kubepermit\ndecision := {\"allow\": true, \"deny\": [], \"warn\": []}";
    let bundle = Bundle::from_files([("main.rego", &rules[..]), ("data.yaml", data.as_bytes())]).unwrap();
    let policy = crate::policy::Policy::from_bundle(&bundle, &Overlay::default()).unwrap();
    let mut jobs = settings();
    jobs.extras.cache =
        Some(crate::plan::CacheVolume { claim: "modules".to_owned(), mount_path: "/cache".to_owned() });
    let kubectl = crate::plan::KubectlSettings {
        context: "test".into(),
        cache_dir: "/private/cache".into(),
        request_timeout_s: 20,
    };
    let settings = crate::plan::Settings { jobs, kubectl };
    let call = call(json!({
        "image": "busybox:1.36", "command": ["true"],
        "clone": { "repo_url": "https://github.com:8443/a/b", "ref": "main" },
    }));
    for (roles, cache, submodules) in [
        (vec![], Value::Null, json!([])),
        (
            vec!["builder".to_owned()],
            json!({ "claim": "modules", "mount_path": "/cache", "read_only": true }),
            json!(["https://github.com:8443/"]),
        ),
    ] {
        let plan = plan(&call, &settings, policy.rights_for(&roles)).unwrap();
        let input =
            document(&Caller::at_command_line(), &call, &plan, "2026-01-02T03:04:05Z".parse().unwrap());
        valid(&validator(INPUT), &input);
        assert_eq!(input["job"]["cache"], cache, "{roles:?}");
        assert_eq!(input["job"]["clone"]["submodules"], submodules, "{roles:?}");
    }
}

#[test]
fn a_read_becomes_facts() {
    let arguments = json!({ "namespace": "dev", "kind": "deployment", "name": "web" });
    let input = reads::document("describe_resource", arguments.clone());
    valid(&validator(INPUT), &input);
    assert_eq!(input["tool"], "describe_resource");
    assert_eq!(input["arguments"], arguments);
    assert_eq!((&input["job"], &input["handle"]), (&Value::Null, &Value::Null));
    assert_eq!(
        input["kubectl"],
        json!({
            "verb": "describe",
            "resource": "deployments",
            "group": "apps",
            "namespace": "dev",
            "all_namespaces": false,
            "flags": ["--context", "--namespace", "--request-timeout", "--cache-dir", "--show-events"],
            "argv": [
                "describe", "--context=test", "--namespace=dev", "--request-timeout=20s",
                "--cache-dir=/private/cache", "--show-events=true", "--", "deployments.apps", "web",
            ],
        })
    );

    let input = reads::document("list_events", json!({}));
    valid(&validator(INPUT), &input);
    assert_eq!(input["kubectl"]["namespace"], Value::Null);
    assert_eq!(input["kubectl"]["all_namespaces"], true);
    // What was not written is there and null.
    assert_eq!(
        input["arguments"],
        json!({ "namespace": null, "warnings_only": false, "for_kind": null, "for_name": null })
    );
}

#[test]
fn a_fraction_of_a_second_is_rounded_up() {
    for (millis, whole) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
        assert_eq!(seconds(Duration::from_millis(millis)), whole);
    }
}

/// A schema that accepts everything would make the tests above empty.
#[test]
fn the_input_schema_is_closed() {
    let validator = validator(INPUT);
    let good = of(&Caller::at_command_line(), json!({ "image": "busybox:1.36", "command": ["true"] }));
    let read = reads::document("pod_logs", json!({ "namespace": "dev", "name": "a" }));
    let job = ["", "/request", "/caller", "/job", "/job/image", "/job/files", "/job/resources"];
    for (good, path) in job.map(|path| (&good, path)).into_iter().chain([(&read, "/kubectl")]) {
        let mut more = good.clone();
        more.pointer_mut(path).unwrap()["extra"] = json!(1);
        assert!(!validator.is_valid(&more), "{path}");
        let keys: Vec<_> = good.pointer(path).unwrap().as_object().unwrap().keys().cloned().collect();
        for key in keys {
            let mut less = good.clone();
            less.pointer_mut(path).unwrap().as_object_mut().unwrap().remove(&key);
            assert!(!validator.is_valid(&less), "{path}/{key}");
        }
    }
}

#[test]
fn what_the_shipped_rules_say_is_a_decision() {
    let overlay = Overlay { images: Some(vec!["python:3.12-slim".to_owned()]), ..Overlay::default() };
    let bundle = Bundle::read(&BundleSource::BuiltIn).unwrap();
    let config = Config::parse(bundle.data().unwrap(), &overlay).unwrap();
    valid(&validator(DATA), &config.document);
    let engine = compile(bundle.rules(), config.document.into()).unwrap();
    let caller = Caller::at_command_line();
    for arguments in [
        json!({ "image": "python", "command": ["true"] }),
        json!({ "image": "evil", "command": ["true"], "timeout_s": 700, "env": { "KUBEPERMIT_A": "" } }),
    ] {
        let mut engine = engine.clone();
        engine.set_input(of(&caller, arguments).into());
        let decision = engine.eval_rule("data.kubepermit.decision".to_owned()).unwrap();
        valid(&validator(DECISION), &serde_json::to_value(&decision).unwrap());
    }
}

/// The unit tests in Rego must speak of the documents that the rules really get.
#[test]
fn the_rego_tests_use_the_real_shapes() {
    let bundle = Bundle::read(&BundleSource::BuiltIn).unwrap();
    let mut engine = compile(bundle.modules(), regorus::Value::new_object()).unwrap();
    let rules = [
        ("base_input", INPUT),
        ("base_read", INPUT),
        ("reading_everywhere", INPUT),
        ("reading_logs", INPUT),
        ("base_config", DATA),
    ];
    for (rule, schema) in rules {
        let value = engine.eval_rule(format!("data.kubepermit_test.{rule}")).unwrap();
        valid(&validator(schema), &serde_json::to_value(&value).unwrap());
    }
}

#[test]
fn a_look_at_a_job_becomes_facts_without_its_token() {
    let token = "job-0123456789abcdef0123456789abcdef";
    for (tool, operation, arguments, wait_s) in [
        ("fetch_job", "fetch", json!({ "job_token": token, "wait_s": 500 }), 120),
        ("cancel_job", "cancel", json!({ "job_token": token }), 0),
    ] {
        let (call, plan) = reads::planned(tool, arguments).unwrap();
        let input = document(&Caller::over_stdio(None), &call, &plan, Timestamp::UNIX_EPOCH);
        valid(&validator(INPUT), &input);
        let digest = crate::ids::JobToken::parse(token).unwrap().digest();
        assert_eq!(
            input["handle"],
            json!({ "operation": operation, "wait_s": wait_s, "token_digest": digest })
        );
        assert_eq!((&input["job"], &input["kubectl"]), (&Value::Null, &Value::Null));
        assert!(!input.to_string().contains("0123456789"), "{input}");
    }
    let (call, plan) =
        reads::planned("submit_job", json!({ "image": "busybox:1.36", "command": ["true"] })).unwrap();
    let input = document(&Caller::over_stdio(None), &call, &plan, Timestamp::UNIX_EPOCH);
    valid(&validator(INPUT), &input);
    assert_eq!(input["job"]["background"], true);
    assert!(!input.to_string().contains(call.new_token().unwrap().reveal()));
}
