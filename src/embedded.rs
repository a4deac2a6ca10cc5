//! A one-machine stand-in for a cluster: the part of the Kubernetes API that kubepermit uses.
//!
//! [`Embedded::start`] serves it on the loopback address and writes a kubeconfig; nothing else in the program
//! knows that it exists. Behind the API stand the same parts as in a real cluster, each in a file of its own:
//! the objects ([`store`]), the API server ([`api`]), the Job controller ([`controller`]), the scheduler
//! ([`scheduler`]) and the node's agent ([`kubelet`]), which runs each container's command as a local process.
//!
//! It is made for trying kubepermit out and for its tests. It is not isolation for hostile code.

pub mod api;
mod cluster;
mod controller;
mod deletion;
mod events;
mod folder;
mod images;
mod kubeconfig;
mod kubelet;
mod names;
mod node;
mod quantity;
mod runner;
pub mod sandbox;
mod scheduler;
mod server;
mod storage;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use cluster::Cluster;
use folder::Home;
use kubelet::Kubelet;
use node::Machine;
use sandbox::{Confinement, Sandbox};
pub use storage::EmbeddedExtras;
use storage::Storage;
use store::Store;

/// What the embedded cluster is to be like.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Namespaces to make, besides `default`.
    pub namespaces: Vec<String>,
    /// This program, which the confinement starts again as a container's first process.
    pub launcher: PathBuf,
    /// Whether containers run without confinement.
    pub unconfined: bool,
    /// What is not there unless it is asked for.
    pub extras: EmbeddedExtras,
}

/// A running embedded cluster. Dropping it ends it.
#[derive(Debug)]
pub struct Embedded {
    cluster: Arc<Cluster>,
    kubeconfig: PathBuf,
}

/// Why the embedded cluster does not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Its private directory cannot be made.
    #[error("cannot prepare the embedded cluster's directory")]
    Directory(#[source] io::Error),
    /// It cannot listen.
    #[error("cannot listen on the loopback address for the embedded cluster")]
    Listen(#[source] io::Error),
    /// Its containers cannot be confined here.
    #[error("cannot start the embedded cluster")]
    Confine(#[source] sandbox::WhyNot),
    /// Its containers cannot even be run without confinement.
    #[error("cannot run a container without confinement: {0}")]
    Run(String),
}

impl Embedded {
    /// Starts it. Must be called inside a tokio runtime, in which it runs.
    ///
    /// # Errors
    /// When its directory or its listener cannot be made, or its containers cannot be run as wanted.
    pub async fn start(options: EmbeddedOptions) -> Result<Self, EmbeddedError> {
        let sandbox = if options.unconfined {
            let found = Sandbox::try_out(&options.launcher, Confinement::Unconfined).await;
            found.map_err(EmbeddedError::Run)?
        } else {
            Sandbox::probe(&options.launcher).await.map_err(EmbeddedError::Confine)?
        };
        let passing = sandbox.passing_group();
        let home = tokio::task::spawn_blocking(move || {
            let parent = std::env::temp_dir();
            folder::sweep(&parent);
            Home::make(&parent, passing)
        });
        let home = home.await.map_err(io::Error::other).flatten().map_err(EmbeddedError::Directory)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(EmbeddedError::Listen)?;
        let address = listener.local_addr().map_err(EmbeddedError::Listen)?;
        let links = link_programs(home.path(), passing).map_err(EmbeddedError::Directory)?;
        let storage = Storage::make(home.path(), passing, &options).map_err(EmbeddedError::Directory)?;
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let reader = format!("reader-{}", Uuid::new_v4().simple());
        let namespace = options.namespaces.first().map_or("default", String::as_str);
        let kubeconfig = kubeconfig::write(home.path(), address, (&token, &reader), namespace)
            .map_err(EmbeddedError::Directory)?;
        let machine = Machine::measure();
        let cluster = Arc::new(Cluster {
            store: Store::new(),
            kubelet: Kubelet::new(sandbox, links, storage),
            machine,
            token,
            reader,
            home,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        populate(&cluster, &options.namespaces);
        cluster.kubelet.storage.publish(&cluster.store);
        let router = api::router(&cluster);
        cluster.tasks.spawn(server::run(Arc::clone(&cluster), listener, router));
        cluster.tasks.spawn(kubelet::run(Arc::clone(&cluster)));
        cluster.tasks.spawn(controller::run(Arc::clone(&cluster)));
        tracing::debug!(%address, "the embedded cluster listens");
        Ok(Self { cluster, kubeconfig })
    }

    /// The kubeconfig file that leads kubectl to it. kubectl sends no token over plain HTTP, so the server's URL holds
    /// a secret word instead, which opens reads alone.
    #[must_use]
    pub fn kubectl_kubeconfig(&self) -> PathBuf {
        self.kubeconfig.with_file_name(kubeconfig::FOR_KUBECTL)
    }

    /// The kubeconfig file that leads this program to it.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The images for an allowlist: one of each repository that this machine can make, so that its short name
    /// means exactly one.
    #[must_use]
    pub fn images() -> Vec<String> {
        images::listed()
    }

    /// What this is, in one or two sentences for whoever starts it.
    #[must_use]
    pub fn notice(&self) -> String {
        let confinement = self.cluster.kubelet.sandbox.describe();
        let network = match &self.cluster.kubelet.storage.network_image {
            Some(image) => format!(" Init containers of `{image}` use this machine's network."),
            None => String::new(),
        };
        format!("No cluster is used: the program stands in for one on this machine; {confinement}.{network}")
    }

    /// Ends every pod and removes all files.
    pub async fn stop(self) {
        self.cluster.stop.cancel();
        self.cluster.tasks.close();
        self.cluster.tasks.wait().await;
        // The files go with the cluster, which no task holds any more.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The tasks end their processes when they see it; or the runtime drops them, which does so, too.
        self.cluster.stop.cancel();
    }
}

/// A directory of links for each image, in which its commands have their names.
fn link_programs(directory: &Path, passing: Option<u32>) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut all = BTreeMap::new();
    let images = directory.join("images");
    folder::make_private(&images, passing)?;
    for (index, name) in images::available().into_iter().enumerate() {
        let Ok(image) = images::resolve(&name) else {
            continue;
        };
        let links = images.join(index.to_string());
        std::fs::create_dir(&links)?;
        // Containers look into it as a user of their own.
        std::fs::set_permissions(&links, Permissions::from_mode(0o755))?;
        for (command, program) in &image.links {
            std::os::unix::fs::symlink(program, links.join(command))?;
        }
        all.insert(image.name, links);
    }
    Ok(all)
}

fn populate(cluster: &Cluster, namespaces: &[String]) {
    let names: BTreeSet<&str> = namespaces.iter().map(String::as_str).chain(["default"]).collect();
    for name in names {
        let labels = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]);
        let metadata =
            ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
        let status = Some(NamespaceStatus { phase: Some("Active".to_owned()), conditions: None });
        // The set has no name twice.
        let _ = cluster.store.namespaces.create(Namespace { metadata, spec: None, status });
    }
    let _ = cluster.store.nodes.create(cluster.machine.node());
}
