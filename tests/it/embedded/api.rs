//! The API itself: who may, what is refused, what lists and watches show.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn only_the_token_opens_it() {
    let cluster = cluster().await;
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(cluster.kubeconfig()).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    kubeconfig.auth_infos[0].auth_info.as_mut().unwrap().token = Some("wrong".to_owned().into());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.proxy_url = None;
    let client = Client::try_from(config).unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    assert_eq!(status_of(pods.list(&ListParams::default()).await), (401, "Unauthorized".to_owned()));
    assert_eq!(
        status_of(pods.exec("a", ["true"], &kube::api::AttachParams::default()).await.map(|_| ())).0,
        401
    );
    assert_eq!(status_of(client.apiserver_version().await).0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_and_empty_kinds() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "33");
    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|group| group.name == "batch"));
    let batch = client.list_api_group_resources("batch/v1").await.unwrap();
    assert!(batch.resources.iter().any(|resource| resource.name == "jobs" && resource.namespaced));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert!(namespaces.get(NAMESPACE).await.is_ok());
    assert_eq!(status_of(namespaces.get("absent").await).0, 404);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert_eq!(status_of(secrets.get("any").await), (404, "NotFound".to_owned()));
    assert_eq!(status_of(secrets.delete("any", &DeleteParams::default()).await.map(|_| ())).0, 404);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": []}})).unwrap();
    assert_eq!(
        status_of(pods.create(&PostParams::default(), &pod).await),
        (405, "MethodNotAllowed".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_at_creation() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let dry = PostParams { dry_run: true, field_manager: None };
    let post = |value: &Value| serde_json::from_value::<Job>(value.clone()).unwrap();
    let fine = job("fine", &["true"]);
    jobs.create(&dry, &post(&fine)).await.unwrap();
    assert!(jobs.get_opt("fine").await.unwrap().is_none());
    create(&jobs, &fine).await;
    assert_eq!(
        status_of(jobs.create(&PostParams::default(), &post(&fine)).await),
        (409, "AlreadyExists".to_owned())
    );
    assert_eq!(status_of(jobs.create(&dry, &post(&fine)).await).0, 409);
    let absent: Api<Job> = Api::namespaced(client.clone(), "absent");
    assert_eq!(
        status_of(absent.create(&PostParams::default(), &post(&fine)).await),
        (404, "NotFound".to_owned())
    );

    let container = "/spec/template/spec/containers/0";
    for (pointer, value, field) in [
        ("/metadata/name", json!("Not_A_Name"), "metadata.name"),
        ("/metadata/name", json!("a".repeat(64)), "spec.template.labels"),
        ("/metadata/labels", json!({"a b": "c"}), "metadata.labels"),
        ("/metadata/labels", json!({"a": "-c"}), "metadata.labels"),
        ("/spec/backoffLimit", json!(-1), "spec.backoffLimit"),
        ("/spec/activeDeadlineSeconds", json!(-1), "spec.activeDeadlineSeconds"),
        ("/spec/template/spec/restartPolicy", json!("Always"), "spec.template.spec.restartPolicy"),
        ("/spec/template/spec/restartPolicy", json!("Sometimes"), "spec.template.spec.restartPolicy"),
        (
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(-1),
            "spec.template.spec.terminationGracePeriodSeconds",
        ),
        ("/spec/template/spec/activeDeadlineSeconds", json!(0), "spec.template.spec.activeDeadlineSeconds"),
        ("/spec/template/spec/containers", json!([]), "spec.template.spec.containers"),
        (
            "/spec/template/spec/securityContext",
            json!({"runAsUser": -1}),
            "spec.template.spec.securityContext.runAsUser",
        ),
        ("/spec/template/spec/volumes", json!([{"name": "V"}]), "spec.template.spec.volumes[0].name"),
        (&format!("{container}/name"), json!("Main"), "spec.template.spec.containers[0].name"),
        (&format!("{container}/image"), json!(""), "spec.template.spec.containers[0].image"),
        (&format!("{container}/image"), json!(" busybox"), "spec.template.spec.containers[0].image"),
        (
            &format!("{container}/env"),
            json!([{"name": "A=B", "value": ""}]),
            "spec.template.spec.containers[0].env[0].name",
        ),
        (
            &format!("{container}/env"),
            json!([{"name": "", "value": ""}]),
            "spec.template.spec.containers[0].env[0].name",
        ),
        (
            &format!("{container}/imagePullPolicy"),
            json!("Perhaps"),
            "spec.template.spec.containers[0].imagePullPolicy",
        ),
        (
            &format!("{container}/resources"),
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            "spec.template.spec.containers[0].resources.requests",
        ),
        (
            &format!("{container}/volumeMounts"),
            json!([{"name": "none", "mountPath": "/x"}]),
            "spec.template.spec.containers[0].volumeMounts[0].name",
        ),
    ] {
        let mut wanted = job("refused", &["true"]);
        for key in ["securityContext", "volumes", "activeDeadlineSeconds"] {
            wanted["spec"]["template"]["spec"][key] = Value::Null;
        }
        for key in ["env", "imagePullPolicy", "resources", "volumeMounts"] {
            wanted["spec"]["template"]["spec"]["containers"][0][key] = Value::Null;
        }
        wanted["spec"]["activeDeadlineSeconds"] = Value::Null;
        *wanted.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
        match jobs.create(&PostParams::default(), &post(&wanted)).await {
            Err(kube::Error::Api(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{pointer} {value}");
                let causes = status.details.clone().unwrap().causes;
                assert!(causes.iter().any(|cause| cause.field == field), "{pointer} {value}: {causes:?}");
            }
            other => panic!("{pointer} {value}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_choose() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let everywhere: Api<Job> = Api::all(client.clone());
    for (name, tier) in [("one", "front"), ("two", "back")] {
        let mut wanted = job(name, &["true"]);
        wanted["metadata"]["labels"]["tier"] = json!(tier);
        create(&jobs, &wanted).await;
    }
    for (params, expected) in [
        (ListParams::default(), vec!["one", "two"]),
        (ListParams::default().labels("tier=front"), vec!["one"]),
        (ListParams::default().labels("tier!=front,app=test"), vec!["two"]),
        (ListParams::default().labels("tier in (front,back),!other"), vec!["one", "two"]),
        (ListParams::default().labels("tier notin (front)"), vec!["two"]),
        (ListParams::default().fields("metadata.name=two"), vec!["two"]),
        (ListParams::default().fields("metadata.namespace=other"), vec![]),
    ] {
        for api in [&jobs, &everywhere] {
            let found = api.list(&params).await.unwrap().items;
            let names: Vec<&str> = found.iter().filter_map(|job| job.metadata.name.as_deref()).collect();
            assert_eq!(names, expected, "{params:?}");
        }
    }
    for wrong in [ListParams::default().labels("a b"), ListParams::default().fields("spec.nothing=1")] {
        assert_eq!(status_of(jobs.list(&wrong).await), (400, "BadRequest".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_miss_nothing() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let version = jobs.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    create(&jobs, &job("seen", &["true"])).await;
    job_when(&client, "seen", "Complete").await;
    jobs.delete("seen", &DeleteParams::background()).await.unwrap();
    // All of it happened before the watch.
    let mut events = jobs.watch(&WatchParams::default().timeout(1), &version).await.unwrap().boxed();
    let (mut kinds, mut last) = (Vec::new(), 0);
    while let Some(event) = events.next().await {
        let (kind, job) = match event.unwrap() {
            WatchEvent::Added(job) => ("added", job),
            WatchEvent::Modified(job) => ("modified", job),
            WatchEvent::Deleted(job) => ("deleted", job),
            other => panic!("{other:?}"),
        };
        let version: u64 = job.metadata.resource_version.unwrap().parse().unwrap();
        assert!(version > last);
        last = version;
        kinds.push(kind);
    }
    assert_eq!((kinds.first(), kinds.last()), (Some(&"added"), Some(&"deleted")));
    assert!(kinds.contains(&"modified"));
    let future = jobs.watch(&WatchParams::default(), "999999").await.map(|_| ());
    assert_eq!(status_of(future).0, 504);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watcher_of_kube_runs_on_it() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("before", &["true"])).await;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let config = config.labels("app=test");
        let mut stream = watcher(jobs.clone(), config).applied_objects().boxed();
        let first =
            tokio::time::timeout(Duration::from_secs(5), stream.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.metadata.name.as_deref(), Some("before"));
    }
}

/// Sends bytes as they are; the first line of the answer, if there is one.
async fn raw(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await;
    let count = read.expect("no answer").unwrap_or_default();
    let text = String::from_utf8_lossy(&answer[..count]).into_owned();
    text.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused_and_harm_nothing() {
    let cluster = cluster().await;
    let kubectls = cluster.kubeconfig().with_file_name("kubeconfig");
    let config: Value = serde_json::from_slice(&std::fs::read(kubectls).unwrap()).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let (address, reader) = server.trim_start_matches("http://").split_once('/').unwrap();
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let jobs = "/apis/batch/v1/namespaces/jobs/jobs";
    let pods = "/api/v1/namespaces/jobs/pods";
    for (method, path, body, expected) in [
        ("POST", jobs.to_owned(), "{", 400),
        ("POST", jobs.to_owned(), "[]", 400),
        ("POST", jobs.to_owned(), "", 400),
        ("POST", jobs.to_owned(), "{\"spec\":{\"template\":{\"spec\":{\"containers\":7}}}}", 400),
        ("POST", jobs.to_owned(), "{}", 422),
        ("POST", format!("{jobs}?dryRun=Some"), "{}", 400),
        ("PUT", format!("{jobs}/a"), "{}", 405),
        ("DELETE", format!("{jobs}/a"), "", 404),
        ("DELETE", format!("{jobs}/a"), "{\"propagationPolicy\":\"Never\"}", 400),
        ("GET", format!("{jobs}?watch=1&resourceVersion=x"), "", 400),
        ("GET", format!("{jobs}?timeoutSeconds=-1"), "", 400),
        ("GET", format!("{pods}/a/log?tailLines=many"), "", 400),
        ("GET", format!("{pods}/%FF"), "", 400),
        ("GET", format!("{pods}/%2e%2e%2fa"), "", 404),
        ("GET", format!("{pods}/a/exec?command=true&stdout=1"), "", 404),
        ("GET", "/".to_owned(), "", 404),
        ("GET", "/api/v1/namespaces/jobs/widgets".to_owned(), "", 404),
        ("GET", "/apis/widgets/v1".to_owned(), "", 404),
        ("GET", "/apis/batch/v2/jobs".to_owned(), "", 404),
    ] {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n");
        let request =
            format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer = raw(address, &request).await;
        assert!(answer.contains(&format!(" {expected} ")), "{method} {path} {body}: {answer}");
    }
    let head = format!("POST {jobs} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n");
    let yaml = format!("{head}content-type: application/yaml\r\ncontent-length: 2\r\n\r\n{{}}");
    assert!(raw(address, &yaml).await.contains(" 415 "));
    let large = format!("{head}content-type: application/json\r\ncontent-length: 4000000\r\n\r\n");
    assert!(raw(address, &large).await.contains(" 413 "));
    // Without the token the prefix opens reads, and nothing else.
    for (method, path, expected) in [
        ("GET", format!("/{reader}{pods}"), 200),
        ("GET", format!("/{reader}/version"), 200),
        ("GET", pods.to_owned(), 401),
        ("GET", format!("/{reader}x{pods}"), 401),
        ("GET", format!("/{reader}{pods}/a/exec?command=true&stdout=1"), 403),
        ("POST", format!("/{reader}{pods}/a/exec?command=true&stdout=1"), 403),
        ("POST", format!("/{reader}{jobs}"), 403),
        ("DELETE", format!("/{reader}{pods}/a"), 403),
    ] {
        let answer = raw(address, &format!("{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        assert!(answer.contains(&format!(" {expected} ")), "{method} {path}: {answer}");
    }
    raw(address, "no http at all\r\n\r\n").await;
    raw(address, "GET / HTTP/1.1\r\nauthorization: \u{1}\r\n\r\n").await;
    assert!(client(&cluster).await.apiserver_version().await.is_ok());
}
