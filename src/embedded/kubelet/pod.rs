//! A pod's worker: schedules it, starts its containers in order, and keeps its status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::PodHandle;
use super::container::{Report, Task, stopped};
use super::status::{Progress, Record, State, set_condition};
use super::usage::Bounds;
use super::volumes;
use crate::embedded::cluster::Cluster;
use crate::embedded::events::{self, Note, Source};
use crate::embedded::folder;
use crate::embedded::node::NODE_NAME;
use crate::embedded::scheduler;

/// The grace of a pod that names none.
const DEFAULT_GRACE: i64 = 30;

/// The grace of an eviction for the disk: the kubelet's for those that cannot wait.
const EVICTION_GRACE: Duration = Duration::from_secs(1);

/// Runs a pod from its creation to its end.
pub async fn run(cluster: Arc<Cluster>, pod: Arc<Pod>, handle: Arc<PodHandle>) {
    if !schedule(&cluster, &pod) {
        let mut stop = handle.stop.subscribe();
        stopped(&mut stop).await;
        remove(&cluster, &pod);
        return;
    }
    let (sender, reports) = mpsc::unbounded_channel();
    let spec = pod.spec.clone().unwrap_or_default();
    let init: Vec<Container> = spec.init_containers.clone().unwrap_or_default();
    let waiting = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let progress = Progress {
        init: init.iter().map(|container| Record::new(container, "PodInitializing")).collect(),
        main: spec.containers.iter().map(|container| Record::new(container, waiting)).collect(),
        started: Timestamp::now(),
        ip: None,
        failed: None,
        busy: false,
    };
    let deadline = spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
    let worker = Worker {
        stop: handle.stop.subscribe(),
        told: None,
        cluster,
        pod,
        handle,
        spec,
        progress,
        deadline: deadline.map(|time| Instant::now() + time),
        volumes: Arc::default(),
        sender,
        reports,
        containers: BTreeMap::new(),
        ended: BTreeSet::new(),
        ending: false,
    };
    worker.live().await;
}

/// A container's place in the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Init(usize),
    Main(usize),
}

struct Worker {
    cluster: Arc<Cluster>,
    pod: Arc<Pod>,
    handle: Arc<PodHandle>,
    spec: PodSpec,
    progress: Progress,
    deadline: Option<Instant>,
    stop: watch::Receiver<Option<Duration>>,
    /// The grace that the containers were told already.
    told: Option<Duration>,
    volumes: Arc<BTreeMap<String, PathBuf>>,
    sender: mpsc::UnboundedSender<(Slot, Report)>,
    reports: mpsc::UnboundedReceiver<(Slot, Report)>,
    /// The containers whose tasks were started, and how to stop each.
    containers: BTreeMap<Slot, watch::Sender<Option<Duration>>>,
    /// The containers whose tasks have ended.
    ended: BTreeSet<Slot>,
    /// No more containers are started.
    ending: bool,
}

