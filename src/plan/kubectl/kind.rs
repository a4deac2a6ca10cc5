//! The kinds that a read may name: a closed list.
//!
//! Namespaced kinds that explain why a workload does not run. Left out, and so refused by the tools' schemas:
//! Secret, for its content; ConfigMap, whose data `describe` prints and which often holds credentials too;
//! ServiceAccount, whose description names the Secrets that hold its tokens; Role and RoleBinding, which tell
//! an agent whom to become and explain no workload; and every cluster-wide kind, which no namespace rule can
//! bound.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

/// A kind, as the tools' schemas spell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::plan) enum Kind {
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    Service,
    EndpointSlice,
    Ingress,
    NetworkPolicy,
    PersistentVolumeClaim,
    ResourceQuota,
    LimitRange,
    /// Cluster-wide: events may be about it, and nothing else here.
    Node,
}

/// What the API server serves a kind as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) struct Resource {
    /// The plural, in lower case.
    pub(in crate::plan) plural: &'static str,
    /// The API group; empty for the core group.
    pub(in crate::plan) group: &'static str,
}

impl Kind {
    /// Every kind.
    pub(in crate::plan) const ALL: [Self; 17] = [
        Self::Pod,
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
        Self::Service,
        Self::EndpointSlice,
        Self::Ingress,
        Self::NetworkPolicy,
        Self::PersistentVolumeClaim,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::Node,
    ];

    /// The kind of that name in the tools' schemas.
    pub(in crate::plan) fn of(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }

    /// The kind in an object's `kind` field, and in an event's `involvedObject.kind`.
    pub(in crate::plan) fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscaler",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Ingress => "Ingress",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::ResourceQuota => "ResourceQuota",
            Self::LimitRange => "LimitRange",
            Self::Node => "Node",
        }
    }

    /// The resource to describe, `None` for a kind that is not namespaced.
    pub(in crate::plan) fn describable(self) -> Option<Resource> {
        let (plural, group) = match self {
            Self::Pod => ("pods", ""),
            Self::Deployment => ("deployments", "apps"),
            Self::ReplicaSet => ("replicasets", "apps"),
            Self::StatefulSet => ("statefulsets", "apps"),
            Self::DaemonSet => ("daemonsets", "apps"),
            Self::Job => ("jobs", "batch"),
            Self::CronJob => ("cronjobs", "batch"),
            Self::HorizontalPodAutoscaler => ("horizontalpodautoscalers", "autoscaling"),
            Self::PodDisruptionBudget => ("poddisruptionbudgets", "policy"),
            Self::Service => ("services", ""),
            Self::EndpointSlice => ("endpointslices", "discovery.k8s.io"),
            Self::Ingress => ("ingresses", "networking.k8s.io"),
            Self::NetworkPolicy => ("networkpolicies", "networking.k8s.io"),
            Self::PersistentVolumeClaim => ("persistentvolumeclaims", ""),
            Self::ResourceQuota => ("resourcequotas", ""),
            Self::LimitRange => ("limitranges", ""),
            Self::Node => return None,
        };
        Some(Resource { plural, group })
    }
}

impl Resource {
    /// Pods.
    pub(in crate::plan) const PODS: Self = Self { plural: "pods", group: "" };
    /// Events, those of the core group.
    pub(in crate::plan) const EVENTS: Self = Self { plural: "events", group: "" };

    /// The word that names it to kubectl. With its group, so that a custom resource of the same plural is not
    /// meant; without one, kubectl prefers the core group.
    pub(in crate::plan) fn word(self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}
