//! Whole plans: amounts, redaction, refusals, and the properties of every manifest that can come out.

mod every_manifest;
mod extras;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::recover::NotRecoverable;
use super::*;
use crate::plan::AllowedImages;
use crate::plan::manifest::{LABEL_OWNER, LABEL_PROCESS, LABEL_TOKEN};
use crate::schema::{CloneRequest, InputFile, RequestedLimits};

fn settings() -> JobSettings {
    JobSettings {
        namespace: "mcp-ephemeral".to_owned(),
        instance: "test-0".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 1000,
        default_memory_bytes: 512 * 1024 * 1024,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
        extras: JobExtras::default(),
    }
}

fn call() -> RunJob {
    RunJob {
        image: "python:3.12-slim".to_owned(),
        command: vec!["python".to_owned(), "gen.py".to_owned()],
        ..RunJob::default()
    }
}

fn plan(id: DecisionId, job: &RunJob, settings: &JobSettings, rights: &Rights) -> Result<JobPlan, Refusal> {
    plan_for(Whose { id, handle: None, process: None }, job, settings, rights)
}

fn planned(job: &RunJob) -> JobPlan {
    plan(DecisionId::mint(), job, &settings(), &Rights::from(&AllowedImages::default())).unwrap()
}

fn refused(job: &RunJob) -> Vec<Reason> {
    plan(DecisionId::mint(), job, &settings(), &Rights::from(&AllowedImages::default())).unwrap_err().reasons
}

fn json_of(plan: &JobPlan) -> Value {
    serde_json::to_value(plan.manifest()).unwrap()
}

/// The example call of the reference server's README, with that server's defaults (1 cpu, 512Mi).
#[test]
fn the_reference_servers_example_requests_no_more_than_its_limits() {
    let job = RunJob {
        files: vec![InputFile {
            path: "gen.py".to_owned(),
            content: Bytes::from_static(b"print()"),
            mode: None,
        }],
        limits: RequestedLimits { cpu: Some("500m".to_owned()), memory: Some("256Mi".to_owned()) },
        timeout_s: Some(30),
        ..call()
    };
    let manifest = json_of(&planned(&job));
    let main = manifest.pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(main["name"], "main");
    assert_eq!(main["image"], "docker.io/library/python:3.12-slim");
    assert_eq!(
        main["resources"]["requests"],
        json!({ "cpu": "500m", "memory": "256Mi", "ephemeral-storage": "64Mi" })
    );
    assert_eq!(
        main["resources"]["limits"],
        json!({ "cpu": "500m", "memory": "256Mi", "ephemeral-storage": "2Gi" })
    );
}

/// `requests.cpu = min(default, limit)`; a memory limit is the request, up and down.
#[test]
fn requests_are_the_defaults_and_never_above_limits() {
    const MI: u64 = 1024 * 1024;
    let rows = [
        (None, None, 1000, 512 * MI),
        (Some("4"), Some("4Gi"), 1000, 4096 * MI),
        (Some("250m"), None, 250, 512 * MI),
        (None, Some("64Mi"), 1000, 64 * MI),
        (Some("1"), Some("512Mi"), 1000, 512 * MI),
    ];
    for (cpu, memory, cpu_request, memory_request) in rows {
        let job = RunJob {
            limits: RequestedLimits { cpu: cpu.map(str::to_owned), memory: memory.map(str::to_owned) },
            ..call()
        };
        let plan = planned(&job);
        let resources = plan.resources();
        assert_eq!(resources.cpu_request_millis, cpu_request, "{cpu:?}");
        assert_eq!(resources.memory_request_bytes, memory_request, "{memory:?}");
        assert_eq!(resources.cpu_limit_millis.is_some(), cpu.is_some());
        assert_eq!(resources.memory_limit_bytes.is_some(), memory.is_some());
    }
}

#[test]
fn every_fault_of_a_call_is_named_at_once() {
    let job = RunJob {
        image: "Bad Image".to_owned(),
        command: vec![String::new()],
        files: vec![InputFile { path: "../x".to_owned(), content: Bytes::new(), mode: Some("9".to_owned()) }],
        env: BTreeMap::from([("1".to_owned(), String::new())]),
        limits: RequestedLimits { cpu: Some("1K".to_owned()), memory: Some("0".to_owned()) },
        timeout_s: Some(u64::MAX),
        workdir: Some("/".to_owned()),
        artifacts: Some(vec!["out".to_owned(), "../out".to_owned()]),
        clone: Some(CloneRequest {
            repo_url: "http://a/b".to_owned(),
            reference: "-x".to_owned(),
            subdir: Some("..".to_owned()),
        }),
    };
    let reasons = refused(&job);
    let named: Vec<(&str, &str)> =
        reasons.iter().map(|reason| (reason.code.as_str(), reason.field.as_str())).collect();
    assert_eq!(
        named,
        [
            ("image.invalid", "/image"),
            ("command.invalid", "/command/0"),
            ("env.name", "/env/1"),
            ("files.path", "/files/0/path"),
            ("files.mode", "/files/0/mode"),
            ("workdir.invalid", "/workdir"),
            ("artifacts.pattern", "/artifacts/1"),
            ("timeout.invalid", "/timeout_s"),
            ("limits.invalid", "/limits/cpu"),
            ("limits.invalid", "/limits/memory"),
            ("clone.unavailable", "/clone"),
            ("clone.url", "/clone/repo_url"),
            ("clone.ref", "/clone/ref"),
            ("clone.subdir", "/clone/subdir"),
        ]
    );
    assert!(reasons.iter().all(|reason| !reason.hint.is_empty() && !reason.message.is_empty()));
}

