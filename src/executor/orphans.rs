//! Jobs that no call waits for: found, and ended or followed.
//!
//! A scan looks at what carries this program's label in the namespace, a page at a time. Jobs of this instance whose
//! process is dead are taken over: those in the background are followed to their end, the others are orphans. What
//! has expired is an orphan whoever made it. Everything else is another server's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;

use crate::executor::JobExecutor;
use crate::executor::api::{ApiError, call, delete_job};
use crate::executor::ownership::Standing;
use crate::ids::{DecisionId, HandleKey, ProcessId};
use crate::plan::RecoveredJob;
use crate::plan::manifest::{
    ANNOTATION_EXPIRES_AT, LABEL_DECISION_ID, LABEL_INSTANCE, LABEL_OWNER, LABEL_PROCESS, LABEL_TOKEN,
    MANAGED_BY,
};

/// How many Jobs one page of a list holds.
const PAGE: u32 = 100;

/// The most pages of one scan; what lies beyond waits for the next.
const MOST_PAGES: usize = 50;

/// How long one request may take, repetitions included.
const REQUEST: Duration = Duration::from_secs(10);

/// A Job that nobody answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    name: String,
    uid: String,
    decision: Option<DecisionId>,
    /// Whether its process left it behind without an outcome.
    abandoned: bool,
}

impl Orphan {
    /// The call whose process died before it recorded an outcome.
    #[must_use]
    pub fn abandoned(&self) -> Option<DecisionId> {
        self.decision.filter(|_| self.abandoned)
    }

    /// UID of the Job.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// To be deleted.
    pub orphans: Vec<Orphan>,
    /// To be followed; this process answers for them now.
    pub recovered: Vec<RecoveredJob>,
    /// Whether some process may turn out to be dead soon.
    pub undecided: bool,
}

/// What a token that this process does not know leads to.
#[derive(Debug)]
pub enum Recovery {
    /// No Job.
    Nothing,
    /// A Job that this process answers for now.
    Recovered(Box<RecoveredJob>),
    /// A Job that another process follows, or may.
    Elsewhere(Orphan),
    /// The cluster does not tell; a sentence.
    Unreachable(String),
}

impl JobExecutor {
    /// Looks at all Jobs of the namespace. `adopt` says whether Jobs in the background are to be followed.
    ///
    /// # Errors
    /// A sentence, when the API server does not answer or refuses.
    pub async fn scan(&self, adopt: bool) -> Result<Scan, String> {
        self.try_scan(adopt).await
    }