impl Worker {
    async fn live(mut self) {
        self.publish();
        let directory = self.handle.directory.path().join("volumes");
        let kubelet = &self.cluster.kubelet;
        match volumes::prepare(&self.pod, &directory, kubelet.sandbox.passing_group(), &kubelet.storage) {
            Ok(volumes) => {
                self.volumes = Arc::new(volumes);
                self.progress.ip = Some(self.address());
            }
            Err(message) => self.event(true, "FailedMount", &message),
        }
        // Without its volumes a pod waits, as a real one does until they appear.
        let mounted = self.progress.ip.is_some();
        let exceeded = exceeded(Bounds::of(&self.spec, &self.volumes), Arc::clone(&self.handle));
        tokio::pin!(exceeded);
        loop {
            if mounted && !self.ending {
                self.advance();
            }
            self.progress.busy = self.containers.len() != self.ended.len();
            // While it stops a failed pod, the kubelet is busy with that: nobody sees its containers end one by one.
            let silent = self.progress.failed.is_some() && self.progress.busy;
            let deleted = !silent && self.publish();
            if self.is_over(deleted) {
                break;
            }
            let deadline = self.deadline.unwrap_or_else(Instant::now);
            tokio::select! {
                Some((slot, report)) = self.reports.recv() => self.apply(slot, report),
                grace = another_grace(&mut self.stop, self.told) => {
                    self.told = Some(grace);
                    self.end(grace);
                }
                () = sleep_until(deadline), if self.deadline.is_some() && !self.ending => self.expire(),
                message = &mut exceeded, if !self.ending => self.evict(message),
            }
        }
        // The volumes go with the pod's end, its logs with its deletion.
        let removed = tokio::task::spawn_blocking(move || folder::remove(&directory)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "the volumes of a pod were left behind");
        }
    }

    /// Starts what is next in order.
    fn advance(&mut self) {
        for index in 0..self.progress.init.len() {
            let Some(record) = self.progress.init.get(index) else {
                return;
            };
            let settled = match (&record.state, record.sidecar) {
                (State::Terminated(ended), false) if ended.code != 0 => return self.end(self.grace()),
                (State::Terminated(_), _) | (State::Running { .. }, true) => true,
                (State::Running { .. }, false) | (State::Waiting { .. }, _) => false,
            };
            if !settled {
                return self.start(Slot::Init(index));
            }
        }
        for index in 0..self.progress.main.len() {
            let slot = Slot::Main(index);
            if !self.containers.contains_key(&slot) {
                return self.start(slot);
            }
            // The next one starts when this one has said anything at all.
            let Some(record) = self.progress.main.get(index) else {
                return;
            };
            if matches!(&record.state, State::Waiting { reason, .. } if reason == "ContainerCreating" || reason == "PodInitializing")
            {
                return;
            }
        }
        if self.progress.main.iter().all(|record| record.exit_code().is_some()) {
            self.end(self.grace());
        }
    }

    fn start(&mut self, slot: Slot) {
        if self.containers.contains_key(&slot) {
            return;
        }
        let (container, list) = match slot {
            Slot::Init(index) => {
                (self.spec.init_containers.as_ref().and_then(|all| all.get(index)), "spec.initContainers")
            }
            Slot::Main(index) => (self.spec.containers.get(index), "spec.containers"),
        };
        let Some(container) = container.cloned() else {
            return;
        };
        let stop = watch::Sender::new(None);
        let task = Task {
            cluster: Arc::clone(&self.cluster),
            pod: Arc::clone(&self.pod),
            handle: Arc::clone(&self.handle),
            container,
            list,
            volumes: Arc::clone(&self.volumes),
            pod_ip: self.progress.ip.clone().unwrap_or_default(),
            stop: stop.subscribe(),
            reports: (slot, self.sender.clone()),
        };
        self.containers.insert(slot, stop);
        self.cluster.tasks.spawn(task.run());
    }

    fn apply(&mut self, slot: Slot, report: Report) {
        let record = match slot {
            Slot::Init(index) => self.progress.init.get_mut(index),
            Slot::Main(index) => self.progress.main.get_mut(index),
        };
        let Some(record) = record else { return };
        match report {
            Report::Waiting { reason, message } => {
                record.state = State::Waiting { reason: reason.to_owned(), message: Some(message) };
            }
            Report::Running { image, image_id, id, started } => {
                record.image = image;
                record.image_id = image_id;
                record.id = Some(id);
                record.state = State::Running { started };
            }
            Report::Ended(ended) => {
                record.state = State::Terminated(ended);
                self.ended.insert(slot);
            }
            Report::NeverStarted => {
                self.ended.insert(slot);
            }
        }
    }

    /// Stops every container that was started and has not ended.
    fn end(&mut self, grace: Duration) {
        self.ending = true;
        let running: Vec<Slot> =
            self.containers.keys().filter(|slot| !self.ended.contains(slot)).copied().collect();
        for slot in running {
            let record = match slot {
                Slot::Init(index) => self.progress.init.get(index),
                Slot::Main(index) => self.progress.main.get(index),
            };
            if let Some(record) = record
                && matches!(record.state, State::Running { .. })
            {
                let message = format!("Stopping container {}", record.name);
                self.event(false, "Killing", &message);
            }
            if let Some(stop) = self.containers.get(&slot) {
                stop.send_replace(Some(grace));
            }
        }
    }

    /// The pod's own deadline has passed.
    fn expire(&mut self) {
        let message = "Pod was active on the node longer than the specified deadline";
        self.event(true, "DeadlineExceeded", message);
        self.progress.failed = Some(("DeadlineExceeded".to_owned(), message.to_owned()));
        self.end(self.grace());
    }

    /// The pod uses more of the disk than it may.
    fn evict(&mut self, message: String) {
        self.event(true, "Evicted", &message);
        self.progress.failed = Some(("Evicted".to_owned(), message));
        self.end(EVICTION_GRACE);
    }

    /// Whether nothing is left to do; a deleted pod is removed then.
    fn is_over(&self, deleted: bool) -> bool {
        if !self.ending || self.containers.len() != self.ended.len() {
            return false;
        }
        if deleted || self.cluster.stop.is_cancelled() {
            remove(&self.cluster, &self.pod);
        }
        true
    }

    /// Writes the status. Says whether the pod is being deleted, or is gone.
    fn publish(&self) -> bool {
        let meta = &self.pod.metadata;
        let (namespace, name, uid) = (meta.namespace.as_deref(), meta.name.as_deref(), meta.uid.as_deref());
        let written = self.cluster.store.pods.update(
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
            uid.unwrap_or_default(),
            |pod| {
                let before = pod.status.clone();
                self.progress.write(pod);
                pod.status != before
            },
        );
        written.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    fn grace(&self) -> Duration {
        let seconds = self.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE);
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    /// An address for the pod: of a network that is not routed, and not in use by anything.
    fn address(&self) -> String {
        let uid = self.pod.metadata.uid.as_deref().and_then(|uid| uid.parse::<Uuid>().ok());
        let [.., third, fourth] = uid.unwrap_or_default().into_bytes();
        Ipv4Addr::new(10, 244, third, fourth).to_string()
    }

    fn event(&self, warning: bool, reason: &str, message: &str) {
        let note = Note { source: Source::Kubelet, warning, reason, message, field_path: None };
        events::record(&self.cluster.store, &*self.pod, note);
    }
}

