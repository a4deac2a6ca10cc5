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
use kubepermit::audit::{Audit, AuditOptions, AuditTarget};
use kubepermit::caller::Caller;
use kubepermit::executor::{
    Access, Cluster, ClusterSource, Executor, JobExecutor, JobLimits, KubectlExecutor, PrivateHome,
    ReadLimits, ReadSource, ReadTools,
};
use kubepermit::pipeline::{Gateway, Request};
use kubepermit::plan::{JobSettings, KubectlSettings, PodProfile, Settings};
use kubepermit::policy::{BundleSource, Overlay, Policy};
use kubepermit::schema::Catalogue;
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

fn gateway(program: &Path, audit: AuditTarget) -> Arc<Gateway> {
    let overlay = Overlay { read_namespaces: Some(vec!["dev".to_owned()]), ..Overlay::default() };
    let policy = Arc::new(Policy::load(&BundleSource::BuiltIn, &overlay).unwrap());
    let home = PrivateHome::new().unwrap();
    let source = ReadSource::Ambient { service: None, files: Vec::new() };
    let access = Access::resolve(&source, Some("bench"), &home);
    let settings = Settings {
        jobs: JobSettings {
            namespace: "mcp-ephemeral".to_owned(),
            instance: "bench".to_owned(),
            default_timeout_s: 60,
            default_cpu_millis: 1000,
            default_memory_bytes: 512 << 20,
            helper_image: "busybox:1.36".to_owned(),
            user: 65532,
            profile: PodProfile::Restricted,
        },
        kubectl: KubectlSettings {
            context: "bench".to_owned(),
            cache_dir: home.cache().display().to_string(),
            request_timeout_s: 20,
        },
    };
    let reads = ReadTools { program: Some(program.to_owned()), access, home };
    let cluster = ClusterSource::Kubeconfig { path: PathBuf::from("/nonexistent"), context: None };
    let jobs = JobExecutor::new(Arc::new(Cluster::new(cluster)), JobLimits::new(1 << 20, 10 << 20));
    let executor = Executor::new(jobs, KubectlExecutor::new(reads, ReadLimits::default()));
    let audit = Audit::start(audit, AuditOptions::default()).unwrap();
    Arc::new(Gateway::new(Catalogue::load().unwrap(), settings, policy, audit, executor))
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
        progress: None,
        cancelled: CancellationToken::new(),
    };
    let reply = gateway.call(request).await;
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
    let on_disk =
        runtime.block_on(async { gateway(&program, AuditTarget::Directory(folder.path().join("audit"))) });
    let off_disk =
        runtime.block_on(async { gateway(&program, AuditTarget::File(PathBuf::from("/dev/null"))) });

    let mut group = c.benchmark_group("list_pods, fake kubectl");
    group.sample_size(50);
    group.bench_function("started directly", |b| b.to_async(&runtime).iter(|| direct(&program)));
    group.bench_function("gateway, records on disk", |b| b.to_async(&runtime).iter(|| through(&on_disk)));
    group.bench_function("gateway, records on /dev/null", |b| {
        b.to_async(&runtime).iter(|| through(&off_disk))
    });
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
         {null:.1?} (records on /dev/null); our share: {:.1?} and {:.1?}",
        disk.saturating_sub(alone),
        null.saturating_sub(alone),
    );
}

criterion_group!(benches, reads);
criterion_main!(benches);
