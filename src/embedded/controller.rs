//! The Job controller: makes a Job's pods, counts how they end, and cleans up after Jobs.

mod pods;
mod status;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::{Instant, sleep_until};

use super::cluster::Cluster;
use super::deletion::delete_pod;
use super::events::{self, Note, Source};
use super::store::ChangeKind;

/// The finalizer of an object that goes after its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";

/// From a pod's failure to its replacement: doubled each time, as the real controller's.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// Follows Jobs and pods until the cluster ends.
pub async fn run(cluster: Arc<Cluster>) {
    let mut jobs_changed = cluster.store.jobs.subscribe();
    let mut pods_changed = cluster.store.pods.subscribe();
    let mut controller = Controller { cluster: Arc::clone(&cluster), tracked: HashMap::new(), seen: (0, 0) };
    let mut timers: BTreeMap<Key, Instant> = BTreeMap::new();
    loop {
        jobs_changed.borrow_and_update();
        pods_changed.borrow_and_update();
        let mut due = controller.observe();
        let now = Instant::now();
        due.extend(timers.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()));
        for key in due {
            timers.remove(&key);
            if let Some(after) = controller.reconcile(&key) {
                timers.insert(key, Instant::now() + after);
            }
        }
        let next = timers.values().min().copied();
        tokio::select! {
            result = jobs_changed.changed() => if result.is_err() { break },
            result = pods_changed.changed() => if result.is_err() { break },
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            () = cluster.stop.cancelled() => break,
        }
    }
}

/// Namespace and name.
type Key = (String, String);

struct Controller {
    cluster: Arc<Cluster>,
    /// What is known of each Job's pods, by the Job's UID.
    tracked: HashMap<String, Tracked>,
    /// Versions of the Jobs and pods up to which all is known.
    seen: (u64, u64),
}

/// What is known of a Job's pods, also of those that are gone.
#[derive(Debug, Default)]
struct Tracked {
    counted: BTreeSet<String>,
    succeeded: i32,
    failed: i32,
    retry_at: Option<Instant>,
}

impl Controller {
    /// Takes over what has changed; returns the Jobs to look at.
    fn observe(&mut self) -> BTreeSet<Key> {
        let mut due = BTreeSet::new();
        let cluster = Arc::clone(&self.cluster);
        let Ok(jobs) = cluster.store.jobs.since(self.seen.0) else {
            return self.observe_all();
        };
        let Ok(pods) = cluster.store.pods.since(self.seen.1) else {
            return self.observe_all();
        };
        for change in jobs {
            self.seen.0 = change.version;
            let meta = &change.object.metadata;
            if change.kind == ChangeKind::Deleted {
                self.collect_garbage(meta.uid.as_deref().unwrap_or_default());
            } else {
                due.insert(key(&meta.namespace, &meta.name));
            }
        }
        for change in pods {
            self.seen.1 = change.version;
            let Some(owner) = pods::owner(&change.object) else {
                continue;
            };
            due.insert(key(&change.object.metadata.namespace, &Some(owner.name.clone())));
            if change.kind == ChangeKind::Deleted {
                self.count(&owner.uid, &change.object, true, false);
            } else if cluster
                .store
                .jobs
                .get(change.object.metadata.namespace.as_deref().unwrap_or_default(), &owner.name)
                .is_none()
            {
                // Made in the moment in which its Job was deleted.
                delete_pod(&cluster.store, &change.object, None);
            }
        }
        due
    }

    /// After a storm of changes: looks at everything, also at pods whose Job went unseen.
    fn observe_all(&mut self) -> BTreeSet<Key> {
        let (jobs, jobs_seen) = self.cluster.store.jobs.list(None);
        let (pods, pods_seen) = self.cluster.store.pods.list(None);
        self.seen = (jobs_seen, pods_seen);
        let alive: BTreeSet<&str> = jobs.iter().filter_map(|job| job.metadata.uid.as_deref()).collect();
        for pod in &pods {
            if pods::owner(pod).is_some_and(|owner| !alive.contains(owner.uid.as_str())) {
                delete_pod(&self.cluster.store, pod, None);
            }
        }
        jobs.iter().map(|job| key(&job.metadata.namespace, &job.metadata.name)).collect()
    }

    /// Counts a pod once, when it has ended or is gone. `early` counts one that is on its way out as failed, too.
    fn count(&mut self, job: &str, pod: &Pod, gone: bool, early: bool) {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
        let leaving = early && pod.metadata.deletion_timestamp.is_some();
        let Some(tracked) = self.tracked.get_mut(job) else {
            return;
        };
        let succeeded = phase == "Succeeded";
        let ended = succeeded || phase == "Failed" || gone || leaving;
        if !ended || !tracked.counted.insert(pod.metadata.uid.clone().unwrap_or_default()) {
            return;
        }
        if succeeded {
            tracked.succeeded += 1;
            return;
        }
        // A pod that went without an end of its own has failed.
        tracked.failed += 1;
        let doubled = u32::try_from(tracked.failed - 1).unwrap_or_default().min(10);
        tracked.retry_at = Some(Instant::now() + (RETRY.0 * 2_u32.pow(doubled)).min(RETRY.1));
    }

