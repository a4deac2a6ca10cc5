//! Jobs through the executor's own door: a permit from the policy, a record from the audit log.

mod embedded;
mod fake;
mod faults;
mod races;

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kubepermit::audit::{Audit, AuditOptions, AuditTarget, DecisionSummary, Entry, OpenRecord};
use kubepermit::caller::Caller;
use kubepermit::executor::{Cluster, ClusterSource, JobExecutor, JobLimits, JobOutcome, Progress};
use kubepermit::ids::DecisionId;
use kubepermit::plan::{JobSettings, KubectlSettings, PodProfile, Settings, plan};
use kubepermit::policy::{BundleSource, Overlay, Permit, Policy, Question, Verdict};
use kubepermit::schema::Catalogue;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub const NAMESPACE: &str = "mcp-ephemeral";

/// The shipped rules, for two images.
static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    Policy::load(
        &BundleSource::BuiltIn,
        &Overlay {
            images: Some(vec!["busybox:1.36".to_owned(), "absent:1".to_owned()]),
            job_namespaces: Some(vec![NAMESPACE.to_owned()]),
            ..Overlay::default()
        },
    )
    .unwrap()
});

/// One log for all of these tests.
pub static AUDIT: LazyLock<Audit> = LazyLock::new(|| {
    let records = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit");
    Audit::start(AuditTarget::Directory(records), AuditOptions::default()).unwrap()
});

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load().unwrap());

/// A permit and the open record that goes with it, for a call of `run_job` with `arguments`.
pub async fn admitted(arguments: Value) -> (Permit, OpenRecord) {
    let caller = Caller::at_command_line();
    let id = DecisionId::mint();
    let call = CATALOGUE.admit(id, "run_job", arguments).unwrap();
    let jobs = JobSettings {
        namespace: NAMESPACE.to_owned(),
        instance: "test".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 100,
        default_memory_bytes: 64 << 20,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
    };
    let kubectl = KubectlSettings {
        context: "test".to_owned(),
        cache_dir: "/private/cache".to_owned(),
        request_timeout_s: 20,
    };
    let settings = Settings { jobs, kubectl };
    let plan = plan(&call, &settings, &POLICY.images_for(caller.roles())).unwrap();
    let verdict = POLICY.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::now() });
    let permit = match verdict {
        Verdict::Allow(permit) => permit,
        Verdict::Deny { decision, .. } => panic!("denied: {decision:?}"),
    };
    let entry = Entry {
        decision_id: id,
        caller,
        tool: "run_job".to_owned(),
        arguments: call.redacted(),
        decision: DecisionSummary { allow: true, ..DecisionSummary::default() },
        subject: Value::Null,
    };
    (permit, AUDIT.admit(entry).await.unwrap())
}

/// How a job went.
#[derive(Debug)]
pub struct Went {
    pub outcome: JobOutcome,
    pub steps: Vec<Progress>,
    pub began: Instant,
    pub took: Duration,
}

/// An executor for the cluster that `kubeconfig` names.
pub fn executor(kubeconfig: &std::path::Path, limits: JobLimits) -> JobExecutor {
    let source = ClusterSource::Kubeconfig { path: kubeconfig.to_owned(), context: None };
    JobExecutor::new(Arc::new(Cluster::new(source)), limits)
}

/// Runs one job to its outcome.
pub async fn run(executor: &JobExecutor, arguments: Value, cancel: CancellationToken) -> Went {
    let (permit, record) = admitted(arguments).await;
    let steps = Mutex::new(Vec::new());
    let began = Instant::now();
    let outcome = executor.run_job(permit, &record, &|step| steps.lock().unwrap().push(step), cancel).await;
    Went { outcome, began, took: began.elapsed(), steps: steps.into_inner().unwrap() }
}