/// The grace, once it is another than the one that is known.
async fn another_grace(stop: &mut watch::Receiver<Option<Duration>>, told: Option<Duration>) -> Duration {
    // The sender lives in the handle that the worker holds.
    stop.wait_for(|grace| *grace != told).await.ok().and_then(|grace| *grace).unwrap_or_default()
}

/// Why the pod is to be evicted, once its running containers have used more of the disk than they may.
async fn exceeded(bounds: Option<Bounds>, handle: Arc<PodHandle>) -> String {
    match bounds {
        Some(bounds) => Arc::new(bounds).exceeded(|| handle.runs()).await,
        None => std::future::pending().await,
    }
}

/// Gives the pod to the node, or says why not.
fn schedule(cluster: &Cluster, pod: &Pod) -> bool {
    let fit = scheduler::fit(&cluster.machine, &cluster.kubelet.storage, pod);
    let meta = &pod.metadata;
    cluster.store.pods.update(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
        |pod| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            match &fit {
                Ok(()) => {
                    set_condition(conditions, "PodScheduled", true, None, None);
                    pod.spec.get_or_insert_default().node_name = Some(NODE_NAME.to_owned());
                }
                Err(why) => {
                    set_condition(conditions, "PodScheduled", false, Some("Unschedulable"), Some(why))
                }
            }
            true
        },
    );
    let name = format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    let (warning, reason, message) = match &fit {
        Ok(()) => (false, "Scheduled", format!("Successfully assigned {name} to {NODE_NAME}")),
        Err(why) => (true, "FailedScheduling", why.clone()),
    };
    let note = Note { source: Source::Scheduler, warning, reason, message: &message, field_path: None };
    events::record(&cluster.store, pod, note);
    fit.is_ok()
}

fn remove(cluster: &Cluster, pod: &Pod) {
    let meta = &pod.metadata;
    if let (Some(namespace), Some(name), Some(uid)) = (&meta.namespace, &meta.name, &meta.uid) {
        cluster.store.pods.remove(namespace, name, uid);
    }
}
