//! What jobs mount and somebody else has to make: the cache's claim, the Secret for clones.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::{Api, Client};

use super::rights::{Allowed, GET_SECRETS, Rights};
use super::{Answer, ask};
use crate::finding::Finding;

/// The claim exists, and can be mounted by several pods at once.
pub(super) async fn cache_claim(client: &Client, namespace: &str, name: &str) -> Finding {
    const CHECK: &str = "cache.claim";
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let finding = match ask("get the cache's claim", || api.get(name)).await {
        Answer::Given(claim) => {
            let modes = claim.spec.and_then(|spec| spec.access_modes).unwrap_or_default();
            let phase = claim.status.and_then(|status| status.phase).unwrap_or_default();
            let only = |mode: &str| modes.iter().all(|granted| granted == mode);
            if phase == "Lost" {
                let remedy = "its volume is gone: make the claim anew";
                Finding::failed(CHECK, "it has lost its volume, so no job that mounts it starts", remedy)
            } else if only("ReadWriteOncePod") {
                let remedy = "give it the access mode ReadWriteMany, or let one job run at a time";
                Finding::warning(CHECK, "only one pod at a time can mount it", remedy)
            } else if only("ReadWriteOnce") {
                let remedy = "give it the access mode ReadWriteMany where jobs run on more than one node";
                Finding::warning(CHECK, "only the pods of one node at a time can mount it", remedy)
            } else {
                let bound = if phase == "Bound" { "it is bound" } else { "it is bound with the first job" };
                Finding::ok(CHECK, format!("{bound}; {}", modes.join(", ")))
            }
        }
        Answer::NotFound(_) => Finding::failed(
            CHECK,
            "there is no such PersistentVolumeClaim, so no job that mounts it starts",
            format!("make it in namespace `{namespace}`, or unset MCP_K8S_CACHE_PVC and its mount path"),
        ),
        Answer::Forbidden => {
            Finding::skipped(CHECK, "it cannot be looked at without the right to get PersistentVolumeClaims")
        }
        Answer::Failed(why) => Finding::skipped(CHECK, format!("it could not be looked at: {why}")),
    };
    finding.about(name)
}

/// The Secret exists, where that can be told. Its metadata is asked for, never its content.
pub(super) async fn clone_secret(
    client: &Client,
    rights: &Rights<'_>,
    namespace: &str,
    name: &str,
) -> Finding {
    const CHECK: &str = "clone.secret";
    let finding = match rights.on(GET_SECRETS, name).await {
        Allowed::Yes => {
            let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
            match ask("look for the clone Secret", || api.get_metadata(name)).await {
                Answer::Given(_) => Finding::warning(
                    CHECK,
                    "it exists, and the gateway may read it, which it never needs",
                    "take the right to get Secrets away: the kubelet mounts it, not the gateway",
                ),
                Answer::NotFound(_) => Finding::failed(
                    CHECK,
                    "there is no such Secret, so no job with `clone` starts",
                    format!(
                        "make it in namespace `{namespace}`, with one key for each git host, or unset \
                         MCP_K8S_CLONE_SECRET"
                    ),
                ),
                Answer::Forbidden => not_told(CHECK),
                Answer::Failed(why) => Finding::skipped(CHECK, format!("it could not be looked for: {why}")),
            }
        }
        Allowed::No => not_told(CHECK),
        Allowed::Unknown(why) => Finding::skipped(CHECK, format!("it could not be looked for: {why}")),
    };
    finding.about(name)
}

fn not_told(check: &'static str) -> Finding {
    Finding::skipped(
        check,
        "whether it exists cannot be told without the right to read Secrets, which the gateway does not need; \
         a job with `clone` shows it",
    )
}
