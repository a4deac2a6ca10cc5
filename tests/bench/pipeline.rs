//! A denied call through the whole pipeline, and an output of 10 MiB through the tail buffer.
//!
//! The denied call is measured twice: with records on a disk, where one fdatasync is most of it, and with
//! records on a memory file system, which leaves our own share.
#![expect(clippy::unwrap_used, reason = "a benchmark, not an interface")]

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kubepermit::app::App;
use kubepermit::caller::Caller;
use kubepermit::config::{Config, Environment, Setting, Typed};
use kubepermit::output::Tail;
use kubepermit::pipeline::{Gateway, Request};
use kubepermit::reply::Reply;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A gateway that records there, and whose cluster nobody needs.
async fn gateway(audit: &Path) -> Arc<Gateway> {
    let values = [
        (Setting::Audit, format!("{}/", audit.display())),
        (Setting::AllowedImages, "busybox:1.36".to_owned()),
        (Setting::Kubeconfig, "/nonexistent".to_owned()),
    ];
    let typed = Typed { values: values.into(), ..Typed::default() };
    App::start(Config::read(&typed, &Environment::default()).unwrap()).await.unwrap().gateway()
}

fn denied(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let disk = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut group = c.benchmark_group("denied call, whole pipeline");
    for (name, place) in [("records on disk", disk.path()), ("records in memory", memory.path())] {
        let gateway = runtime.block_on(gateway(place));
        group.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| async {
                let request = Request {
                    caller: Caller::at_command_line(),
                    tool: "run_job".to_owned(),
                    arguments: json!({ "image": "evil:1", "command": ["true"] }),
                    fault: None,
                };
                let reply = gateway.call(request, Box::new(|_| {}), CancellationToken::new()).await;
                assert!(matches!(reply, Reply::Refused { .. }));
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
