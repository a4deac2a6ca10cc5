//! The stage as a whole: real calls, and each way in which an evaluation can fail.

mod hostile_text;
mod kubectl_rows;
pub(crate) mod reads;

use std::thread;

use serde_json::{Value, json};

use super::*;
use crate::ids::DecisionId;
use crate::plan::{JobExtras, JobSettings, plan};
use crate::schema::{Catalogue, ToolCall};

const DATA: &[u8] = include_bytes!("../../policies/data.yaml");

fn overlay(images: &[&str]) -> Overlay {
    Overlay { images: Some(images.iter().map(ToString::to_string).collect()), ..Overlay::default() }
}

fn shipped(overlay: &Overlay) -> Policy {
    Policy::load(&BundleSource::BuiltIn, overlay).unwrap()
}

/// A bundle of one module, in the shipped data.
fn of(rules: &str) -> Policy {
    let bundle = Bundle::from_files([("main.rego", rules.as_bytes()), ("data.yaml", DATA)]).unwrap();
    Policy::from_bundle(&bundle, &Overlay::default()).unwrap()
}

pub(crate) fn call(arguments: Value) -> ToolCall {
    Catalogue::load().unwrap().admit(DecisionId::mint(), "run_job", arguments).unwrap()
}

pub(crate) fn settings() -> JobSettings {
    JobSettings {
        namespace: "mcp-ephemeral".to_owned(),
        instance: "test-0".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 1000,
        default_memory_bytes: 512 * 1024 * 1024,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
        extras: JobExtras {
            clone_image: Some("alpine/git:latest".to_owned()),
            clone_secret: Some("git-tokens".to_owned()),
            ..JobExtras::default()
        },
    }
}

fn judge(policy: &Policy, arguments: Value) -> Verdict {
    let caller = Caller::over_stdio(None);
    let call = call(arguments);
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
        &policy.images_for(caller.roles()),
    )
    .unwrap();
    policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::UNIX_EPOCH })
}

fn denial(policy: &Policy) -> crate::refusal::Reason {
    let decision = policy.decide(json!({}));
    assert!(!decision.allow);
    assert_eq!(decision.deny.len(), 1, "{:?}", decision.deny);
    decision.deny.into_iter().next().unwrap()
}

#[test]
fn a_caller_has_the_largest_number_of_jobs_that_applies_to_it() {
    let data = String::from_utf8(DATA.to_vec()).unwrap();
    let with = |limits: &str| {
        let data = data.replacen("  limits: {}", &format!("  limits: {limits}"), 1).replacen(
            "  roles: {}",
            "  roles: {a: {jobs_per_caller: 1}, b: {jobs_per_caller: 5}, c: {}}",
            1,
        );
        let rules: &[u8] = b"package kubepermit\ndecision := {}";
        let bundle = Bundle::from_files([("main.rego", rules), ("data.yaml", data.as_bytes())]).unwrap();
        let policy = Policy::from_bundle(&bundle, &Overlay::default()).unwrap();
        move |roles: &[&str]| {
            policy.jobs_per_caller(&roles.iter().map(ToString::to_string).collect::<Vec<_>>())
        }
    };
    let bounded = with("{jobs_per_caller: 3}");
    for (roles, most) in [(&[][..], 3), (&["a"], 3), (&["b"], 5), (&["a", "b"], 5), (&["c"], 3), (&["?"], 3)]
    {
        assert_eq!(bounded(roles), Some(most), "{roles:?}");
    }
    let unbounded = with("{}");
    for (roles, most) in [(&[][..], None), (&["c"], None), (&["a"], Some(1)), (&["a", "b"], Some(5))] {
        assert_eq!(unbounded(roles), most, "{roles:?}");
    }
}

#[test]
fn a_policy_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Policy>();
}

#[test]
fn the_shipped_bundle_lists_no_image() {
    let policy = shipped(&Overlay::default());
    let Verdict::Deny { plan: Plan::Job(job), decision } =
        judge(&policy, json!({ "image": "busybox:1.36", "command": ["true"] }))
    else {
        panic!("allowed")
    };
    // The plan comes back for the record.
    assert_eq!(job.image().requested, "busybox:1.36");
    assert_eq!(decision.deny[0].code, "images.not_listed");
    assert_eq!(decision.deny[0].field, "/image");
    assert_eq!(decision.revision, policy.revision());
}

