//! Which process answers for which Jobs: a Lease a process, as nodes and leader election have them.
//!
//! Several processes may share an instance's name, because each client of a stdio server starts one of its own.
//! A Job names its process in a label; the process renews its Lease while it has Jobs. A process whose Lease is no
//! longer renewed is dead, and whoever writes its own name into that Lease answers for its Jobs: the API
//! server's optimistic lock lets exactly one do so. A process that ends in order deletes its Lease, and then
//! whoever creates it again answers.
//!
//! Whether a Lease is renewed is judged by watching it, not by comparing clocks of two machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client};
use tokio::time::Instant;

use crate::executor::api::{ApiError, call};
use crate::executor::cluster::Cluster;
use crate::ids::{DecisionId, ProcessId};
use crate::plan::manifest::{LABEL_INSTANCE, LABEL_MANAGED_BY, MANAGED_BY};

/// How often a Lease is renewed.
const RENEW: Duration = Duration::from_secs(8);

/// How long a Lease may be seen unchanged before its process counts as dead: three renewals and a slow server.
const STALE: Duration = Duration::from_secs(30);

/// How long a process without Jobs keeps its Lease.
const IDLE: Duration = Duration::from_secs(60);

/// How long one request for a Lease may take, repetitions included.
const REQUEST: Duration = Duration::from_secs(5);

/// What this process answers for. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ownership(Option<Arc<Inner>>);

struct Inner {
    cluster: Arc<Cluster>,
    process: ProcessId,
    instance: String,
    namespace: String,
    /// The calls and background jobs that run in this process.
    live: Mutex<BTreeSet<DecisionId>>,
    leases: tokio::sync::Mutex<Held>,
    /// Leases of others: the version last seen, and since when.
    seen: Mutex<HashMap<String, (String, Instant)>>,
}

#[derive(Default)]
struct Held {
    /// Of this process, and of those that it took over.
    leases: BTreeMap<ProcessId, Lease>,
    renewing: bool,
    /// The missing right was told.
    warned: bool,
}

/// How a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is this one, or this one took it over.
    Mine,
    /// It renews its Lease, or may.
    Alive,
    /// It has a Lease that nobody renews.
    Dead,
    /// It has no Lease: it ended in order, or may not have one.
    Absent,
}

/// A call or job that runs here. What nobody holds is an orphan.
pub(crate) struct Live {
    inner: Option<Arc<Inner>>,
    id: DecisionId,
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(inner) = &self.inner {
            lock(&inner.live).remove(&self.id);
        }
    }
}

impl std::fmt::Debug for Ownership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ownership").field(&self.0.as_ref().map(|inner| &inner.process)).finish()
    }
}

