//! Jobs in the background: one server, a server that is started again, and what a dead one leaves behind.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use kubepermit::embedded::{Embedded, EmbeddedExtras};
use serde_json::{Value, json};

use crate::session::{Session, audit_records};
use crate::stand_in;

const NAMESPACE: &str = "mcp-ephemeral";

fn shell(script: &str) -> Value {
    json!({ "image": "busybox", "command": ["sh", "-c", script], "timeout_s": 60 })
}

fn outcomes(audit: &Path, id: &Value) -> Vec<Value> {
    audit_records(audit)
        .into_iter()
        .filter(|record| record["kind"] == json!("outcome") && record["decision_id"] == *id)
        .map(|record| record["outcome"].clone())
        .collect()
}

/// A cluster that outlives its servers.
struct Place {
    cluster: Embedded,
    runtime: tokio::runtime::Runtime,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let cluster = runtime.block_on(stand_in::embedded(NAMESPACE, EmbeddedExtras::default()));
        Self { cluster, runtime, home: tempfile::tempdir().unwrap() }
    }

    fn server(&self, more: &[&str]) -> Session {
        let kubeconfig = self.cluster.kubeconfig().to_str().unwrap();
        let arguments = [
            &["--kubeconfig", kubeconfig, "--allowed-images", "busybox:1.36"][..],
            &["--default-cpu", "10m", "--default-memory", "8Mi"],
            &["--max-concurrent", "60"],
            more,
        ]
        .concat();
        let mut session = Session::start(self.home.path(), &arguments);
        session.initialize("2025-06-18");
        session
    }

    fn jobs(&self) -> Vec<Job> {
        self.runtime.block_on(async {
            let jobs: Api<Job> =
                Api::namespaced(stand_in::client(self.cluster.kubeconfig()).await, NAMESPACE);
            jobs.list(&ListParams::default()).await.unwrap().items
        })
    }

    fn until_jobs(&self, what: &str, within: u64, wanted: impl Fn(&[Job]) -> bool) -> Duration {
        let began = Instant::now();
        loop {
            let jobs = self.jobs();
            if wanted(&jobs) {
                return began.elapsed();
            }
            let names: Vec<String> = jobs.iter().map(Job::name_any).collect();
            assert!(began.elapsed() < Duration::from_secs(within), "{what}: {} {names:?}", names.len());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn audit(&self) -> std::path::PathBuf {
        self.home.path().join(".local/state/kubepermit/audit")
    }
}

#[test]
fn a_job_in_the_background_is_submitted_fetched_and_cancelled() {
    let home = tempfile::tempdir().unwrap();
    let mut session = Session::start(home.path(), &["--embedded"]);
    session.initialize("2025-06-18");

    // A bad call is refused at submit, while its caller can still mend it.
    let refused = session.call("submit_job", json!({ "image": "evil", "command": ["true"] }));
    assert_eq!(refused["isError"], json!(true));
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("images.not_listed"), "{refused}");

    let good = session.submit_job(shell("sleep 1; echo hello; echo data > out.txt; exit 3"));
    let began = Instant::now();
    assert_eq!(session.fetch_job(&good, 0)["status"], json!("running"));
    // Answers at once when the job ends, long before the wait is over.
    let done = session.fetch_job(&good, 500);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(done["status"], json!("done"), "{done}");
    assert_eq!((&done["result"]["exit_code"], &done["result"]["stdout"]), (&json!(3), &json!("hello\n")));
    assert_eq!(done["result"]["artifacts"][0]["content_b64"], json!(STANDARD.encode("data\n")));
    // As often as wanted.
    for _ in 0..3 {
        assert_eq!(session.fetch_job(&good, 0)["result"], done["result"]);
    }

    let long = session.submit_job(shell("sleep 300"));
    assert_eq!(session.fetch_job(&long, 1)["status"], json!("running"));
    let cancelled = session.call("cancel_job", json!({ "job_token": long }))["structuredContent"].clone();
    assert_eq!((&cancelled["status"], &cancelled["reason"]), (&json!("error"), &json!("cancelled")));
    let fetched = session.fetch_job(&long, 0);
    assert_eq!((&fetched["status"], &fetched["result"]), (&json!("error"), &cancelled["result"]));
    // What has ended stays as it ended.
    let late = session.call("cancel_job", json!({ "job_token": good }))["structuredContent"].clone();
    assert_eq!(late["result"], done["result"]);

    let unknown = json!({ "job_token": "job-00000000000000000000000000000000" });
    for tool in ["fetch_job", "cancel_job"] {
        let answer = session.call(tool, unknown.clone());
        assert_eq!(answer["isError"], json!(true));
        assert!(answer["content"][0]["text"].as_str().unwrap().contains("submit the job again"), "{answer}");
    }

    let (status, _) = session.finish();
    assert!(status.success());
    let audit = home.path().join(".local/state/kubepermit/audit");
    let records = audit_records(&audit);
    let text = Value::from(records.clone()).to_string();
    for secret in [&good, &long] {
        assert!(!text.contains(secret.get(4..).unwrap()), "a token is in the records");
    }
    let reasons: Vec<Value> =
        outcomes(&audit, &cancelled["result"]["decision_id"]).iter().map(|o| o["reason"].clone()).collect();
    assert_eq!(reasons, [json!("cancelled")]);
    let decided = records.iter().filter(|record| record["kind"] == json!("decision"));
    let admitted = decided.filter(|record| record["decision"]["allow"] == json!(true)).count();
    let ended = records.iter().filter(|record| record["kind"] == json!("outcome")).count();
    assert_eq!(admitted, ended, "each admitted call has one outcome");
}

