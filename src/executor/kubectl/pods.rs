//! A list of pods as a table, with kubectl's own STATUS.

use jiff::Timestamp;
use serde::Deserialize;

use crate::executor::kubectl::table::{age, cell, table};

/// `kubectl get pods --output=json`, the parts that the table shows.
#[derive(Debug, Deserialize)]
pub(super) struct PodList {
    kind: String,
    items: Vec<Pod>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    reason: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    ready: bool,
    started: Option<bool>,
    restart_count: u64,
    state: State,
    last_state: State,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Terminated {
    reason: String,
    exit_code: i64,
    signal: i64,
    finished_at: Option<Timestamp>,
}

/// What the columns READY, STATUS and RESTARTS say of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
struct Summary {
    ready: usize,
    containers: usize,
    status: String,
    restarts: u64,
    restarted: Option<Timestamp>,
}

impl PodList {
    /// Whether it is one.
    pub(super) fn is_list(&self) -> bool {
        self.kind == "List" || self.kind == "PodList"
    }

    /// The table. With `namespaces`, the namespace of each.
    pub(super) fn render(&self, namespaces: bool, now: Timestamp) -> String {
        if self.items.is_empty() {
            return "No pods found.\n".to_owned();
        }
        let mut heading = vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"];
        if namespaces {
            heading.insert(0, "NAMESPACE");
        }
        let rows: Vec<Vec<String>> = self.items.iter().map(|pod| pod.row(namespaces, now)).collect();
        table(&heading, &rows)
    }
}

impl Pod {
    fn row(&self, namespaces: bool, now: Timestamp) -> Vec<String> {
        let summary = self.summary();
        let restarts = match (summary.restarts, summary.restarted) {
            (0, _) | (_, None) => summary.restarts.to_string(),
            (count, then) => format!("{count} ({} ago)", age(then, now)),
        };
        let mut row = Vec::new();
        if namespaces {
            row.push(cell(&self.metadata.namespace));
        }
        row.extend([
            cell(&self.metadata.name),
            format!("{}/{}", summary.ready, summary.containers),
            cell(&summary.status),
            restarts,
            age(self.metadata.creation_timestamp, now),
            cell(&self.status.pod_ip),
            cell(&self.spec.node_name),
        ]);
        row
    }

    /// The pod's phase, unless a container, its deletion or its scheduling tells more.
    fn summary(&self) -> Summary {
        let mut summary = Summary {
            containers: self.spec.containers.len()
                + self.spec.init_containers.iter().filter(|container| container.is_sidecar()).count(),
            status: if self.status.reason.is_empty() { &self.status.phase } else { &self.status.reason }
                .clone(),
            ..Summary::default()
        };
        let gated =
            |condition: &Condition| condition.kind == "PodScheduled" && condition.reason == "SchedulingGated";
        if self.status.conditions.iter().any(gated) {
            "SchedulingGated".clone_into(&mut summary.status);
        }
        let initializing = self.initialize(&mut summary);
        if !initializing || self.is_true("Initialized") {
            self.run(&mut summary);
        }
        if self.metadata.deletion_timestamp.is_some() {
            if self.status.reason == "NodeLost" {
                "Unknown".clone_into(&mut summary.status);
            } else if !matches!(self.status.phase.as_str(), "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.status);
            }
        }
        summary
    }

    /// The init containers' part, up to the first that has not done its work; whether there is such a one.
    fn initialize(&self, summary: &mut Summary) -> bool {
        for (index, container) in self.status.init_container_statuses.iter().enumerate() {
            summary.count_restarts(container);
            let mut specs = self.spec.init_containers.iter();
            let sidecar = specs.any(|spec| spec.name == container.name && spec.is_sidecar());
            let state = &container.state;
            summary.status = match (&state.terminated, &state.waiting) {
                (Some(end), _) if end.exit_code == 0 => continue,
                _ if sidecar && container.started == Some(true) => {
                    summary.ready += usize::from(container.ready);
                    continue;
                }
                (Some(end), _) => format!("Init:{}", end.shown()),
                (None, Some(Waiting { reason })) if !reason.is_empty() && reason != "PodInitializing" => {
                    format!("Init:{reason}")
                }
                (None, _) => format!("Init:{index}/{}", self.spec.init_containers.len()),
            };
            return true;
        }
        false
    }

    /// The containers' part: the first one that has something to tell.
    fn run(&self, summary: &mut Summary) {
        // From here on the restarts are those of what runs beside the containers, and theirs.
        (summary.restarts, summary.restarted) = (0, None);
        for status in &self.status.init_container_statuses {
            if self.spec.init_containers.iter().any(|spec| spec.name == status.name && spec.is_sidecar()) {
                summary.count_restarts(status);
            }
        }
        let mut running = false;
        for container in self.status.container_statuses.iter().rev() {
            summary.count_restarts(container);
            match &container.state {
                State { waiting: Some(Waiting { reason }), .. } if !reason.is_empty() => {
                    summary.status.clone_from(reason);
                }
                State { terminated: Some(end), .. } => summary.status = end.shown(),
                State { running: Some(_), .. } if container.ready => {
                    running = true;
                    summary.ready += 1;
                }
                State { .. } => {}
            }
        }
        if summary.status == "Completed" && running {
            let status = if self.is_true("Ready") { "Running" } else { "NotReady" };
            status.clone_into(&mut summary.status);
        }
    }

    fn is_true(&self, condition: &str) -> bool {
        self.status.conditions.iter().any(|found| found.kind == condition && found.status == "True")
    }
}

impl Summary {
    fn count_restarts(&mut self, container: &ContainerStatus) {
        self.restarts = self.restarts.saturating_add(container.restart_count);
        let ended = container.last_state.terminated.as_ref().and_then(|end| end.finished_at);
        self.restarted = self.restarted.max(ended);
    }
}

impl Container {
    /// An init container that goes on running beside the others.
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

impl Terminated {
    fn shown(&self) -> String {
        match (self.reason.as_str(), self.signal) {
            ("", 0) => format!("ExitCode:{}", self.exit_code),
            ("", signal) => format!("Signal:{signal}"),
            (reason, _) => reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
