//! A denied call through the whole pipeline, and an output of 10 MiB through the tail buffer.
//!
//! The denied call is measured twice: with records on a disk, where one fdatasync is most of it, and with
//! records on a tmpfs, which leaves our own share.
#![expect(clippy::unwrap_used, reason = "a benchmark, not an interface")]

use std::path::PathBuf;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kubepermit::audit::{Audit, AuditOptions, AuditTarget};
use kubepermit::caller::Caller;
use kubepermit::executor::{Cluster, ClusterSource, JobExecutor, JobLimits};
use kubepermit::output::Tail;
use kubepermit::pipeline::{Gateway, Request};
use kubepermit::plan::{JobSettings, PodProfile};
use kubepermit::policy::{BundleSource, Overlay, Policy};
use kubepermit::reply::Reply;
use kubepermit::schema::Catalogue;
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn gateway(audit: AuditTarget) -> Arc<Gateway> {
    let overlay = Overlay { images: Some(vec!["busybox:1.36".to_owned()]), ..Overlay::default() };
    let policy = Arc::new(Policy::load(&BundleSource::BuiltIn, &overlay).unwrap());
    let settings = JobSettings {
        namespace: "mcp-ephemeral".to_owned(),
        instance: "bench".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 1000,
        default_memory_bytes: 512 << 20,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
    };
    let source = ClusterSource::Kubeconfig { path: PathBuf::from("/nonexistent"), context: None };
    let executor = JobExecutor::new(Arc::new(Cluster::new(source)), JobLimits::new(1 << 20, 10 << 20));
    let audit = Audit::start(audit, AuditOptions::default()).unwrap();
    Arc::new(Gateway::new(Catalogue::load().unwrap(), settings, policy, audit, executor))
}

fn denied(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut group = c.benchmark_group("denied call, whole pipeline");
    let targets = [
        ("records on disk", AuditTarget::Directory(directory.path().to_owned())),
        ("records on a tmpfs", AuditTarget::Directory(memory.path().to_owned())),
    ];
    for (name, target) in targets {
        let gateway = runtime.block_on(async { gateway(target) });
        group.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| async {
                let request = Request {
                    caller: Caller::at_command_line(),
                    tool: "run_job".to_owned(),
                    arguments: json!({ "image": "evil:1", "command": ["true"] }),
                    fault: None,
                    progress: None,
                    cancelled: CancellationToken::new(),
                };
                assert!(matches!(gateway.call(request).await, Reply::Refused { .. }));
            });
        });
    }
    group.finish();
}

fn output(c: &mut Criterion) {
    const MIB: usize = 1 << 20;
    let chunk = "a line of output with a few € in it, as programs write them\n".repeat(1000);
    let mut group = c.benchmark_group("output");
    group.throughput(Throughput::Bytes(10 * MIB as u64));
    group.bench_function("10 MiB, 1 MiB kept", |b| {
        b.iter(|| {
            let mut tail = Tail::new(MIB);
            let mut left = 10 * MIB;
            while left > 0 {
                let piece = chunk.as_bytes().get(..left.min(chunk.len())).unwrap();
                tail.push(piece);
                left -= piece.len();
            }
            tail.finish()
        });
    });
    group.finish();
}

criterion_group!(benches, denied, output);
criterion_main!(benches);
