//! Looks at a cluster as `kubepermit doctor` does: what the gateway needs of it, and what should stand around
//! the jobs. Only reads, and asks about its own rights; nothing is created, changed or deleted.
//!
//! ```text
//! server (reached, version, TLS, clock) -> rights -> namespace, quota, limits, network -> what jobs mount
//! ```
//!
//! A finding's text is written here, as a [`Fault`](super::fault::Fault) is: what a server says of itself is
//! quoted only where it is a version, a name or a number.

mod objects;
mod reads;
mod rights;
mod server;
mod surroundings;

pub use reads::{ReadExam, examine_reads};

use std::time::Duration;

use kube::Client;
use kube::core::Status;

use crate::executor::Cluster;
use crate::executor::api::{self, ApiError};
use crate::finding::Finding;
use crate::plan::PodProfile;

/// How long one question to the API server may take, repetitions included.
const PATIENCE: Duration = Duration::from_secs(5);

/// What of a cluster is examined for jobs.
#[derive(Debug)]
pub struct JobExam<'a> {
    /// Where the jobs would run, with the identity that would run them.
    pub cluster: &'a Cluster,
    /// The jobs' namespace.
    pub namespace: &'a str,
    /// The profile of the pods, which the namespace has to admit.
    pub profile: PodProfile,
    /// The PersistentVolumeClaim that jobs mount as a cache, when one is configured.
    pub cache_claim: Option<&'a str>,
    /// The Secret with the tokens for git hosts, when one is configured.
    pub clone_secret: Option<&'a str>,
    /// Whether rights that are too broad, and what protects a namespace, are of any interest: not in a stand-in
    /// for a cluster, which nobody else uses.
    pub surroundings: bool,
}

/// Examines what jobs need. Every check is made, whatever the others find; without a server there is nothing
/// to ask, and that is said.
pub async fn examine_jobs(exam: &JobExam<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(server) = server::reach("jobs", exam.cluster, &mut findings).await else {
        findings.push(
            Finding::skipped("cluster.rights", "not asked, since the API server cannot be used")
                .about("jobs"),
        );
        return findings;
    };
    server::suits_jobs(&server, &mut findings).await;
    let rights = rights::Rights::new(&server.client, exam.namespace);
    let held = rights::examine_jobs(&rights, exam, server.minor, &mut findings).await;
    if exam.surroundings {
        surroundings::examine(&server.client, exam, held, &mut findings).await;
    } else {
        let why =
            "quotas, limits, networks and other identities are not looked at in a stand-in for a cluster";
        findings.push(Finding::skipped("namespace", why).about(exam.namespace));
    }
    if let Some(claim) = exam.cache_claim {
        findings.push(objects::cache_claim(&server.client, exam.namespace, claim).await);
    }
    if let Some(secret) = exam.clone_secret {
        findings.push(objects::clone_secret(&server.client, &rights, exam.namespace, secret).await);
    }
    findings
}

/// A question that may be refused: the answer, or why there is none.
enum Answer<T> {
    Given(T),
    /// There is no such object, namespace or kind.
    NotFound(Box<Status>),
    /// The identity may not ask.
    Forbidden,
    /// Anything else, in words that may be shown.
    Failed(String),
}

/// Asks the API server something harmless.
async fn ask<T, F>(what: &'static str, attempt: impl FnMut() -> F) -> Answer<T>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    match api::call(what, PATIENCE, attempt).await {
        Ok(given) => Answer::Given(given),
        Err(ApiError::Refused { status, .. }) if status.code == 404 => Answer::NotFound(status),
        Err(ApiError::Refused { status, .. }) if status.code == 403 => Answer::Forbidden,
        Err(error) => Answer::Failed(error.to_string()),
    }
}

/// All objects of a kind in a namespace. A namespace has few of the kinds that are asked for here.
async fn list<K>(what: &'static str, client: &Client, namespace: &str) -> Answer<Vec<K>>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    const MOST: u32 = 500;
    let api: kube::Api<K> = kube::Api::namespaced(client.clone(), namespace);
    let params = kube::api::ListParams::default().limit(MOST);
    match ask(what, || api.list(&params)).await {
        Answer::Given(list) => Answer::Given(list.items),
        Answer::NotFound(status) => Answer::NotFound(status),
        Answer::Forbidden => Answer::Forbidden,
        Answer::Failed(why) => Answer::Failed(why),
    }
}