impl Ownership {
    /// A process that says nothing of itself and takes nothing over.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn new(cluster: Arc<Cluster>, process: ProcessId, instance: &str, namespace: &str) -> Self {
        Self(Some(Arc::new(Inner {
            cluster,
            process,
            instance: instance.to_owned(),
            namespace: namespace.to_owned(),
            live: Mutex::default(),
            leases: tokio::sync::Mutex::default(),
            seen: Mutex::default(),
        })))
    }

    /// The namespace and the instance, where there are processes to tell apart.
    pub(crate) fn scope(&self) -> Option<(&str, &str)> {
        self.0.as_ref().map(|inner| (inner.namespace.as_str(), inner.instance.as_str()))
    }

    /// Whether this process runs the call or job of that id.
    pub(crate) fn is_live(&self, id: DecisionId) -> bool {
        self.0.as_ref().is_some_and(|inner| lock(&inner.live).contains(&id))
    }

    /// Answers for a job from before it is created. A Lease that cannot be had keeps nothing from running: its
    /// Jobs then only expire, and are not found again.
    pub(crate) async fn hold(&self, client: &Client, id: DecisionId) -> Live {
        let Some(inner) = &self.0 else { return Live { inner: None, id } };
        lock(&inner.live).insert(id);
        let live = Live { inner: Some(Arc::clone(inner)), id };
        inner.appear(client).await;
        live
    }

    /// The Leases of this instance's processes.
    pub(crate) async fn others(&self, client: &Client) -> Result<BTreeMap<ProcessId, Lease>, ApiError> {
        let Some(inner) = &self.0 else { return Ok(BTreeMap::new()) };
        let selector = format!("{MANAGED_BY},{LABEL_INSTANCE}={}", inner.instance);
        let params = ListParams::default().labels(&selector);
        let leases = inner.api(client);
        let listed = call("list leases", REQUEST, || leases.list(&params)).await;
        let listed = listed.inspect_err(|_| {
            // What was not looked at for a while says nothing of its owner.
            lock(&inner.seen).clear();
        })?;
        let named = listed.items.into_iter().filter_map(|lease| {
            let name = lease.metadata.name.as_deref()?.strip_prefix(PREFIX)?;
            Some((ProcessId::recovered(name)?, lease))
        });
        let named: BTreeMap<ProcessId, Lease> = named.collect();
        let mut seen = lock(&inner.seen);
        seen.retain(|name, _| ProcessId::recovered(name).is_some_and(|process| named.contains_key(&process)));
        for (process, lease) in &named {
            let version = lease.metadata.resource_version.clone().unwrap_or_default();
            let known =
                seen.entry(process.as_str().to_owned()).or_insert_with(|| (version.clone(), Instant::now()));
            if known.0 != version {
                *known = (version, Instant::now());
            }
        }
        Ok(named)
    }

    /// How `process` stands, by what [`others`](Self::others) just gave.
    pub(crate) async fn standing(
        &self,
        process: &ProcessId,
        others: &BTreeMap<ProcessId, Lease>,
    ) -> Standing {
        let Some(inner) = &self.0 else { return Standing::Alive };
        if *process == inner.process || inner.leases.lock().await.leases.contains_key(process) {
            return Standing::Mine;
        }
        if !others.contains_key(process) {
            return Standing::Absent;
        }
        // Watched here, and not read off the Lease: two clocks may differ by any amount.
        let unchanged =
            lock(&inner.seen).get(process.as_str()).is_some_and(|(_, since)| since.elapsed() >= STALE);
        if unchanged { Standing::Dead } else { Standing::Alive }
    }

    /// Makes the Jobs of a dead or absent process this one's. `false` when another process was faster, or there
    /// is no right to.
    pub(crate) async fn take_over(
        &self,
        client: &Client,
        process: &ProcessId,
        others: &BTreeMap<ProcessId, Lease>,
    ) -> bool {
        let Some(inner) = &self.0 else { return false };
        let (leases, params) = (inner.api(client), PostParams::default());
        let mut held = inner.leases.lock().await;
        let taken = match others.get(process) {
            Some(lease) => {
                let mut lease = lease.clone();
                inner.sign(&mut lease);
                let name = lease_name(process);
                // With the version that was seen: a Lease that somebody wrote since is left alone.
                call("take a lease over", REQUEST, || leases.replace(&name, &params, &lease)).await
            }
            None => {
                let lease = inner.lease(process);
                call("create a lease", REQUEST, || leases.create(&params, &lease)).await
            }
        };
        match taken {
            Ok(lease) => {
                held.leases.insert(process.clone(), lease);
                self.keep_renewing(&mut held);
                true
            }
            Err(error) => {
                tracing::debug!(process = process.as_str(), %error, "the jobs of a process were not taken over");
                false
            }
        }
    }

    /// A process that was taken over has no Jobs left: its Lease goes.
    pub(crate) async fn settle(&self, client: &Client, process: &ProcessId) {
        let Some(inner) = &self.0 else { return };
        if *process == inner.process {
            return;
        }
        let mut held = inner.leases.lock().await;
        if let Some(lease) = held.leases.remove(process) {
            inner.delete(client, process, &lease).await;
        }
    }

    /// Whether that is another process than this one.
    pub(crate) fn is_other(&self, process: &ProcessId) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.process != *process)
    }

    /// The processes that were taken over.
    pub(crate) async fn taken_over(&self) -> Vec<ProcessId> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let held = inner.leases.lock().await;
        held.leases.keys().filter(|process| **process != inner.process).cloned().collect()
    }

    /// Answers for nothing any more, so that the next process need not wait.
    pub(crate) async fn leave(&self) {
        let Some(inner) = &self.0 else { return };
        let mut held = inner.leases.lock().await;
        if held.leases.is_empty() {
            return;
        }
        if let Ok(client) = inner.cluster.client().await {
            inner.give_up(&client, &mut held).await;
        }
    }

    fn keep_renewing(&self, held: &mut Held) {
        if let Some(inner) = &self.0
            && !held.renewing
        {
            held.renewing = true;
            tokio::spawn(renew(Arc::clone(inner)));
        }
    }
}

