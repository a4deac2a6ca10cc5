//! What the embedded cluster's parts share.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::folder::Home;
use super::kubelet::Kubelet;
use super::node::Machine;
use super::store::Store;

/// The running cluster: its objects, its node, and the switch that ends it all.
#[derive(Debug)]
pub struct Cluster {
    /// The API's objects.
    pub store: Store,
    /// What runs on the node.
    pub kubelet: Kubelet,
    /// The node's size.
    pub machine: Machine,
    /// The bearer token, for everything.
    pub token: String,
    /// The first word of a path whose request may read.
    pub reader: String,
    /// Cancelled when the cluster ends.
    pub stop: CancellationToken,
    /// Every task of the cluster.
    pub tasks: TaskTracker,
    /// The private folder for pods and logs. Last, as the pods' own folders are in it.
    pub home: Home,
}