#[test]
fn a_job_outlives_its_server_and_is_fetched_from_the_next() {
    let place = Place::new();
    let mut first = place.server(&[]);
    let mut call = shell("cat in.txt; echo more > out.txt; sleep 4; echo late");
    call["files"] = json!([{ "path": "in.txt", "content_b64": STANDARD.encode("given\n") }]);
    let job = first.submit_job(call);
    // Let it get its files: those are with its server alone.
    std::thread::sleep(Duration::from_secs(2));
    let (status, _) = first.finish();
    assert!(status.success());
    assert_eq!(place.jobs().len(), 1, "the job goes on");

    let mut second = place.server(&[]);
    let done = second.fetch_job(&job, 60);
    assert_eq!(done["status"], json!("done"), "{done}");
    assert_eq!(done["result"]["stdout"], json!("given\nlate\n"));
    let artifacts: Vec<&Value> =
        done["result"]["artifacts"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(artifacts, [&json!("out.txt")], "the input is unchanged");
    assert_eq!(second.fetch_job(&job, 0)["result"], done["result"]);
    assert!(place.jobs().is_empty());
    let (status, _) = second.finish();
    assert!(status.success());
    // One decision by the first, one outcome by the second.
    assert_eq!(outcomes(&place.audit(), &done["result"]["decision_id"]).len(), 1);
}

#[test]
fn a_killed_servers_orphans_go_and_its_background_jobs_are_found() {
    const WAITING: usize = 50;
    let place = Place::new();
    let mut other = place.server(&["--instance", "other"]);
    let foreign = other.submit_job(shell("sleep 300"));
    // A second living server of the same instance.
    let mut sibling = place.server(&[]);
    let near = sibling.submit_job(shell("sleep 300"));
    let mut victim = place.server(&[]);
    for id in 0..WAITING {
        victim.send(&json!({ "jsonrpc": "2.0", "id": 1000 + id, "method": "tools/call",
            "params": { "name": "run_job", "arguments": shell("sleep 300") } }));
    }
    let kept = victim.submit_job(shell("sleep 45; echo survived"));
    place.until_jobs("all jobs are there", 60, |jobs| jobs.len() == WAITING + 3);
    victim.kill_9();

    let mut next = place.server(&[]);
    let took = place.until_jobs("the orphans are gone", 60, |jobs| jobs.len() <= 3);
    eprintln!("{WAITING} orphans were gone {took:?} after the restart");
    let done = next.fetch_job(&kept, 120);
    assert_eq!(
        (&done["status"], &done["result"]["stdout"]),
        (&json!("done"), &json!("survived\n")),
        "{done}"
    );
    assert_eq!(other.fetch_job(&foreign, 0)["status"], json!("running"));
    assert_eq!(sibling.fetch_job(&near, 0)["status"], json!("running"));
    assert_eq!(place.jobs().len(), 2);
    // Nobody else's token works, not even for a server of the same cluster.
    let stranger = next.call("fetch_job", json!({ "job_token": foreign }));
    assert_eq!(stranger["isError"], json!(true), "{stranger}");
    for session in [other, sibling, next] {
        session.kill_9();
    }
    let records = audit_records(&place.audit());
    let orphaned = records.iter().filter(|record| record["outcome"]["reason"] == json!("orphaned")).count();
    assert_eq!(orphaned, WAITING, "each call whose server died has its outcome");
    let ids: std::collections::BTreeSet<String> = records
        .iter()
        .filter(|record| record["kind"] == json!("outcome"))
        .map(|record| record["decision_id"].to_string())
        .collect();
    assert_eq!(ids.len(), records.iter().filter(|record| record["kind"] == json!("outcome")).count());
}

#[test]
fn servers_that_share_results_serve_one_anothers_tokens() {
    let place = Place::new();
    let results = place.home.path().join("results");
    let shared = ["--results", results.to_str().unwrap()];
    let mut first = place.server(&shared);
    let mut second = place.server(&shared);
    let mut apart = place.server(&[]);
    let job = first.submit_job(shell("sleep 2; echo shared"));
    // Another server waits for what the first one follows.
    let done = second.fetch_job(&job, 60);
    assert_eq!((&done["status"], &done["result"]["stdout"]), (&json!("done"), &json!("shared\n")), "{done}");
    first.kill_9();
    assert_eq!(second.fetch_job(&job, 0)["result"], done["result"]);
    let stranger = apart.call("fetch_job", json!({ "job_token": job }));
    assert_eq!(stranger["isError"], json!(true), "{stranger}");
    let files: Vec<_> = std::fs::read_dir(&results).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(!format!("{files:?}").contains(job.get(4..).unwrap()));
}

#[test]
fn a_server_that_ends_at_once_hands_over_a_job_that_exists() {
    let place = Place::new();
    for n in 0..5 {
        let mut first = place.server(&[]);
        let job = first.submit_job(shell(&format!("sleep 1; echo {n}")));
        let (status, _) = first.finish();
        assert!(status.success());
        let mut second = place.server(&[]);
        let done = second.fetch_job(&job, 60);
        assert_eq!(
            (&done["status"], &done["result"]["stdout"]),
            (&json!("done"), &json!(format!("{n}\n"))),
            "{done}"
        );
        assert_eq!(outcomes(&place.audit(), &done["result"]["decision_id"]).len(), 1);
    }
}

#[test]
fn a_job_that_is_found_again_can_be_cancelled_first_of_all() {
    let place = Place::new();
    for _ in 0..5 {
        let mut first = place.server(&[]);
        let job = first.submit_job(shell("sleep 300"));
        place.until_jobs("the job is there", 10, |jobs| jobs.len() == 1);
        let (status, _) = first.finish();
        assert!(status.success());
        let mut second = place.server(&[]);
        let ended = second.call("cancel_job", json!({ "job_token": job }))["structuredContent"].clone();
        assert_eq!((&ended["status"], &ended["reason"]), (&json!("error"), &json!("cancelled")), "{ended}");
        place.until_jobs("what is said to be cancelled is gone", 10, <[Job]>::is_empty);
    }
}
