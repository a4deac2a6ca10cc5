//! How long a decision takes: from a plan to a verdict, with 10 and with 100,000 images listed.
//!
//! The rule files look images up by key, so both figures should be the same. The engine is cloned for each
//! decision, as in the program.
#![expect(clippy::unwrap_used, reason = "a benchmark, not an interface")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use kubepermit::caller::Caller;
use kubepermit::ids::DecisionId;
use kubepermit::plan::{self, JobExtras, JobSettings, KubectlSettings, Plan, PodProfile, Settings};
use kubepermit::policy::{BundleSource, Overlay, Policy, Question, Verdict};
use kubepermit::schema::{Catalogue, ToolCall};
use serde_json::json;

fn policy(images: usize) -> Policy {
    let mut listed: Vec<String> =
        (1..images).map(|n| format!("registry.example.com/team-{n}/tool:{n}")).collect();
    listed.push("python:3.12-slim".to_owned());
    let overlay = Overlay { images: Some(listed), ..Overlay::default() };
    Policy::load(&BundleSource::BuiltIn, &overlay).unwrap()
}

fn call(catalogue: &Catalogue, image: &str) -> ToolCall {
    let arguments = json!({
        "image": image, "command": ["python", "gen.py"], "env": { "MODE": "fast" }, "timeout_s": 30,
        "files": [{ "path": "gen.py", "content_b64": "cHJpbnQoMSk=" }],
        "limits": { "cpu": "500m", "memory": "256Mi" },
    });
    catalogue.admit(DecisionId::mint(), "run_job", arguments).unwrap()
}

fn settings() -> Settings {
    let jobs = JobSettings {
        namespace: "mcp-ephemeral".to_owned(),
        instance: "bench".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 1000,
        default_memory_bytes: 512 << 20,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
        extras: JobExtras::default(),
    };
    let kubectl = KubectlSettings {
        context: "bench".to_owned(),
        cache_dir: "/nonexistent".to_owned(),
        request_timeout_s: 20,
    };
    Settings { jobs, kubectl }
}

fn judge(policy: &Policy, caller: &Caller, call: &ToolCall, plan: Plan) -> Verdict {
    policy.judge(Question { caller, call, plan, time: Timestamp::now() })
}

fn decisions(c: &mut Criterion) {
    let catalogue = Catalogue::load().unwrap();
    let caller = Caller::at_command_line();
    let mut group = c.benchmark_group("policy stage");
    for images in [10, 100_000] {
        let policy = policy(images);
        for (what, image) in [("allowed", "python:3.12-slim"), ("denied", "evil:1")] {
            let call = call(&catalogue, image);
            let plan = || plan::plan(&call, &settings(), &policy.images_for(&[])).unwrap();
            assert_eq!(
                matches!(judge(&policy, &caller, &call, plan()), Verdict::Allow(_)),
                what == "allowed"
            );
            group.bench_function(format!("{what}, {images} images"), |b| {
                b.iter_batched(plan, |plan| judge(&policy, &caller, &call, plan), BatchSize::SmallInput);
            });
        }
    }
    group.finish();
}

fn plans(c: &mut Criterion) {
    let catalogue = Catalogue::load().unwrap();
    let policy = policy(100_000);
    let images = policy.images_for(&[]);
    let settings = settings();
    c.bench_function("schema stage", |b| b.iter(|| call(&catalogue, "python:3.12-slim")));
    let call = call(&catalogue, "python:3.12-slim");
    c.bench_function("plan stage, 100000 images", |b| {
        b.iter(|| plan::plan(&call, &settings, &images).unwrap())
    });
}

criterion_group!(benches, decisions, plans);
criterion_main!(benches);
