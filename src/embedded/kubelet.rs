//! The node's agent: gives every pod a worker, and tells it when its pod is to end.

mod container;
mod expand;
mod launch;
pub mod log;
mod pod;
pub mod status;
mod usage;
mod volumes;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::folder::Folder;
use super::runner::Launch;
use super::sandbox::Sandbox;
use super::storage::Storage;
use super::store::ChangeKind;
use log::Log;

/// What runs on the node.
#[derive(Debug)]
pub struct Kubelet {
    /// What runs and confines the processes.
    pub sandbox: Sandbox,
    /// Links to the images' commands, by image name.
    pub links: BTreeMap<String, PathBuf>,
    /// Secrets and claims.
    pub storage: Storage,
    pods: Mutex<HashMap<String, Arc<PodHandle>>>,
}

/// A pod on the node, from its creation to its removal.
#[derive(Debug)]
pub struct PodHandle {
    /// The pod's files; gone with the handle.
    directory: Folder,
    /// The output of each container.
    logs: BTreeMap<String, Arc<Log>>,
    /// The containers that run now.
    running: Mutex<BTreeMap<String, Running>>,
    /// Set to the grace when the pod is to end.
    stop: watch::Sender<Option<Duration>>,
}

/// A running container, for those who want to execute something in it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The container's process; with another argv it is one in the same place.
    pub launch: Launch,
    /// Cancelled when the container has ended.
    pub gone: CancellationToken,
}

impl Kubelet {
    /// A kubelet without pods.
    #[must_use]
    pub fn new(sandbox: Sandbox, links: BTreeMap<String, PathBuf>, storage: Storage) -> Self {
        Self { sandbox, links, storage, pods: Mutex::new(HashMap::new()) }
    }

    /// The output of a pod's container.
    #[must_use]
    pub fn log(&self, uid: &str, container: &str) -> Option<Arc<Log>> {
        self.handle(uid)?.logs.get(container).cloned()
    }

    /// A container of a pod, if it runs.
    #[must_use]
    pub fn running(&self, uid: &str, container: &str) -> Option<Running> {
        self.handle(uid)?.running.lock().unwrap_or_else(PoisonError::into_inner).get(container).cloned()
    }

    fn handle(&self, uid: &str) -> Option<Arc<PodHandle>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    fn insert(&self, uid: &str, handle: &Arc<PodHandle>) {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.insert(uid.to_owned(), Arc::clone(handle));
    }

    fn remove(&self, uid: &str) -> Option<Arc<PodHandle>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(uid)
    }

    fn drain(&self) -> Vec<Arc<PodHandle>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).drain().map(|(_, handle)| handle).collect()
    }
}

impl PodHandle {
    fn new(pod: &Pod, directory: Folder) -> Self {
        let spec = pod.spec.as_ref();
        let containers = spec.iter().flat_map(|s| s.init_containers.iter().flatten().chain(&s.containers));
        let logs = containers
            .map(|container| {
                let path = directory.path().join("logs").join(&container.name);
                (container.name.clone(), Arc::new(Log::new(path)))
            })
            .collect();
        Self { directory, logs, running: Mutex::default(), stop: watch::Sender::new(None) }
    }

    /// Whether any of its containers runs.
    fn runs(&self) -> bool {
        !self.running.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Tells the pod to end. A shorter grace replaces a longer one.
    fn end(&self, grace: Duration) {
        self.stop.send_if_modified(|current| {
            let shorter = current.is_none_or(|known| grace < known);
            if shorter {
                *current = Some(grace);
            }
            shorter
        });
    }
}

/// Follows the pods until the cluster ends, then ends them all.
pub async fn run(cluster: Arc<Cluster>) {
    let mut changed = cluster.store.pods.subscribe();
    let mut version = 0;
    loop {
        changed.borrow_and_update();
        match cluster.store.pods.since(version) {
            Ok(changes) => {
                for change in changes {
                    version = change.version;
                    follow(&cluster, change.kind, &change.object);
                }
            }
            Err(old) => {
                // Only a storm of changes between two turns of this loop gets here.
                tracing::warn!(oldest = old.oldest, "the embedded kubelet missed changes of pods");
                let (pods, now) = cluster.store.pods.list(None);
                version = now;
                for pod in pods {
                    follow(&cluster, ChangeKind::Added, &pod);
                }
            }
        }
        tokio::select! {
            result = changed.changed() => if result.is_err() { break },
            () = cluster.stop.cancelled() => break,
        }
    }
    for handle in cluster.kubelet.drain() {
        handle.end(Duration::ZERO);
    }
}

fn follow(cluster: &Arc<Cluster>, change: ChangeKind, pod: &Arc<Pod>) {
    let Some(uid) = pod.metadata.uid.as_deref() else {
        return;
    };
    if change == ChangeKind::Deleted {
        if let Some(handle) = cluster.kubelet.remove(uid) {
            handle.end(Duration::ZERO);
        }
        return;
    }
    let handle = match cluster.kubelet.handle(uid) {
        Some(handle) => handle,
        None if change == ChangeKind::Added => {
            let passing = cluster.kubelet.sandbox.passing_group();
            let directory = Folder::make(cluster.home.path(), "pod-", passing);
            let Ok(directory) = directory else {
                tracing::error!(pod = pod.metadata.name, "no directory for a pod of the embedded cluster");
                return;
            };
            let handle = Arc::new(PodHandle::new(pod, directory));
            cluster.kubelet.insert(uid, &handle);
            cluster.tasks.spawn(pod::run(Arc::clone(cluster), Arc::clone(pod), Arc::clone(&handle)));
            handle
        }
        None => return,
    };
    if pod.metadata.deletion_timestamp.is_some() {
        let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        handle.end(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    }
}
