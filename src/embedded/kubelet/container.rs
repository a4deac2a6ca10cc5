//! One container, from its image to its end.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::launch::{Surroundings, prepare};
use super::log::Log;
use super::status::Ended;
use super::{PodHandle, Running};
use crate::embedded::cluster::Cluster;
use crate::embedded::events::{self, Note, Source};
use crate::embedded::images::{self, Image, ImageError};
use crate::embedded::runner;
use crate::embedded::sandbox::{ContainerProcess, Exit};

/// From a failed pull to the news that the kubelet backs off.
const UNTIL_BACK_OFF: Duration = Duration::from_secs(1);

/// The first back-off between two pulls, and the longest: the kubelet's.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// How long output may still arrive once the process is gone.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What a container's task tells the pod's worker.
#[derive(Debug)]
pub enum Report {
    /// It does not start, for the time being.
    Waiting {
        /// `ErrImagePull`, ...
        reason: &'static str,
        /// The details.
        message: String,
    },
    /// It runs.
    Running {
        /// The image's full name.
        image: String,
        /// The image's digest.
        image_id: String,
        /// The container's id.
        id: String,
        /// Since when.
        started: Timestamp,
    },
    /// It has ended.
    Ended(Ended),
    /// It was told to stop before it started.
    NeverStarted,
}

/// A container's task.
#[derive(Debug)]
pub struct Task<S> {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The pod.
    pub pod: Arc<Pod>,
    /// The pod on the node.
    pub handle: Arc<PodHandle>,
    /// The container's spec.
    pub container: Container,
    /// `spec.containers` or `spec.initContainers`.
    pub list: &'static str,
    /// The pod's volumes.
    pub volumes: Arc<BTreeMap<String, PathBuf>>,
    /// The pod's address.
    pub pod_ip: String,
    /// Set to the grace when the container is to end.
    pub stop: watch::Receiver<Option<Duration>>,
    /// Where reports go, and under which key.
    pub reports: (S, mpsc::UnboundedSender<(S, Report)>),
}

impl<S: Copy> Task<S> {
    /// Runs the container to its end.
    pub async fn run(mut self) {
        let last = self.live().await.unwrap_or(Report::NeverStarted);
        if let Some(log) = self.handle.logs.get(&self.container.name) {
            log.close();
        }
        self.report(last);
    }

    /// `None` when it was stopped before it started.
    async fn live(&mut self) -> Option<Report> {
        let image = self.pull().await?;
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let links = self.cluster.kubelet.links.get(&image.name).cloned().unwrap_or_default();
        let around = Surroundings {
            image: &image,
            volumes: &self.volumes,
            links: &links,
            pod_ip: &self.pod_ip,
            network: self.may_use_network(),
        };
        let launch = match prepare(&self.pod, &self.container, around) {
            Ok(launch) => launch,
            Err(message) => {
                self.event(true, "Failed", &format!("Error: {message}"));
                self.report(Report::Waiting { reason: "CreateContainerConfigError", message });
                stopped(&mut self.stop).await;
                return None;
            }
        };
        let log = self.handle.logs.get(&self.container.name).cloned()?;
        let name = self.container.name.clone();
        if let Err(error) = make_log_folder(&self.handle.directory.path().join("logs").join(&name)) {
            self.report(Report::Waiting { reason: "CreateContainerError", message: error.to_string() });
            stopped(&mut self.stop).await;
            return None;
        }
        self.event(false, "Created", &format!("Created container: {name}"));
        let id = format!("kubepermit://{}", Uuid::new_v4().simple());
        let started = Timestamp::now();
        let (mut process, output) = match runner::start_container(&self.cluster.kubelet.sandbox, &launch)
            .await
        {
            Ok(started) => started,
            Err(error) => {
                let message = format!(
                    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
                     create failed: unable to start container process: error during container init: {error}"
                );
                self.event(true, "Failed", &format!("Error: {message}"));
                return Some(Report::Ended(Ended {
                    code: 128,
                    reason: "StartError".to_owned(),
                    message: Some(message),
                    started: Timestamp::UNIX_EPOCH,
                    finished: Timestamp::now(),
                }));
            }
        };
        let gone = CancellationToken::new();
        self.set_running(Some(Running { launch, gone: gone.clone() }));
        self.event(false, "Started", &format!("Started container {name}"));
        self.report(Report::Running { image: image.name, image_id: image.id, id, started });
        tracing::trace!(pod = uid, container = name, "a container of the embedded cluster runs");
        let exit = self.attend(&mut process, output, &log).await;
        gone.cancel();
        self.set_running(None);
        let reason = match exit {
            Exit::OutOfMemory => "OOMKilled",
            Exit::Code(0) => "Completed",
            Exit::Code(_) | Exit::Signal(_) => "Error",
        };
        let finished = Timestamp::now();
        Some(Report::Ended(Ended {
            code: exit.code(),
            reason: reason.to_owned(),
            message: None,
            started,
            finished,
        }))
    }

    /// An init container of the one image that may: a call cannot make one.
    fn may_use_network(&self) -> bool {
        let image = &self.cluster.kubelet.storage.network_image;
        self.list == "spec.initContainers" && image.is_some() && *image == self.container.image
    }