/// The example call of the reference server's README, with its defaults.
#[test]
fn the_reference_servers_example_is_allowed_once_its_image_is_listed() {
    let arguments = json!({
        "image": "python:3.12-slim",
        "command": ["python", "gen.py"],
        "files": [{ "path": "gen.py", "content_b64": "cHJpbnQoKQ==" }],
        "limits": { "cpu": "500m", "memory": "256Mi" },
        "timeout_s": 30,
    });
    let Verdict::Allow(permit) = judge(&shipped(&overlay(&["python:3.12-slim"])), arguments) else {
        panic!("denied")
    };
    assert!(permit.decision().allow && permit.decision().deny.is_empty());
}

#[test]
fn every_reason_names_its_argument() {
    let arguments = json!({
        "image": "evil",
        "command": ["true"],
        "env": { "KUBEPERMIT_X": "x" },
        "limits": { "cpu": "5", "memory": "5Gi" },
        "timeout_s": 601,
    });
    let Verdict::Deny { decision, .. } = judge(&shipped(&overlay(&["busybox:1.36"])), arguments) else {
        panic!("allowed")
    };
    let found: Vec<_> = decision.deny.iter().map(|r| (r.code.as_str(), r.field.as_str())).collect();
    assert_eq!(
        found,
        [
            ("env.reserved", "/env/KUBEPERMIT_X"),
            ("images.not_listed", "/image"),
            ("resources.cpu", "/limits/cpu"),
            ("resources.memory", "/limits/memory"),
            ("timeouts.ceiling", "/timeout_s"),
        ]
    );
    assert_eq!(decision.deny[1].hint, "use one of: busybox:1.36");
}

#[test]
fn a_short_name_stands_for_the_listed_reference_of_a_role() {
    let data =
        str::from_utf8(DATA).unwrap().replace("roles: {}", "roles: {builder: {images: [golang:1.26]}}");
    let rules = "package kubepermit\ndecision := 1\n";
    let bundle =
        Bundle::from_files([("main.rego", rules.as_bytes()), ("data.yaml", data.as_bytes())]).unwrap();
    let policy = Policy::from_bundle(
        &bundle,
        &Overlay { extra_images: vec!["busybox:1.36".to_owned()], ..Overlay::default() },
    )
    .unwrap();
    let listing = |roles: &[&str]| {
        let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
        policy.images_for(&roles).listing()
    };
    assert_eq!(listing(&[]), ["busybox:1.36"]);
    assert_eq!(listing(&["reader"]), ["busybox:1.36"]);
    assert_eq!(listing(&["reader", "builder"]), ["busybox:1.36", "golang:1.26"]);
}

// The five ways in which a decision fails, each really produced.

#[test]
fn an_undefined_decision_denies() {
    let policy = of(
        "package kubepermit\ndecision := {\"allow\": true, \"deny\": [], \"warn\": []} if input.arguments.never",
    );
    assert_eq!(denial(&policy).code, "policy.undefined");
}

#[test]
fn an_error_in_the_rules_denies_and_names_the_place() {
    // A built-in that is not strict would be undefined here, and the `deny` would vanish.
    let policy = of("package kubepermit\n\
        deny contains {\"code\": sprintf(\"%d\", [1.5])} if true\n\
        decision := {\"allow\": count(deny) == 0, \"deny\": [], \"warn\": []}");
    let reason = denial(&policy);
    assert_eq!(reason.code, "policy.error");
    assert!(reason.message.contains("main.rego:2: "), "{}", reason.message);
}

#[test]
fn two_values_for_one_decision_deny() {
    let policy = of("package kubepermit\n\
        decision := {\"allow\": true, \"deny\": [], \"warn\": []}\n\
        decision := {\"allow\": false, \"deny\": [], \"warn\": []} if true");
    assert_eq!(denial(&policy).code, "policy.error");
}

