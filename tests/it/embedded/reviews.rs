//! Reviews of one's own rights and name, as a real API server answers them.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::{client, cluster, status_of};

async fn ask(client: &Client, review: Value) -> Result<SelfSubjectAccessReview, kube::Error> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(review).unwrap()).await
}

fn about(verb: &str, subresource: &str) -> Value {
    let attributes =
        json!({ "namespace": "jobs", "verb": verb, "resource": "pods", "subresource": subresource });
    json!({ "metadata": {}, "spec": { "resourceAttributes": attributes } })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_may_do_everything_and_the_prefix_only_read() {
    let cluster = cluster().await;
    let owner = client(&cluster).await;
    // The other kubeconfig without its token: kubectl sends none over plain HTTP.
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubectl_kubeconfig()).unwrap();
    kubeconfig.auth_infos[0].auth_info.as_mut().unwrap().token = None;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    let reader = Client::try_from(config).unwrap();
    for (verb, subresource, may) in [
        ("get", "", true),
        ("list", "", true),
        ("watch", "", true),
        ("get", "log", true),
        ("get", "exec", false),
        ("create", "", false),
        ("*", "", false),
        ("delete", "", false),
    ] {
        let allowed = async |client: &Client| {
            ask(client, about(verb, subresource)).await.unwrap().status.unwrap().allowed
        };
        assert!(allowed(&owner).await, "{verb} {subresource}");
        assert_eq!(allowed(&reader).await, may, "{verb} {subresource}");
    }
    for (client, name) in [(&owner, "kubepermit-embedded"), (&reader, "kubepermit-embedded-reader")] {
        let api: Api<SelfSubjectReview> = Api::all(client.clone());
        let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
        assert_eq!(review.status.unwrap().user_info.unwrap().username.as_deref(), Some(name));
    }
    cluster.stop().await;
}

/// The rules of Kubernetes' `ValidateSelfSubjectAccessReview`.
#[tokio::test(flavor = "multi_thread")]
async fn a_review_that_asks_nothing_or_two_things_is_invalid() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let path = json!({ "path": "/healthz", "verb": "get" });
    let mut both = about("get", "");
    both["spec"]["nonResourceAttributes"] = path.clone();
    let mut named = about("get", "");
    named["metadata"] = json!({ "name": "a" });
    for wrong in [json!({ "metadata": {}, "spec": {} }), both, named] {
        let (code, reason) = status_of(ask(&client, wrong.clone()).await);
        assert_eq!((code, reason.as_str()), (422, "Invalid"), "{wrong}");
    }
    assert!(ask(&client, json!({ "metadata": {}, "spec": { "nonResourceAttributes": path } })).await.is_ok());
    cluster.stop().await;
}
