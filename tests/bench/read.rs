//! Our own share of a read: a fake kubectl that prints 100 pods, started directly and through the whole gateway.
//!
//! Both are measured in turns in the same run, so that the difference is what the gateway adds: schema, plan,
//! policy, two audit records, the spawn contract, the table, and cleaning. The last line tells it; the goal is
//! less than 5 ms. A real kubectl takes 70 to 200 ms for the same read.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark, not an interface")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use kubepermit::app::App;
use kubepermit::caller::Caller;
use kubepermit::config::{Config, Environment, Setting, Typed};
use kubepermit::pipeline::{Gateway, Request};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A shell script that prints a list of 100 pods.
fn fake(folder: &Path) -> PathBuf {
    let pods: Vec<_> = (0..100)
        .map(|n| {
            json!({
                "metadata": { "name": format!("web-{n}"), "namespace": "dev", "creationTimestamp": "2026-01-01T00:00:00Z",
                    "annotations": { "padding": "x".repeat(4000) } },
                "spec": { "nodeName": "n1", "containers": [{ "name": "main" }] },
                "status": { "phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
                    { "name": "main", "ready": true, "restartCount": 0, "state": { "running": {} } }] },
            })
        })
        .collect();
    let list = folder.join("pods.json");
    std::fs::write(&list, json!({ "kind": "List", "apiVersion": "v1", "items": pods }).to_string()).unwrap();
    let program = folder.join("kubectl");
    std::fs::write(&program, format!("#!/bin/sh\nexec /bin/cat '{}'\n", list.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

async fn gateway(program: &Path, audit: &Path) -> Arc<Gateway> {
    let values = [
        (Setting::Audit, format!("{}/", audit.display())),
        (Setting::AllowNamespaces, "dev".to_owned()),
        (Setting::Kubectl, program.display().to_string()),
    ];
    let typed = Typed { values: values.into(), ..Typed::default() };
    App::start(Config::read(&typed, &Environment::default()).unwrap()).await.unwrap().gateway()
}

async fn direct(program: &Path) {
    let output = tokio::process::Command::new(program)
        .args(["get", "--namespace=dev", "--output=json", "--", "pods"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success());
}

async fn through(gateway: &Arc<Gateway>) {
    let request = Request {
        caller: Caller::at_command_line(),
        tool: "list_pods".to_owned(),
        arguments: json!({ "namespace": "dev" }),
        fault: None,
    };
    let reply = gateway.call(request, Box::new(|_| {}), CancellationToken::new()).await;
    assert!(reply.text().unwrap().contains("web-99"));
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn reads(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = fake(folder.path());
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let on_disk = runtime.block_on(gateway(&program, &folder.path().join("audit")));
    let off_disk = runtime.block_on(gateway(&program, &memory.path().join("audit")));

    let mut group = c.benchmark_group("list_pods, fake kubectl");
    group.sample_size(50);
    group.bench_function("started directly", |b| b.to_async(&runtime).iter(|| direct(&program)));
    group.bench_function("gateway, records on disk", |b| b.to_async(&runtime).iter(|| through(&on_disk)));
    group.bench_function("gateway, records in memory", |b| b.to_async(&runtime).iter(|| through(&off_disk)));
    group.finish();

    let (mut alone, mut disk, mut null) = (Vec::new(), Vec::new(), Vec::new());
    runtime.block_on(async {
        for _ in 0..200 {
            let start = Instant::now();
            direct(&program).await;
            alone.push(start.elapsed());
            let start = Instant::now();
            through(&on_disk).await;
            disk.push(start.elapsed());
            let start = Instant::now();
            through(&off_disk).await;
            null.push(start.elapsed());
        }
    });
    let (alone, disk, null) = (median(&mut alone), median(&mut disk), median(&mut null));
    println!(
        "a read, medians of 200 in turns: kubectl alone {alone:.1?}, gateway {disk:.1?} (records on disk), \
         {null:.1?} (records in memory); our share: {:.1?} and {:.1?}",
        disk.saturating_sub(alone),
        null.saturating_sub(alone),
    );
}

criterion_group!(benches, reads);
criterion_main!(benches);