    /// Brings a Job one step further. Returns when to look again, if time alone changes anything.
    fn reconcile(&mut self, (namespace, name): &Key) -> Option<Duration> {
        let cluster = Arc::clone(&self.cluster);
        let job = cluster.store.jobs.get(namespace, name)?;
        let uid = job.metadata.uid.clone()?;
        let own: Vec<Arc<Pod>> = self.own_pods(namespace, &uid);
        if job.metadata.deletion_timestamp.is_some() {
            own.iter().for_each(|pod| drop(delete_pod(&cluster.store, pod, None)));
            if own.is_empty() {
                cluster.store.jobs.remove(namespace, name, &uid);
                self.tracked.remove(&uid);
            }
            return None;
        }
        self.tracked.entry(uid.clone()).or_default();
        let policy = job.spec.as_ref().and_then(|spec| spec.pod_replacement_policy.as_deref());
        for pod in &own {
            self.count(&uid, pod, false, policy != Some("Failed"));
        }
        let tracked = self.tracked.get(&uid)?;
        let view = status::View::new(&job, &own, tracked.succeeded, tracked.failed);
        if let Some(finished) = view.finished_at() {
            let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished)?;
            let left = i64::from(ttl).saturating_sub(Timestamp::now().duration_since(finished).as_secs());
            if left > 0 {
                return Some(Duration::from_secs(u64::try_from(left).unwrap_or_default()));
            }
            cluster.store.jobs.remove(namespace, name, &uid);
            return None;
        }
        let step = view.step();
        let mut again = view.deadline();
        match step {
            status::Step::Stop => {
                for pod in own.iter().filter(|pod| status::is_active(pod)) {
                    let message =
                        format!("Deleted pod: {}", pod.metadata.name.as_deref().unwrap_or_default());
                    self.event(&job, false, "SuccessfulDelete", &message);
                    delete_pod(&cluster.store, pod, None);
                }
            }
            status::Step::Create(count) => {
                let wait = tracked.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
                match wait.filter(|wait| !wait.is_zero()) {
                    Some(wait) => again = Some(again.map_or(wait, |other| other.min(wait))),
                    None => {
                        if let Err(wait) = self.create(&job, count) {
                            again = Some(again.map_or(wait, |other| other.min(wait)));
                        }
                    }
                }
            }
            status::Step::Wait => {}
        }
        let own = self.own_pods(namespace, &uid);
        let tracked = self.tracked.get(&uid)?;
        let view = status::View::new(&job, &own, tracked.succeeded, tracked.failed);
        let mut news = Vec::new();
        cluster.store.jobs.update(namespace, name, &uid, |job| {
            let before = job.status.clone();
            news = view.write(job);
            job.status != before
        });
        for (warning, reason, message) in news {
            self.event(&job, warning, reason, message);
        }
        again
    }

    /// Makes pods. When one cannot be made, says when to try again.
    fn create(&self, job: &Job, count: usize) -> Result<(), Duration> {
        for _ in 0..count {
            let made = pods::from_template(job).and_then(|pod| {
                let taken = |_| "object is being created: already exists".to_owned();
                self.cluster.store.pods.create(pod).map_err(taken)
            });
            match made {
                Ok(pod) => {
                    let message =
                        format!("Created pod: {}", pod.metadata.name.as_deref().unwrap_or_default());
                    self.event(job, false, "SuccessfulCreate", &message);
                }
                Err(why) => {
                    self.event(job, true, "FailedCreate", &format!("Error creating: {why}"));
                    return Err(RETRY.0);
                }
            }
        }
        Ok(())
    }

    /// Deletes what a Job that is gone has left.
    fn collect_garbage(&mut self, uid: &str) {
        self.tracked.remove(uid);
        let (pods, _) = self.cluster.store.pods.list(None);
        for pod in pods.iter().filter(|pod| pods::owner(pod).is_some_and(|owner| owner.uid == uid)) {
            delete_pod(&self.cluster.store, pod, None);
        }
    }

    fn own_pods(&self, namespace: &str, uid: &str) -> Vec<Arc<Pod>> {
        let (mut pods, _) = self.cluster.store.pods.list(Some(namespace));
        pods.retain(|pod| pods::owner(pod).is_some_and(|owner| owner.uid == uid));
        pods
    }

    fn event(&self, job: &Job, warning: bool, reason: &str, message: &str) {
        let note = Note { source: Source::JobController, warning, reason, message, field_path: None };
        events::record(&self.cluster.store, job, note);
    }
}

fn key(namespace: &Option<String>, name: &Option<String>) -> Key {
    (namespace.clone().unwrap_or_default(), name.clone().unwrap_or_default())
}