impl Inner {
    fn api(&self, client: &Client) -> Api<Lease> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    /// Makes this process's own Lease, unless it has one.
    async fn appear(self: &Arc<Self>, client: &Client) {
        let mut held = self.leases.lock().await;
        if held.leases.contains_key(&self.process) {
            return;
        }
        let (leases, params) = (self.api(client), PostParams::default());
        let lease = self.lease(&self.process);
        match call("create a lease", REQUEST, || leases.create(&params, &lease)).await {
            Ok(lease) => {
                held.leases.insert(self.process.clone(), lease);
                Ownership(Some(Arc::clone(self))).keep_renewing(&mut held);
            }
            Err(error) if !held.warned => {
                held.warned = true;
                tracing::warn!(
                    %error,
                    "this server has no lease, so its jobs cannot be found again after a restart, and what a crash \
                     leaves behind goes only when it expires; deploy/kubernetes.yaml has the rights"
                );
            }
            Err(_) => {}
        }
    }

    fn lease(&self, process: &ProcessId) -> Lease {
        let labels = [(LABEL_MANAGED_BY, "kubepermit"), (LABEL_INSTANCE, self.instance.as_str())];
        let mut lease = Lease {
            metadata: ObjectMeta {
                name: Some(lease_name(process)),
                labels: Some(labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        self.sign(&mut lease);
        lease
    }

    /// Writes this process and the time into a Lease.
    fn sign(&self, lease: &mut Lease) {
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.process.as_str().to_owned());
        spec.lease_duration_seconds = i32::try_from(STALE.as_secs()).ok();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }

    async fn delete(&self, client: &Client, process: &ProcessId, lease: &Lease) {
        let (leases, name) = (self.api(client), lease_name(process));
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: lease.metadata.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        if let Err(error) = call("delete a lease", REQUEST, || leases.delete(&name, &params)).await
            && error.code() != Some(404)
        {
            tracing::debug!(%error, "a lease is left behind");
        }
    }

    async fn give_up(&self, client: &Client, held: &mut Held) {
        for (process, lease) in std::mem::take(&mut held.leases) {
            self.delete(client, &process, &lease).await;
        }
    }

    async fn renew_all(&self, client: &Client, held: &mut Held) {
        let (leases, params) = (self.api(client), PostParams::default());
        for (process, lease) in std::mem::take(&mut held.leases) {
            let name = lease_name(&process);
            let mut renewed = lease.clone();
            self.sign(&mut renewed);
            let answer = call("renew a lease", REQUEST, || leases.replace(&name, &params, &renewed)).await;
            let kept = match answer {
                Ok(renewed) => Some(renewed),
                Err(error) if error.code() == Some(404) => {
                    let fresh = self.lease(&process);
                    call("create a lease", REQUEST, || leases.create(&params, &fresh)).await.ok()
                }
                // A renewal whose answer was lost has changed the version; another's writing has, too.
                Err(error) if error.code() == Some(409) => {
                    let now = call("read a lease", REQUEST, || leases.get(&name)).await.ok();
                    let holder = now.as_ref().and_then(|now| now.spec.as_ref()?.holder_identity.as_deref());
                    let lost = holder.is_some_and(|holder| holder != self.process.as_str());
                    if lost {
                        tracing::error!(
                            process = process.as_str(),
                            "another server took the jobs of this one over, since it was not heard of for {} s",
                            STALE.as_secs()
                        );
                    }
                    // For the jobs that are still to come, this process answers again.
                    if lost && process != self.process { None } else { now.or(Some(lease)) }
                }
                Err(error) => {
                    tracing::debug!(%error, "a lease could not be renewed");
                    Some(lease)
                }
            };
            held.leases.extend(kept.map(|lease| (process, lease)));
        }
    }
}

/// Renews until there has been nothing to answer for, for a while.
async fn renew(inner: Arc<Inner>) {
    let mut idle_since: Option<Instant> = None;
    loop {
        tokio::time::sleep(RENEW).await;
        let mut held = inner.leases.lock().await;
        let idle = lock(&inner.live).is_empty();
        idle_since = idle.then(|| idle_since.unwrap_or_else(Instant::now));
        let client = inner.cluster.client().await;
        if held.leases.is_empty() || idle_since.is_some_and(|since| since.elapsed() >= IDLE) {
            if let Ok(client) = client {
                inner.give_up(&client, &mut held).await;
            }
            held.renewing = false;
            return;
        }
        if let Ok(client) = client {
            inner.renew_all(&client, &mut held).await;
        }
    }
}

const PREFIX: &str = "kubepermit-";

fn lease_name(process: &ProcessId) -> String {
    format!("{PREFIX}{}", process.as_str())
}

/// A panic elsewhere leaves these sets whole: every change is one insert or removal.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
