//! The checks that ask a cluster.

use kubepermit::executor::{Cluster, ClusterSource, JobExam, examine_jobs};
use kubepermit::finding::Verdict;
use serde_json::{Value, json};

use super::Stage;
use super::server::{NAMESPACE, Server, Setting};

#[tokio::test(flavor = "multi_thread")]
async fn what_deploy_gives_is_enough_and_not_too_much() {
    let stage = Stage::new(33, Some(33));
    // Reads have rights of their own: those that the deployed Role has no need for.
    let server = Server::start(Setting::deployed()).await;
    let report = stage.on(&server, &[]).await;
    report.passed();
    report.says("cluster.reach", "jobs", "ok", "Kubernetes v1.33.0", "");
    report.says("cluster.tls", "jobs", "ok", "does not leave this machine", "");
    report.says("cluster.clock", "", "ok", "agree on the time", "");
    report.says("cluster.identity", "jobs", "ok", "`somebody`", "");
    report.says("rights.needed", "jobs", "ok", "create jobs.batch", "");
    report.says("rights.too_broad", "jobs", "ok", "no Secrets", "");
    report.says("namespace.exists", NAMESPACE, "ok", "RoleBinding", "");
    for check in ["namespace.pod_security", "namespace.limit_range", "namespace.quota", "namespace.network"] {
        report.says(check, NAMESPACE, "skipped", "may not look", "");
    }
    report.says("rights.describe", "reads", "warning", "deployments", "cluster role `view`");
    report.says("kubectl.program", "kubectl", "ok", "v1.33.1", "");
    report.says("kubectl.reach", "", "ok", "v1.33.1", "");
    report.says("policy.sample", "run_job", "ok", "would be allowed", "");
    report.says("policy.sample", "list_pods", "ok", "would be allowed", "");
    report.says("audit.place", "audit", "ok", "can be written", "");

    // kubectl ran as a read does: pinned, in an empty environment.
    let log = stage.log();
    assert!(log.starts_with("version --context=test --request-timeout=20s --cache-dir="), "{log}");
    assert!(log.contains("\nKUBECTL_KUBERC=false\n") && log.contains("\nPATH=/nonexistent\n"), "{log}");
    assert!(!log.contains("\nMCP_") && !log.contains("\nKUBEPERMIT_"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_that_is_missing_is_named_with_its_rule() {
    let stage = Stage::new(33, Some(33));
    let setting = Setting::deployed().without("delete", "jobs").without("get", "pods/exec");
    let report = stage.on(&Server::start(setting).await, &[]).await;
    report.failed(&["rights.needed", "rights.needed"]);
    let text = report.document.to_string();
    assert!(text.contains("`delete jobs.batch` is not allowed"), "{text}");
    assert!(text.contains(r#"resources: [\"pods/exec\"], verbs: [\"get\"]"#), "{text}");

    // WebSockets need `create` since 1.35 only.
    for (minor, verdict) in [("34", "warning"), ("35", "failed")] {
        let mut setting = Setting::deployed().without("create", "pods/exec");
        setting.minor = minor;
        let report = stage.on(&Server::start(setting).await, &[]).await;
        report.says("rights.needed", "jobs", verdict, "`create pods/exec` is not allowed", "1.35");
    }

    // The reads' own: without the logs, the jobs fail too, as they are one identity here.
    let setting = Setting::deployed().without("get", "pods/log");
    let report = stage.on(&Server::start(setting).await, &[]).await;
    report.failed(&["rights.needed", "rights.needed"]);
    report.says("rights.needed", "reads", "failed", "`get pods/log`", r#"resources: ["pods/log"]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_too_broad_are_warned_of() {
    let stage = Stage::new(33, Some(33));
    let setting = Setting::deployed().with("", "secrets", &["get"]).with("", "pods", &["create"]);
    let report = stage.on(&Server::start(setting).await, &[]).await;
    report.passed();
    let warned = report.document.to_string();
    assert!(warned.contains("`get secrets` is allowed: it could read the namespace's Secrets"), "{warned}");
    assert!(
        warned.contains("`create pods` is allowed: it could make pods that no policy has seen"),
        "{warned}"
    );
    assert_eq!(report.with("warning").iter().filter(|check| **check == "rights.too_broad").count(), 4);

    let mut setting = Setting::deployed();
    setting.rules = vec![json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] })];
    let report = stage.on(&Server::start(setting.clone()).await, &[]).await;
    report.says("rights.too_broad", "jobs", "warning", "anything in the namespace", "deploy/kubernetes.yaml");

    setting.admin = true;
    let report = stage.on(&Server::start(setting).await, &[]).await;
    report.passed();
    report.says("rights.too_broad", "jobs", "warning", "anything in the cluster", "deploy/kubernetes.yaml");
    report.says("cluster.identity", "jobs", "warning", "system:masters", "identity of the gateway's own");
}

fn admin() -> Setting {
    let mut setting = Setting::deployed();
    setting.admin = true;
    setting
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_around_the_jobs_is_looked_at() {
    let stage = Stage::new(33, Some(33));
    let report = stage.on(&Server::start(admin()).await, &[]).await;
    report.passed();
    report.says("namespace.exists", NAMESPACE, "ok", "it exists", "");
    report.says("namespace.pod_security", NAMESPACE, "ok", "restricted", "");
    report.says("namespace.limit_range", NAMESPACE, "ok", "gets some", "");
    report.says("namespace.quota", NAMESPACE, "ok", "has room", "");
    report.says("namespace.network", NAMESPACE, "ok", "egress", "");

    let mut bare = admin().lacking("LimitRange").lacking("ResourceQuota").lacking("NetworkPolicy");
    for object in bare.objects.iter_mut().filter(|object| object["kind"] == json!("Namespace")) {
        object["metadata"]["labels"] = Value::Null;
    }
    let report = stage.on(&Server::start(bare).await, &[]).await;
    report.passed();
    report.says("namespace.pod_security", NAMESPACE, "warning", "no Pod Security", "enforce=restricted");
    report.says("namespace.limit_range", NAMESPACE, "warning", "may fill its node", "require_limits");
    report.says("namespace.quota", NAMESPACE, "warning", "bounds all jobs", "apply the ResourceQuota");
    report.says("namespace.network", NAMESPACE, "warning", "whole network", "apply the NetworkPolicy");

    let report = stage.on(&Server::start(admin().lacking("Namespace")).await, &[]).await;
    report.failed(&["namespace.exists"]);
    let remedy = "apply deploy/kubernetes.yaml, or name an existing one with MCP_K8S_NAMESPACE";
    let missing = report.document["checks"].as_array().unwrap().iter();
    let missing: Vec<&Value> =
        missing.filter(|finding| finding["check"] == json!("namespace.exists")).collect();
    assert_eq!(missing.len(), 2, "for jobs and for reads");
    assert_eq!(missing[0]["about"], json!(NAMESPACE));
    assert!(missing[0]["remedy"].as_str().unwrap().starts_with(remedy), "{missing:?}");
    assert_eq!(missing[1]["verdict"], json!("warning"));
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_clocks_that_do_not_fit_are_told() {
    let mut setting = Setting::deployed();
    (setting.minor, setting.ahead) = ("28", 3600);
    let stage = Stage::new(25, Some(28));
    let report = stage.on(&Server::start(setting).await, &[]).await;
    report.failed(&["cluster.version", "kubectl.program"]);
    report.says("cluster.version", "", "failed", "1.28 is older than 1.29", "upgrade the cluster to 1.29");
    report.says("kubectl.program", "kubectl", "failed", "v1.25.1 is older than 1.26", "--kubectl");
    report.says("kubectl.reach", "", "warning", "3 minor versions", "install kubectl 1.28");
    let (verdict, found, remedy) = report.of("cluster.clock", "");
    assert_eq!(verdict, "warning");
    // Whole seconds, and the time between the two readings.
    assert!(
        found.contains("behind the API server's") && (found.contains("3600 s") || found.contains("3599 s")),
        "{found}"
    );
    assert!(remedy.contains("NTP"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_does_not_keep_the_rest_from_being_checked() {
    let stage = Stage::new(33, None);
    let kubeconfig = stage.home.path().join("kubeconfig");
    let config = json!({ "current-context": "a", "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
        "clusters": [{ "name": "a", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "a", "user": { "token": "TOKEN-OF-THE-OPERATOR" } }] });
    super::write(&kubeconfig, &config.to_string());
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--allowed-images", "busybox:1.36"];
    let report = stage.run(&[&arguments[..], &["--allow-namespaces", "dev"]].concat()).await;
    report.failed(&["cluster.reach", "kubectl.reach", "cluster.reach"]);
    report.says(
        "cluster.reach",
        "jobs",
        "failed",
        "the connection was refused",
        "`server` of the kubeconfig",
    );
    report.says("kubectl.reach", "", "failed", "the connection is refused", "kubeconfig's server");
    report.says("cluster.tls", "jobs", "ok", "its certificate is checked", "");
    report.says("cluster.rights", "jobs", "skipped", "not asked", "");
    report.says("policy.tests", "compiled in", "ok", "pass", "");
    report.says("audit.place", "audit", "ok", "can be written", "");
}

async fn examined(
    setting: Setting,
    claim: Option<&str>,
    secret: Option<&str>,
) -> Vec<(String, Verdict, String)> {
    let server = Server::start(setting).await;
    let cluster = Cluster::new(ClusterSource::Kubeconfig { path: server.kubeconfig(), context: None });
    let exam = JobExam {
        cluster: &cluster,
        namespace: NAMESPACE,
        profile: kubepermit::plan::PodProfile::Restricted,
        cache_claim: claim,
        clone_secret: secret,
        surroundings: false,
    };
    let findings = examine_jobs(&exam).await;
    server.was_only_asked();
    let wanted = findings.into_iter().filter(|finding| {
        ["cache.claim", "clone.secret"].contains(&finding.check) || finding.verdict == Verdict::Failed
    });
    wanted
        .map(|finding| {
            (finding.check.to_owned(), finding.verdict, format!("{} {}", finding.found, finding.remedy))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_jobs_mount_has_to_exist() {
    let object = |kind: &str, more: Value| {
        let mut object =
            json!({ "kind": kind, "apiVersion": "v1", "metadata": { "name": "it", "namespace": NAMESPACE } });
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let claims = Setting::deployed;
    let claim = |phase: &str, mode: &str| {
        let mut setting = claims();
        let more = json!({ "spec": { "accessModes": [mode] }, "status": { "phase": phase } });
        setting.objects.push(object("PersistentVolumeClaim", more));
        setting
    };
    // The right is a part of what is needed once a claim is configured.
    let found =
        examined(Setting::deployed().without("get", "persistentvolumeclaims"), Some("it"), None).await;
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].0.as_str(), found[0].1), ("rights.needed", Verdict::Failed));
    assert!(found[0].2.contains("`get persistentvolumeclaims`"), "{found:?}");
    assert_eq!(found[1].1, Verdict::Skipped);
    for (setting, verdict, part) in [
        (claims(), Verdict::Failed, "MCP_K8S_CACHE_PVC"),
        (claim("Lost", "ReadWriteMany"), Verdict::Failed, "lost its volume"),
        (claim("Bound", "ReadWriteOnce"), Verdict::Warning, "ReadWriteMany"),
        (claim("Bound", "ReadWriteOncePod"), Verdict::Warning, "one pod at a time"),
        (claim("Bound", "ReadWriteMany"), Verdict::Ok, "it is bound; ReadWriteMany"),
        (claim("Pending", "ReadWriteMany"), Verdict::Ok, "with the first job"),
    ] {
        let found = examined(setting, Some("it"), None).await;
        assert_eq!((found.len(), found[0].0.as_str(), found[0].1), (1, "cache.claim", verdict), "{found:?}");
        assert!(found[0].2.contains(part), "{found:?}");
    }
    let secrets = || Setting::deployed().with("", "secrets", &["get"]);
    let mut there = secrets();
    there.objects.push(object("Secret", json!({})));
    for (setting, verdict, part) in [
        (Setting::deployed(), Verdict::Skipped, "cannot be told without the right to read Secrets"),
        (secrets(), Verdict::Failed, "MCP_K8S_CLONE_SECRET"),
        (there, Verdict::Warning, "take the right to get Secrets away"),
    ] {
        let found = examined(setting, None, Some("it")).await;
        assert_eq!((found.len(), found[0].0.as_str(), found[0].1), (1, "clone.secret", verdict), "{found:?}");
        assert!(found[0].2.contains(part), "{found:?}");
    }
}
