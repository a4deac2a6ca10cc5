//! A pod's status, computed from what its containers do.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::embedded::node::NODE_IP;

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It has not started.
    Waiting {
        /// `ContainerCreating`, `ImagePullBackOff`, ...
        reason: String,
        /// The details, where there are any.
        message: Option<String>,
    },
    /// It runs.
    Running {
        /// Since when.
        started: Timestamp,
    },
    /// It has ended.
    Terminated(Ended),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`.
    pub reason: String,
    /// The details, where there are any.
    pub message: Option<String>,
    /// When it started; the epoch when it never did, as the kubelet reports it.
    pub started: Timestamp,
    /// When it ended.
    pub finished: Timestamp,
}

/// One container of a pod, as its worker knows it.
#[derive(Debug, Clone)]
pub struct Record {
    /// The container's name.
    pub name: String,
    /// The image as the spec names it, or in full once it is known.
    pub image: String,
    /// The image's digest, once it is known.
    pub image_id: String,
    /// `kubepermit://` and an id, once it was created.
    pub id: Option<String>,
    /// What it does.
    pub state: State,
    /// Whether it is an init container that runs on: a sidecar.
    pub sidecar: bool,
}

/// What a pod's worker knows.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Init containers, in order.
    pub init: Vec<Record>,
    /// The others, in order.
    pub main: Vec<Record>,
    /// When the node took the pod.
    pub started: Timestamp,
    /// The pod's address, once it has one.
    pub ip: Option<String>,
    /// Why the pod as a whole was failed: reason and message.
    pub failed: Option<(String, String)>,
    /// Whether a container that was started has not ended. A phase is final only when none is left.
    pub busy: bool,
}

impl Record {
    /// A container that has not started.
    #[must_use]
    pub fn new(container: &Container, waiting: &str) -> Self {
        Self {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            image_id: String::new(),
            id: None,
            state: State::Waiting { reason: waiting.to_owned(), message: None },
            sidecar: container.restart_policy.as_deref() == Some("Always"),
        }
    }

    /// Its exit code, once it has ended.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match &self.state {
            State::Terminated(ended) => Some(ended.code),
            State::Waiting { .. } | State::Running { .. } => None,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    fn status(&self, is_init: bool) -> ContainerStatus {
        let running = self.is_running();
        let done = is_init && !self.sidecar && self.exit_code() == Some(0);
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: self.image_id.clone(),
            container_id: self.id.clone(),
            ready: if is_init && !self.sidecar { done } else { running },
            started: Some(running),
            restart_count: 0,
            state: Some(self.container_state()),
            last_state: Some(ContainerState::default()),
            ..ContainerStatus::default()
        }
    }

    fn container_state(&self) -> ContainerState {
        let mut state = ContainerState::default();
        match &self.state {
            State::Waiting { reason, message } => {
                state.waiting =
                    Some(ContainerStateWaiting { reason: Some(reason.clone()), message: message.clone() });
            }
            State::Running { started } => {
                state.running = Some(ContainerStateRunning { started_at: Some(Time(*started)) });
            }
            State::Terminated(ended) => {
                state.terminated = Some(ContainerStateTerminated {
                    container_id: self.id.clone(),
                    exit_code: ended.code,
                    reason: Some(ended.reason.clone()),
                    message: ended.message.clone(),
                    started_at: Some(Time(ended.started)),
                    finished_at: Some(Time(ended.finished)),
                    signal: None,
                });
            }
        }
        state
    }
}

impl Progress {
    /// Whether all init containers let the others start.
    #[must_use]
    pub fn initialized(&self) -> bool {
        self.init.iter().all(|c| {
            if c.sidecar { c.is_running() || c.exit_code().is_some() } else { c.exit_code() == Some(0) }
        })
    }

