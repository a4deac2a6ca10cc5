//! A panic in the middle of a call is one error: the job goes, the record is closed, the gateway lives.

use kubepermit::app::App;
use kubepermit::caller::Caller;
use kubepermit::config::{Config, Environment, Setting, Typed};
use kubepermit::embedded::EmbeddedExtras;
use kubepermit::executor::Progress;
use kubepermit::pipeline::Request;
use kubepermit::reply::Reply;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::session::audit_records;

fn request() -> Request {
    Request {
        caller: Caller::at_command_line(),
        tool: "run_job".to_owned(),
        arguments: json!({ "image": "busybox:1.36", "command": ["true"] }),
        fault: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_call_is_one_error() {
    let home = tempfile::tempdir().unwrap();
    let audit = home.path().join("audit.jsonl");
    let cluster = crate::stand_in::embedded("mcp-ephemeral", EmbeddedExtras::default()).await;
    let typed = Typed {
        values: [
            (Setting::Kubeconfig, cluster.kubeconfig().display().to_string()),
            (Setting::Audit, audit.display().to_string()),
            (Setting::AllowedImages, "busybox:1.36".to_owned()),
        ]
        .into(),
        ..Typed::default()
    };
    let app = App::start(Config::read(&typed, &Environment::default()).unwrap()).await.unwrap();
    let gateway = app.gateway();
    let panics = Box::new(|step| assert_ne!(step, Progress::Created, "on purpose"));
    let reply = gateway.call(request(), panics, CancellationToken::new()).await;
    assert!(matches!(reply, Reply::Broken { .. }), "{reply:?}");

    let refused = Request { arguments: json!({ "image": "evil", "command": ["true"] }), ..request() };
    let reply = gateway.call(refused, Box::new(|_| {}), CancellationToken::new()).await;
    assert!(matches!(reply, Reply::Refused { .. }), "the gateway lives: {reply:?}");
    app.stop().await;
    cluster.stop().await;

    let records = audit_records(&audit);
    let outcome = records.iter().find(|record| record["kind"] == json!("outcome")).unwrap();
    assert_eq!(outcome["outcome"]["status"], json!("abandoned"), "{records:?}");
}