#[test]
fn a_loop_is_ended_by_the_engines_own_clock() {
    let policy = of("package kubepermit\n\
        decision := {\"allow\": true, \"deny\": [], \"warn\": []} if {\n\
        count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a == b]) > 0 }")
    .with_time_limit(Duration::from_millis(50));
    assert_eq!(denial(&policy).code, "policy.timeout");
    // Its thread ends too. Without the engine's clock it would run for many seconds more.
    let start = Instant::now();
    while policy.evaluator.late() > 0 {
        assert!(start.elapsed() < Duration::from_secs(2));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_built_in_that_hangs_is_answered_on_time() {
    let mut policy = of("package kubepermit\ndecision := 1 if count(input) > 0");
    policy.engine = hanging_engine();
    let policy = policy.with_time_limit(Duration::from_millis(50));
    let start = Instant::now();
    assert_eq!(denial(&policy).code, "policy.timeout");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn evaluations_that_hang_do_not_pile_up() {
    let mut policy = of("package kubepermit\ndecision := 1");
    policy.engine = hanging_engine();
    let policy = policy.with_time_limit(Duration::from_millis(20));
    for _ in 0..8 {
        assert_eq!(denial(&policy).code, "policy.timeout");
    }
    // The ninth is refused before it takes a thread: at once.
    let policy = policy.with_time_limit(Duration::from_secs(60));
    let start = Instant::now();
    assert_eq!(denial(&policy).code, "policy.timeout");
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// An engine whose decision sleeps for longer than the tests wait, and then allows.
fn hanging_engine() -> regorus::Engine {
    extended("hang", |_| {
        thread::sleep(Duration::from_secs(3));
        Ok(regorus::Value::from(true))
    })
}

#[test]
fn a_panic_in_the_engine_denies() {
    let mut policy = of("package kubepermit\ndecision := 1");
    policy.engine = extended("crash", |_| panic!("made by a test"));
    assert_eq!(denial(&policy).code, "policy.panic");
}

fn extended<F>(name: &str, extension: F) -> regorus::Engine
where
    F: FnMut(Vec<regorus::Value>) -> Result<regorus::Value, Box<dyn std::error::Error>>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let mut extension = extension;
    let mut engine = regorus::Engine::new();
    let call =
        move |values| extension(values).map_err(|error| std::io::Error::other(error.to_string()).into());
    engine.add_extension(format!("test.{name}"), 0, Box::new(call)).unwrap();
    let rules =
        format!("package kubepermit\ndecision := {{\"allow\": test.{name}(), \"deny\": [], \"warn\": []}}");
    engine.add_policy("main.rego".to_owned(), rules).unwrap();
    engine
}

#[test]
fn a_decision_of_another_shape_denies() {
    let cases = [
        "true",
        "1",
        "[]",
        "{}",
        r#"{"allow": true}"#,
        r#"{"allow": true, "deny": []}"#,
        r#"{"allow": true, "warn": []}"#,
        r#"{"deny": [], "warn": []}"#,
        r#"{"allow": true, "deny": [], "warn": [], "more": 1}"#,
        r#"{"allow": "true", "deny": [], "warn": []}"#,
        r#"{"allow": 1, "deny": [], "warn": []}"#,
        r#"{"allow": null, "deny": [], "warn": []}"#,
        r#"{"allow": true, "deny": null, "warn": []}"#,
        r#"{"allow": true, "deny": {}, "warn": []}"#,
        r#"{"allow": true, "deny": set(), "warn": []}"#,
        r#"{"allow": true, "deny": "", "warn": []}"#,
        r#"{"allow": true, "deny": [], "warn": ["text"]}"#,
        r#"{"allow": false, "deny": ["text"], "warn": []}"#,
        r#"{"allow": false, "deny": [{"code": "a", "msg": "b"}], "warn": []}"#,
        r#"{"allow": false, "deny": [{"code": "a", "msg": "b", "field": "", "hint": "", "x": 1}], "warn": []}"#,
        // It denies and does not say why.
        r#"{"allow": false, "deny": [], "warn": []}"#,
    ];
    for case in cases {
        let policy = of(&format!("package kubepermit\ndecision := {case}"));
        assert_eq!(denial(&policy).code, "policy.shape", "{case}");
    }
}

#[test]
fn an_entry_in_deny_counts_whatever_allow_says() {
    let policy = of("package kubepermit\n\
        decision := {\"allow\": true, \"warn\": [],\n\
        \"deny\": [{\"code\": \"a.b\", \"msg\": \"c\", \"field\": \"\", \"hint\": \"\"}]}");
    assert_eq!(denial(&policy).code, "a.b");
}

#[test]
fn the_right_shape_allows() {
    let policy = of("package kubepermit\ndecision := {\"allow\": true, \"deny\": [], \"warn\": []}");
    let decision = policy.decide(json!({}));
    assert!(decision.allow && decision.deny.is_empty(), "{:?}", decision.deny);
}

#[test]
fn the_revision_is_that_of_files_and_overlay() {
    let of = |rules: &str, path: &str, overlay: &Overlay| {
        let files = [(path, rules.as_bytes()), ("data.yaml", DATA)];
        Policy::from_bundle(&Bundle::from_files(files).unwrap(), overlay).unwrap().revision().to_owned()
    };
    let rules = "package kubepermit\ndecision := 1\n";
    let first = of(rules, "a.rego", &Overlay::default());
    assert_eq!(first.len(), 64);
    assert_eq!(first, of(rules, "a.rego", &Overlay::default()));
    assert_ne!(first, of(&format!("{rules}\n"), "a.rego", &Overlay::default()));
    assert_ne!(first, of(rules, "b.rego", &Overlay::default()));
    // Set but empty is not the same as not set.
    assert_ne!(first, of(rules, "a.rego", &overlay(&[])));
}
