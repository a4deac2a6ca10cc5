//! The stage as a whole: the shipped bundle decides.

use serde_json::{Value, json};

use crate::policy::{BundleSource, Overlay, Policy};

fn input(image_key: &str) -> Value {
    json!({
        "schema": 1,
        "request": { "id": "0", "time": "2026-01-01T00:00:00Z" },
        "caller": { "name": "local", "roles": [], "transport": "stdio", "client": null },
        "tool": "run_job",
        "arguments": {},
        "job": {
            "namespace": "mcp-ephemeral",
            "image": { "requested": image_key, "key": image_key, "digest": null },
            "command": ["true"],
            "env_names": [],
            "files": { "count": 0, "bytes": 0 },
            "workdir": "/work",
            "timeout_s": 60,
            "resources": {
                "cpu_millis": 1000, "memory_bytes": 1024,
                "cpu_request_millis": 1000, "memory_request_bytes": 1024,
                "cpu_limit_millis": null, "memory_limit_bytes": null,
            },
            "clone": null, "manifest": null, "manifest_sha256": "",
        },
        "kubectl": null,
        "handle": null,
    })
}

#[test]
fn the_shipped_bundle_allows_no_image() {
    let policy = Policy::load(&BundleSource::BuiltIn, &Overlay::default()).unwrap();
    let decision = policy.decide(input("docker.io/library/busybox:1.36"));
    assert!(!decision.allow);
    let codes: Vec<_> = decision.deny.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["images.not_listed"], "{:?}", decision.deny);
}
