//! The objects of the embedded cluster, in memory: what etcd is to a real one.
//!
//! Every change gets the next number of one counter as its `resourceVersion`. A collection keeps its newest
//! changes, so that a watch that starts from an older version misses nothing or is told that it is too late.

mod collection;
mod kind;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolumeClaim, Pod};

pub use collection::{Change, ChangeKind, Collection};
pub use kind::Kind;

/// All collections. Each has a lock of its own; none is held across an `await`.
#[derive(Debug)]
pub struct Store {
    /// core/v1 Namespaces: made at start, never changed.
    pub namespaces: Collection<Namespace>,
    /// core/v1 Nodes: this machine.
    pub nodes: Collection<Node>,
    /// core/v1 Pods.
    pub pods: Collection<Pod>,
    /// core/v1 Events, the newest ones.
    pub events: Collection<Event>,
    /// batch/v1 Jobs.
    pub jobs: Collection<Job>,
    /// core/v1 PersistentVolumeClaims: made at start, never changed.
    pub claims: Collection<PersistentVolumeClaim>,
    /// coordination.k8s.io/v1 Leases.
    pub leases: Collection<Lease>,
}

impl Store {
    /// An empty store whose first change gets version 1.
    #[must_use]
    pub fn new() -> Self {
        let version = Arc::new(AtomicU64::new(0));
        Self {
            namespaces: Collection::new(&version),
            nodes: Collection::new(&version),
            pods: Collection::new(&version),
            events: Collection::new(&version),
            jobs: Collection::new(&version),
            claims: Collection::new(&version),
            leases: Collection::new(&version),
        }
    }
}
