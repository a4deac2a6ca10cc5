//! Jobs through the executor's own door: a permit from the policy, a record from the audit log.

mod chaos;
mod classes;
mod embedded;
mod fake;
mod faults;
mod races;
mod slots;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kubepermit::audit::{Audit, AuditOptions, AuditTarget, DecisionSummary, Entry, OpenRecord};
use kubepermit::caller::Caller;
use kubepermit::executor::{Cluster, ClusterSource, JobExecutor, JobLimits, JobOutcome, JobSlot, Progress};
use kubepermit::ids::DecisionId;
use kubepermit::plan::{JobExtras, JobSettings, KubectlSettings, PodProfile, Settings, plan};
use kubepermit::policy::{BundleSource, Overlay, Permit, Policy, Question, Verdict};
use kubepermit::schema::Catalogue;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub const NAMESPACE: &str = "mcp-ephemeral";

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::load().unwrap());

static POLICY: LazyLock<Policy> = LazyLock::new(|| policy(None));

fn policy(clone_hosts: Option<Vec<String>>) -> Policy {
    let overlay = Overlay {
        images: Some(vec!["busybox:1.36".to_owned(), "absent:1".to_owned()]),
        job_namespaces: Some(vec![NAMESPACE.to_owned()]),
        clone_hosts,
        ..Overlay::default()
    };
    Policy::load(&BundleSource::BuiltIn, &overlay).unwrap()
}

pub static AUDIT: LazyLock<Audit> = LazyLock::new(|| {
    let records = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit");
    Audit::start(AuditTarget::Directory(records), AuditOptions::default()).unwrap()
});

/// What the operator of the tests configured.
pub fn settings() -> Settings {
    let jobs = JobSettings {
        namespace: NAMESPACE.to_owned(),
        instance: "test".to_owned(),
        default_timeout_s: 60,
        default_cpu_millis: 100,
        default_memory_bytes: 64 << 20,
        helper_image: "busybox:1.36".to_owned(),
        user: 65532,
        profile: PodProfile::Restricted,
        extras: JobExtras::default(),
    };
    let kubectl = KubectlSettings {
        context: "test".to_owned(),
        cache_dir: "/private/cache".to_owned(),
        request_timeout_s: 20,
    };
    Settings { jobs, kubectl }
}

/// A permit and the open record that goes with it, for a call of `run_job` with `arguments`.
pub fn admitted(arguments: Value) -> (Permit, OpenRecord) {
    admitted_with(&POLICY, JobExtras::default(), arguments)
}

/// The same, with another policy and with what an operator may add.
fn admitted_with(policy: &Policy, extras: JobExtras, arguments: Value) -> (Permit, OpenRecord) {
    let caller = Caller::at_command_line();
    let id = DecisionId::mint();
    let call = CATALOGUE.admit(id, "run_job", arguments).unwrap();
    let mut settings = settings();
    settings.jobs.extras = extras;
    let plan = plan(&call, &settings, &policy.images_for(caller.roles())).unwrap();
    let verdict = policy.judge(Question { caller: &caller, call: &call, plan, time: Timestamp::now() });
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
    // A disk keeps no virtual time: the record is waited for outside of the test's runtime.
    let record = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(AUDIT.admit(entry)).unwrap()
    });
    (permit, record.join().unwrap())
}

/// Runs a test in a time of its own, which passes as fast as the work allows: everything happens on one thread, and the
/// clock moves on by a small step whenever all of it had its turns. (Tokio's own way, to jump when nothing is
/// ready, jumps past answers that are on their way through a socket.)
///
/// The clock stands until the test sets it going.
pub fn in_virtual_time<T, F: Future<Output = T>>(test: impl FnOnce(Clock) -> F) -> T {
    const STEP: Duration = Duration::from_millis(50);
    // For the tasks, and for the kernel, which carries what they write.
    const TURNS: usize = 64;
    const REAL: Duration = Duration::from_micros(300);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // Sockets are looked at in every turn.
    let runtime = runtime.enable_all().event_interval(1).start_paused(true).build().unwrap();
    let clock = Clock::default();
    runtime.block_on(async {
        let goes = clock.clone();
        tokio::spawn(async move {
            loop {
                let (began, mut turns) = (std::time::Instant::now(), 0);
                while turns < TURNS || began.elapsed() < REAL {
                    tokio::task::yield_now().await;
                    turns += 1;
                }
                if goes.0.load(Ordering::Relaxed) {
                    tokio::time::advance(STEP).await;
                }
            }
        });
        test(clock).await
    })
}

/// The clock of a virtual time.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicBool>);

impl Clock {
    /// Sets it going.
    pub fn start(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
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

/// A place for a job of `caller`.
pub async fn place(executor: &JobExecutor, caller: &str) -> JobSlot {
    executor.slots().enter(caller, None).unwrap().slot(&CancellationToken::new()).await.unwrap()
}

/// Runs one job to its outcome.
pub async fn run(executor: &JobExecutor, arguments: Value, cancel: CancellationToken) -> Went {
    run_for(executor, "local", arguments, cancel).await
}

/// Runs one job of `caller` to its outcome. The time begins when it has its place.
pub async fn run_for(
    executor: &JobExecutor,
    caller: &str,
    arguments: Value,
    cancel: CancellationToken,
) -> Went {
    see(executor, caller, admitted(arguments), cancel).await
}

/// Runs one job with what an operator may add.
pub async fn run_with(
    executor: &JobExecutor,
    arguments: Value,
    extras: JobExtras,
    clone_hosts: Option<Vec<String>>,
) -> Went {
    let admitted = admitted_with(&policy(clone_hosts), extras, arguments);
    see(executor, "local", admitted, CancellationToken::new()).await
}

async fn see(
    executor: &JobExecutor,
    caller: &str,
    (permit, record): (Permit, OpenRecord),
    cancel: CancellationToken,
) -> Went {
    let steps = Mutex::new(Vec::new());
    let slot = place(executor, caller).await;
    let began = Instant::now();
    let tell = |step| steps.lock().unwrap().push(step);
    let outcome = executor.run_job(permit, &record, slot, &tell, cancel).await;
    Went { outcome, began, took: began.elapsed(), steps: steps.into_inner().unwrap() }
}