    /// Finds the image, as often as it takes. `None` when the container is told to stop meanwhile.
    async fn pull(&mut self) -> Option<Image> {
        let name = self.container.image.clone().unwrap_or_default();
        let mut back_off = BACK_OFF.0;
        loop {
            let failure = match images::resolve(&name) {
                Ok(image) => {
                    let present = format!("Container image {name:?} already present on machine");
                    self.event(false, "Pulled", &present);
                    return Some(image);
                }
                Err(ImageError::Invalid(message)) => {
                    self.event(true, "InspectFailed", &message);
                    self.event(true, "Failed", "Error: InvalidImageName");
                    self.report(Report::Waiting { reason: "InvalidImageName", message });
                    stopped(&mut self.stop).await;
                    return None;
                }
                Err(ImageError::NotFound(message)) => message,
            };
            if self.container.image_pull_policy.as_deref() == Some("Never") {
                let message = format!("Container image {name:?} is not present with pull policy of Never");
                self.event(true, "ErrImageNeverPull", &message);
                self.event(true, "Failed", "Error: ErrImageNeverPull");
                self.report(Report::Waiting { reason: "ErrImageNeverPull", message });
                stopped(&mut self.stop).await;
                return None;
            }
            self.event(false, "Pulling", &format!("Pulling image {name:?}"));
            self.event(true, "Failed", &format!("Failed to pull image {name:?}: {failure}"));
            self.event(true, "Failed", "Error: ErrImagePull");
            self.report(Report::Waiting { reason: "ErrImagePull", message: failure.clone() });
            self.pause(UNTIL_BACK_OFF).await?;
            let waiting = format!("Back-off pulling image {name:?}");
            self.event(false, "BackOff", &waiting);
            self.event(true, "Failed", "Error: ImagePullBackOff");
            let message = format!("{waiting}: ErrImagePull: {failure}");
            self.report(Report::Waiting { reason: "ImagePullBackOff", message });
            self.pause(back_off).await?;
            back_off = (back_off * 2).min(BACK_OFF.1);
        }
    }

    /// `None` when the container is told to stop.
    async fn pause(&mut self, time: Duration) -> Option<()> {
        tokio::select! {
            () = sleep(time) => Some(()),
            _ = stopped(&mut self.stop) => None,
        }
    }

    /// Keeps the process' output and waits for its end, which a stop brings about.
    async fn attend(&mut self, process: &mut ContainerProcess, output: pipe::Receiver, log: &Log) -> Exit {
        let pump = pump(output, log);
        tokio::pin!(pump);
        let ended = end(process, &mut self.stop);
        tokio::pin!(ended);
        let exit = tokio::select! {
            exit = &mut ended => exit,
            // A process may close its output and live on.
            () = &mut pump => return ended.await,
        };
        // What it wrote before its end may still be in the pipe. Something that escaped may hold it open.
        let _ = timeout(LAST_OUTPUT, pump).await;
        exit
    }

    fn set_running(&self, running: Option<Running>) {
        let mut all = self.handle.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running {
            Some(running) => all.insert(self.container.name.clone(), running),
            None => all.remove(&self.container.name),
        };
    }

    fn report(&self, report: Report) {
        let (key, sender) = &self.reports;
        // Nobody listens once the pod's worker has gone.
        let _ = sender.send((*key, report));
    }

    fn event(&self, warning: bool, reason: &str, message: &str) {
        let path = format!("{}{{{}}}", self.list, self.container.name);
        let note = Note { source: Source::Kubelet, warning, reason, message, field_path: Some(&path) };
        events::record(&self.cluster.store, &*self.pod, note);
    }
}

fn make_log_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Waits until the process has ended, by itself or because it was stopped.
async fn end(process: &mut ContainerProcess, stop: &mut watch::Receiver<Option<Duration>>) -> Exit {
    let mut grace = tokio::select! {
        exit = process.wait() => return known(exit),
        grace = stopped(stop) => grace,
    };
    if !grace.is_zero() && process.terminate().await.is_err() {
        tracing::debug!("a container of the embedded cluster ended while it was told to");
    }
    loop {
        if grace.is_zero() {
            process.kill().await;
            return known(process.wait().await);
        }
        tokio::select! {
            exit = process.wait() => return known(exit),
            () = sleep(grace) => grace = Duration::ZERO,
            shorter = changed(stop) => grace = shorter,
        }
    }
}

/// A launcher that was killed from outside took its container along.
fn known(exit: io::Result<Exit>) -> Exit {
    exit.unwrap_or(Exit::Signal(9))
}

async fn pump(mut pipe: pipe::Receiver, log: &Log) {
    let mut buffer = vec![0; 64 << 10];
    let mut writable = true;
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        // A full disk must not block the container: its output is read and dropped from there on.
        if writable && let Some(bytes) = buffer.get(..count) {
            writable = log.append(bytes).is_ok();
        }
    }
}

/// The grace, once there is one.
pub(super) async fn stopped(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.wait_for(Option::is_some).await {
        Ok(grace) => grace.unwrap_or_default(),
        // Whoever could stop it has gone.
        Err(_) => Duration::ZERO,
    }
}

async fn changed(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match stop.changed().await {
        Ok(()) => stop.borrow_and_update().unwrap_or_default(),
        Err(_) => Duration::ZERO,
    }
}