    /// The phase that follows from the containers, for a pod whose containers are never restarted.
    #[must_use]
    pub fn phase(&self) -> &'static str {
        let init_failed = self.init.iter().any(|c| !c.sidecar && c.exit_code().is_some_and(|code| code != 0));
        let all_ended = self.main.iter().all(|c| c.exit_code().is_some());
        if !self.busy && (init_failed || all_ended || self.failed.is_some()) {
            let succeeded = self.failed.is_none() && self.main.iter().all(|c| c.exit_code() == Some(0));
            return if succeeded { "Succeeded" } else { "Failed" };
        }
        // A pod is running once none of its containers waits to start.
        let any_waiting = self.main.iter().any(|c| matches!(c.state, State::Waiting { .. }));
        if any_waiting { "Pending" } else { "Running" }
    }

    /// Writes the status into the pod. Conditions keep the time of their last change.
    pub fn write(&self, pod: &mut Pod) {
        let phase = self.phase();
        let finished = matches!(phase, "Succeeded" | "Failed");
        let succeeded = phase == "Succeeded";
        let all_ready = !finished && self.main.iter().all(Record::is_running);
        let not_ready =
            if finished { ("PodCompleted", None) } else { ("ContainersNotReady", Some(self.unready())) };
        let initialized = self.initialized();
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.get_or_insert_with(PodStatus::default);
        let conditions = status.conditions.get_or_insert_default();
        let up = self.ip.is_some() && !finished;
        set_condition(conditions, "PodReadyToStartContainers", up, None, None);
        let missing: Vec<&str> =
            self.init.iter().filter(|c| c.exit_code() != Some(0)).map(|c| c.name.as_str()).collect();
        let incomplete = format!("containers with incomplete status: [{}]", missing.join(" "));
        match (initialized, succeeded) {
            (true, true) => set_condition(conditions, "Initialized", true, Some("PodCompleted"), None),
            (true, false) => set_condition(conditions, "Initialized", true, None, None),
            (false, _) => {
                set_condition(
                    conditions,
                    "Initialized",
                    false,
                    Some("ContainersNotInitialized"),
                    Some(&incomplete),
                );
            }
        }
        for kind in ["Ready", "ContainersReady"] {
            if all_ready {
                set_condition(conditions, kind, true, None, None);
            } else {
                set_condition(conditions, kind, false, Some(not_ready.0), not_ready.1.as_deref());
            }
        }
        status.phase = Some(phase.to_owned());
        (status.reason, status.message) = self.failed.clone().filter(|_| finished).unzip();
        status.start_time = Some(Time(self.started));
        status.host_ip = Some(NODE_IP.to_owned());
        status.host_ips = Some(vec![HostIP { ip: NODE_IP.to_owned() }]);
        status.pod_ip.clone_from(&self.ip);
        status.pod_ips = self.ip.clone().map(|ip| vec![PodIP { ip }]);
        status.qos_class = Some(qos_class(&spec).to_owned());
        let statuses = |records: &[Record], is_init| records.iter().map(|r| r.status(is_init)).collect();
        status.init_container_statuses = (!self.init.is_empty()).then(|| statuses(&self.init, true));
        status.container_statuses = Some(statuses(&self.main, false));
    }

    fn unready(&self) -> String {
        let names: Vec<&str> =
            self.main.iter().filter(|c| !c.is_running()).map(|c| c.name.as_str()).collect();
        format!("containers with unready status: [{}]", names.join(" "))
    }
}

/// Sets a condition; its transition time changes with its status only.
pub fn set_condition(
    conditions: &mut Vec<PodCondition>,
    kind: &str,
    status: bool,
    reason: Option<&str>,
    message: Option<&str>,
) {
    let status = if status { "True" } else { "False" };
    let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
    let unchanged =
        known.as_ref().filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    let condition = PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        last_transition_time: Some(unchanged.unwrap_or_else(|| Time(Timestamp::now()))),
        ..PodCondition::default()
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`, by the rules of the Kubernetes documentation.
#[must_use]
pub fn qos_class(spec: &PodSpec) -> &'static str {
    let containers: Vec<&Container> =
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).collect();
    let value = |c: &Container, limits: bool, name: &str| {
        let resources = c.resources.as_ref()?;
        let list = if limits { &resources.limits } else { &resources.requests };
        list.as_ref()?.get(name).cloned()
    };
    let both = ["cpu", "memory"];
    let any = containers
        .iter()
        .any(|c| both.iter().any(|name| value(c, true, name).is_some() || value(c, false, name).is_some()));
    let guaranteed = containers.iter().all(|c| {
        both.iter().all(|name| {
            let limit = value(c, true, name);
            limit.is_some() && value(c, false, name).is_none_or(|request| Some(request) == limit)
        })
    });
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
