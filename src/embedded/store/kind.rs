//! The kinds that the store keeps, and the fields by which each may be selected.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ListableResource, Metadata};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Collection, Store};

/// A kind of object with a collection of its own.
pub trait Kind:
    ListableResource + Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned + Clone + Send + Sync + 'static
{
    /// Whether objects of this kind live in a namespace.
    const NAMESPACED: bool;

    /// Where the store keeps them.
    fn collection(store: &Store) -> &Collection<Self>;

    /// The value of a field that field selectors may name, beyond `metadata.name` and
    /// `metadata.namespace`; `None` when the kind does not support it.
    fn field(&self, path: &str) -> Option<String>;
}

impl Kind for Namespace {
    const NAMESPACED: bool = false;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.namespaces
    }

    fn field(&self, path: &str) -> Option<String> {
        match path {
            "status.phase" => Some(self.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default()),
            _ => None,
        }
    }
}

impl Kind for PersistentVolumeClaim {
    const NAMESPACED: bool = true;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.claims
    }

    fn field(&self, _path: &str) -> Option<String> {
        None
    }
}

impl Kind for Node {
    const NAMESPACED: bool = false;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.nodes
    }

    fn field(&self, path: &str) -> Option<String> {
        match path {
            "spec.unschedulable" => Some("false".to_owned()),
            _ => None,
        }
    }
}

impl Kind for Pod {
    const NAMESPACED: bool = true;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.pods
    }

    fn field(&self, path: &str) -> Option<String> {
        let spec = self.spec.as_ref();
        let status = self.status.as_ref();
        let value = match path {
            "spec.nodeName" => spec.and_then(|s| s.node_name.clone()),
            "spec.restartPolicy" => spec.and_then(|s| s.restart_policy.clone()),
            "spec.schedulerName" => spec.and_then(|s| s.scheduler_name.clone()),
            "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()),
            "status.phase" => status.and_then(|s| s.phase.clone()),
            "status.podIP" => status.and_then(|s| s.pod_ip.clone()),
            "status.nominatedNodeName" => status.and_then(|s| s.nominated_node_name.clone()),
            _ => return None,
        };
        Some(value.unwrap_or_default())
    }
}

impl Kind for Event {
    const NAMESPACED: bool = true;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.events
    }

    fn field(&self, path: &str) -> Option<String> {
        let object = &self.involved_object;
        let value = match path {
            "involvedObject.kind" => object.kind.clone(),
            "involvedObject.namespace" => object.namespace.clone(),
            "involvedObject.name" => object.name.clone(),
            "involvedObject.uid" => object.uid.clone(),
            "involvedObject.apiVersion" => object.api_version.clone(),
            "involvedObject.resourceVersion" => object.resource_version.clone(),
            "involvedObject.fieldPath" => object.field_path.clone(),
            "reason" => self.reason.clone(),
            "reportingComponent" => self.reporting_component.clone(),
            "source" => self.source.as_ref().and_then(|s| s.component.clone()),
            "type" => self.type_.clone(),
            _ => return None,
        };
        Some(value.unwrap_or_default())
    }
}

impl Kind for Lease {
    const NAMESPACED: bool = true;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.leases
    }

    fn field(&self, _path: &str) -> Option<String> {
        None
    }
}

impl Kind for Job {
    const NAMESPACED: bool = true;

    fn collection(store: &Store) -> &Collection<Self> {
        &store.jobs
    }

    fn field(&self, path: &str) -> Option<String> {
        match path {
            "status.successful" => {
                Some(self.status.as_ref().and_then(|s| s.succeeded).unwrap_or_default().to_string())
            }
            _ => None,
        }
    }
}
