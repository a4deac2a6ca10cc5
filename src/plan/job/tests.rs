//! Whole plans: amounts, redaction, refusals, and the properties of every manifest that can come out.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::schema::InputFile;

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
    }
}

pub(crate) fn call() -> RunJob {
    RunJob {
        image: "python:3.12-slim".to_owned(),
        command: vec!["python".to_owned(), "gen.py".to_owned()],
        ..RunJob::default()
    }
}

fn planned(job: &RunJob) -> JobPlan {
    plan(DecisionId::mint(), job, &settings(), &AllowedImages::default()).unwrap()
}

fn refused(job: &RunJob) -> Vec<Reason> {
    plan(DecisionId::mint(), job, &settings(), &AllowedImages::default())
        .unwrap_err()
        .reasons
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
        limits: RequestedLimits {
            cpu: Some("500m".to_owned()),
            memory: Some("256Mi".to_owned()),
        },
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
