//! Whether the cache's PersistentVolumeClaim is there: asked once, at start.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;

use crate::executor::Cluster;
use crate::executor::api::call;

/// How long the answer is waited for.
const ASK: Duration = Duration::from_secs(5);

/// What the API server said of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is there.
    Present,
    /// It is not.
    Missing,
    /// There was no answer, or it may not be read; the reason.
    Unknown(String),
}

impl Cluster {
    /// Looks for the claim `name` in `namespace`.
    pub async fn claim(&self, namespace: &str, name: &str) -> Claim {
        let client = match self.client().await {
            Ok(client) => client,
            Err(error) => return Claim::Unknown(error.to_string()),
        };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
        match call("read the cache's claim", ASK, || claims.get(name)).await {
            Ok(_) => Claim::Present,
            Err(error) if error.code() == Some(404) => Claim::Missing,
            Err(error) => Claim::Unknown(error.to_string()),
        }
    }
}