    async fn try_scan(&self, adopt: bool) -> Result<Scan, String> {
        let Some((namespace, instance)) = self.ownership().scope() else { return Ok(Scan::default()) };
        let client = self.cluster().client().await.map_err(|error| error.to_string())?;
        let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
        let text = |error: ApiError| error.to_string();
        // Leases first: a process that appears in between has a Lease that cannot be created a second time.
        let others = self.ownership().others(&client).await.map_err(text)?;
        let mut scan = Scan::default();
        let mut refused: BTreeSet<ProcessId> = BTreeSet::new();
        let mut with_jobs: BTreeSet<ProcessId> = BTreeSet::new();
        let mut params = ListParams::default().labels(MANAGED_BY).limit(PAGE);
        let mut complete = false;
        for _ in 0..MOST_PAGES {
            let page = call("list jobs", REQUEST, || jobs.list(&params)).await.map_err(text)?;
            for job in page.items {
                let Some(known) = Known::of(&job) else { continue };
                let ours = known.instance == instance;
                if let Some(process) = known.process.as_ref().filter(|_| ours) {
                    with_jobs.insert(process.clone());
                    let mut standing = self.ownership().standing(process, &others).await;
                    let background = known.background && adopt;
                    let takeable = standing == Standing::Dead || (standing == Standing::Absent && background);
                    if takeable && !refused.contains(process) {
                        if self.ownership().take_over(&client, process, &others).await {
                            standing = Standing::Mine;
                        } else {
                            refused.insert(process.clone());
                        }
                    }
                    scan.undecided |= standing == Standing::Alive;
                    if standing == Standing::Mine {
                        if known.orphan.decision.is_some_and(|id| self.ownership().is_live(id)) {
                            continue;
                        }
                        if known.background {
                            match RecoveredJob::read(job) {
                                Ok(job) if adopt => scan.recovered.push(job),
                                Ok(_) => {}
                                Err(error) => {
                                    tracing::warn!(job = %known.orphan.name, %error, "a job in the background is ended");
                                    scan.orphans.push(known.orphan.left(true));
                                }
                            }
                        } else {
                            let left = self.ownership().is_other(process);
                            scan.orphans.push(known.orphan.left(left));
                        }
                        continue;
                    }
                }
                if known.expired {
                    scan.orphans.push(known.orphan);
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => {
                    complete = true;
                    break;
                }
            }
        }
        if complete {
            for process in self.ownership().taken_over().await {
                if !with_jobs.contains(&process) {
                    self.ownership().settle(&client, &process).await;
                }
            }
            self.bury(&client, &others, &with_jobs).await;
        }
        Ok(scan)
    }

    /// Takes the Leases of dead processes without Jobs away.
    async fn bury(
        &self,
        client: &kube::Client,
        others: &BTreeMap<ProcessId, Lease>,
        with_jobs: &BTreeSet<ProcessId>,
    ) {
        for process in others.keys().filter(|process| !with_jobs.contains(process)) {
            if self.ownership().standing(process, others).await == Standing::Dead
                && self.ownership().take_over(client, process, others).await
            {
                self.ownership().settle(client, process).await;
            }
        }
    }

    /// Deletes an orphan and its pod. Whether it was there.
    ///
    /// # Errors
    /// A sentence, when the API server does not answer or refuses.
    pub async fn remove(&self, orphan: &Orphan) -> Result<bool, String> {
        let Some((namespace, _)) = self.ownership().scope() else { return Ok(false) };
        let client = self.cluster().client().await.map_err(|error| error.to_string())?;
        let jobs: Api<Job> = Api::namespaced(client, namespace);
        delete_job(&jobs, &orphan.name, &orphan.uid, REQUEST).await.map_err(|error| error.to_string())
    }

    /// Looks for the Job of a token on the cluster, and takes it over when nobody follows it.
    pub async fn find(&self, key: &HandleKey) -> Recovery {
        self.try_find(key).await.unwrap_or_else(Recovery::Unreachable)
    }

    async fn try_find(&self, key: &HandleKey) -> Result<Recovery, String> {
        let Some((namespace, instance)) = self.ownership().scope() else { return Ok(Recovery::Nothing) };
        let client = self.cluster().client().await.map_err(|error| error.to_string())?;
        let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
        let selector = format!(
            "{MANAGED_BY},{LABEL_INSTANCE}={instance},{LABEL_TOKEN}={},{LABEL_OWNER}={}",
            key.token(),
            key.owner()
        );
        let params = ListParams::default().labels(&selector).limit(2);
        let listed =
            call("list jobs", REQUEST, || jobs.list(&params)).await.map_err(|error| error.to_string())?;
        let found = listed.items.into_iter().find_map(|job| Some((Known::of(&job)?, job)));
        let Some((known, job)) = found else { return Ok(Recovery::Nothing) };
        let elsewhere = Ok(Recovery::Elsewhere(known.orphan));
        let Ok(recovered) = RecoveredJob::read(job) else { return elsewhere };
        // A Lease that cannot be looked at is nobody's to take.
        let Ok(others) = self.ownership().others(&client).await else { return elsewhere };
        let mine = match self.ownership().standing(recovered.process(), &others).await {
            Standing::Mine => !self.ownership().is_live(recovered.plan().id()),
            Standing::Dead | Standing::Absent => {
                self.ownership().take_over(&client, recovered.process(), &others).await
            }
            Standing::Alive => false,
        };
        if mine { Ok(Recovery::Recovered(Box::new(recovered))) } else { elsewhere }
    }
}

impl Orphan {
    fn left(self, abandoned: bool) -> Self {
        Self { abandoned, ..self }
    }
}

/// What a Job says of itself.
struct Known {
    orphan: Orphan,
    instance: String,
    process: Option<ProcessId>,
    background: bool,
    expired: bool,
}

impl Known {
    /// `None` for a Job that is being deleted already.
    fn of(job: &Job) -> Option<Self> {
        let meta = &job.metadata;
        if meta.deletion_timestamp.is_some() {
            return None;
        }
        let none = BTreeMap::new();
        let labels = meta.labels.as_ref().unwrap_or(&none);
        let label = |name: &str| labels.get(name).map(String::as_str);
        let expires = meta.annotations.as_ref().and_then(|all| all.get(ANNOTATION_EXPIRES_AT));
        let expires: Option<Timestamp> = expires.and_then(|text| text.parse().ok());
        Some(Self {
            orphan: Orphan {
                name: meta.name.clone()?,
                uid: meta.uid.clone()?,
                decision: label(LABEL_DECISION_ID).and_then(DecisionId::recovered),
                abandoned: false,
            },
            instance: label(LABEL_INSTANCE).unwrap_or_default().to_owned(),
            process: label(LABEL_PROCESS).and_then(ProcessId::recovered),
            background: labels.contains_key(LABEL_TOKEN),
            expired: expires.is_some_and(|at| at < Timestamp::now()),
        })
    }
}