#[test]
fn settings_that_cannot_be_used_refuse_every_call() {
    let with = |change: fn(&mut JobSettings)| {
        let mut settings = settings();
        change(&mut settings);
        let refusal = plan(DecisionId::mint(), &call(), &settings, &Rights::from(&AllowedImages::default()))
            .unwrap_err();
        refusal.reasons.into_iter().map(|reason| reason.code).collect::<Vec<_>>()
    };
    assert_eq!(with(|settings| settings.helper_image = "Bad".to_owned()), ["plan.helper_image"]);
    assert_eq!(with(|settings| settings.user = 0), ["plan.pod_security"]);
    assert_eq!(with(|settings| settings.default_timeout_s = u64::MAX), ["timeout.invalid"]);
}

#[test]
fn a_manifest_that_no_api_server_takes_is_refused() {
    let job = RunJob { command: vec!["a".repeat(100_000); 11], ..call() };
    assert_eq!(refused(&job).first().map(|reason| reason.code.as_str()), Some("plan.too_large"));
}

#[test]
fn the_digest_is_of_the_bytes_that_are_sent() {
    let plan = planned(&call());
    let sent = serde_json::to_vec(plan.manifest()).unwrap();
    assert_eq!(plan.manifest_sha256(), hex::encode(Sha256::digest(sent)));
}

#[test]
fn the_view_holds_no_environment_value_and_is_otherwise_the_manifest() {
    let job = RunJob { env: BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]), ..call() };
    let plan = planned(&job);
    let view = plan.manifest_view().clone();
    assert!(!view.to_string().contains("s3cret"));
    let env = view.pointer("/spec/template/spec/containers/0/env").unwrap();
    // `printf %s s3cret | sha256sum`
    let digest = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
    assert_eq!(env[1], json!({ "name": "TOKEN", "value": { "sha256": digest, "len": 6 } }));

    let without_env = |mut manifest: Value| {
        *manifest.pointer_mut("/spec/template/spec/containers/0/env").unwrap() = Value::Null;
        manifest
    };
    assert_eq!(without_env(view), without_env(json_of(&plan)));
}

#[test]
fn what_the_policy_reads_is_what_was_planned() {
    let job = RunJob {
        env: BTreeMap::from([("B".to_owned(), "2".to_owned()), ("A".to_owned(), "1".to_owned())]),
        files: vec![
            InputFile { path: "a".to_owned(), content: Bytes::from_static(b"12345"), mode: None },
            InputFile {
                path: "b".to_owned(),
                content: Bytes::from_static(b"678"),
                mode: Some("755".to_owned()),
            },
        ],
        timeout_s: Some(5),
        workdir: Some("/src/".to_owned()),
        ..call()
    };
    let plan = planned(&job);
    assert_eq!(plan.namespace(), "mcp-ephemeral");
    assert_eq!(plan.job_name(), format!("kubepermit-{}", plan.id().hex()));
    assert_eq!(plan.env_names().collect::<Vec<_>>(), ["A", "B"]);
    assert_eq!((plan.files().len(), plan.file_bytes()), (2, 8));
    assert_eq!(plan.workdir(), "/src");
    assert_eq!(plan.timeout(), Duration::from_secs(5));
    assert_eq!(plan.image().requested, "python:3.12-slim");
}

/// What a Job in the background carries is enough to follow it, and holds neither token nor content.
#[test]
fn a_job_in_the_background_can_be_read_back() {
    let token = crate::ids::JobToken::mint();
    let key = HandleKey::new(&token, "0123456789abcdef0123456789abcdef");
    let process = ProcessId::mint();
    let id = DecisionId::mint();
    let job = RunJob {
        files: vec![InputFile {
            path: "in.txt".to_owned(),
            content: Bytes::from_static(b"CANARY"),
            mode: None,
        }],
        workdir: Some("/somewhere".to_owned()),
        timeout_s: Some(33),
        ..call()
    };
    let whose = Whose { id, handle: Some(&key), process: Some(&process) };
    let plan = plan_for(whose, &job, &settings(), &Rights::from(&AllowedImages::default())).unwrap();
    let text = serde_json::to_string(plan.manifest()).unwrap();
    for secret in [token.reveal(), "CANARY", "Q0FOQVJZ"] {
        assert!(!text.contains(secret), "{secret}");
    }
    let mut live = plan.manifest().clone();
    assert_eq!(RecoveredJob::read(live.clone()).unwrap_err(), NotRecoverable("UID"));
    live.metadata.uid = Some("u".to_owned());
    let recovered = RecoveredJob::read(live.clone()).unwrap();
    let again = recovered.plan();
    assert_eq!((again.id(), again.handle(), again.job_name()), (id, Some(&key), plan.job_name()));
    assert_eq!((again.workdir(), again.timeout().as_secs()), ("/somewhere", 33));
    assert_eq!((recovered.uid(), recovered.process()), ("u", &process));
    assert!(again.files().is_empty());
    assert!(recovered.is_input("in.txt", b"CANARY"));
    assert!(!recovered.is_input("in.txt", b"canary") && !recovered.is_input("other", b"CANARY"));
    // Half of an hour and more after the call, and not before the cluster's own deadline and TTL.
    let expires: jiff::Timestamp =
        live.metadata.annotations.as_ref().unwrap()["kubepermit.io/expires-at"].parse().unwrap();
    assert_eq!(expires.as_second() - i64::try_from(id.minted_at()).unwrap(), 33 + 420 + 300 + 600);
    for label in [LABEL_TOKEN, LABEL_OWNER, LABEL_PROCESS] {
        let mut broken = live.clone();
        broken.metadata.labels.as_mut().unwrap().insert(label.to_owned(), "x".to_owned());
        assert!(RecoveredJob::read(broken).is_err(), "{label}");
    }
}
