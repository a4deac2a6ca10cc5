//! The cluster's one node: this machine, with its cores and memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// The node's name.
pub const NODE_NAME: &str = "kubepermit-embedded";

/// The node's address.
pub const NODE_IP: &str = "127.0.0.1";

/// How many pods a node takes: the kubelet's default.
const MAX_PODS: u32 = 110;

/// What the machine has.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Cores, in millicores.
    pub cpu_millis: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Machine {
    /// Measures this machine; where that fails, takes one core and 1 GiB.
    #[must_use]
    pub fn measure() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| u64::try_from(n.get()).unwrap_or(1));
        let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
        Self { cpu_millis: cores.saturating_mul(1000), memory_bytes: memory.unwrap_or(1 << 30) }
    }

    /// The node as an object of the API.
    #[must_use]
    pub fn node(&self) -> Node {
        let capacity = BTreeMap::from([
            ("cpu".to_owned(), Quantity(format!("{}m", self.cpu_millis))),
            ("memory".to_owned(), Quantity(self.memory_bytes.to_string())),
            ("pods".to_owned(), Quantity(MAX_PODS.to_string())),
        ]);
        let now = Time(jiff::Timestamp::now());
        let ready = NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: Some("KubeletReady".to_owned()),
            message: Some("kubelet is posting ready status".to_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(now),
        };
        let labels = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), NODE_NAME.to_owned()),
            ("kubernetes.io/os".to_owned(), std::env::consts::OS.to_owned()),
        ]);
        Node {
            metadata: ObjectMeta {
                name: Some(NODE_NAME.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: None,
            status: Some(NodeStatus {
                addresses: Some(vec![NodeAddress {
                    address: NODE_IP.to_owned(),
                    type_: "InternalIP".to_owned(),
                }]),
                allocatable: Some(capacity.clone()),
                capacity: Some(capacity),
                conditions: Some(vec![ready]),
                node_info: Some(NodeSystemInfo {
                    architecture: std::env::consts::ARCH.to_owned(),
                    operating_system: std::env::consts::OS.to_owned(),
                    kubelet_version: "v1.33.0+kubepermit-embedded".to_owned(),
                    container_runtime_version: "kubepermit://embedded".to_owned(),
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        }
    }
}

/// `MemTotal` of `/proc/meminfo`, which is in kibibytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format is in proc_meminfo(5).
    #[test]
    fn memory_is_read_in_kibibytes() {
        assert_eq!(total_memory("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }
}
