//! Pods that do not start, and why.

use super::*;

/// Reason and message of the first container's waiting state.
fn waiting(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.clone()?.container_statuses?.into_iter().next()?;
    let waiting = status.state?.waiting?;
    Some((waiting.reason?, waiting.message.unwrap_or_default()))
}

async fn waits(image: &str, change: impl Fn(&mut Value), reason: &str) -> String {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("waits", &["true"]);
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    change(&mut wanted);
    create(&jobs, &wanted).await;
    let pod = pod_when(&client, "waits", |pod| waiting(pod).is_some_and(|w| w.0 == reason)).await;
    assert_eq!(phase(&pod), "Pending");
    let name = pod.metadata.name.clone().unwrap();
    assert_eq!(status_of(pods.logs(&name, &LogParams::default()).await), (400, "BadRequest".to_owned()));
    // A pod that never started goes as fast as any other.
    pods.delete(&name, &DeleteParams::default()).await.unwrap();
    job_when(&client, "waits", "Failed").await;
    waiting(&pod).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there() {
    let message = waits("ghost:1", |_| {}, "ErrImagePull").await;
    assert!(message.contains("failed to pull and unpack image \"docker.io/library/ghost:1\""), "{message}");
    let message = waits("ghost:1", |_| {}, "ImagePullBackOff").await;
    assert!(message.starts_with("Back-off pulling image \"ghost:1\""), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_reasons_not_to_start() {
    waits("Not An Image", |_| {}, "InvalidImageName").await;
    let never = |job: &mut Value| {
        job["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    };
    waits("ghost:1", never, "ErrImageNeverPull").await;
    let root = |job: &mut Value| {
        job["spec"]["template"]["spec"]["securityContext"] = json!({"runAsNonRoot": true});
    };
    let message = waits("busybox:1.36", root, "CreateContainerConfigError").await;
    assert_eq!(message, "container has runAsNonRoot and image will run as root");
    let secret = |job: &mut Value| {
        job["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]);
    };
    assert_eq!(
        waits("busybox:1.36", secret, "CreateContainerConfigError").await,
        "secret \"none\" not found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("no-program", &["no-such-program"])).await;
    let pod = pod_when(&client, "no-program", has_ended).await;
    let end = terminated(&pod, "main");
    assert_eq!((end.exit_code, end.reason.as_deref()), (128, Some("StartError")));
    assert!(end.message.unwrap().contains("no-such-program"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_can_take() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("huge", &["true"]);
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10000"}});
    create(&jobs, &wanted).await;
    let unschedulable = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        conditions.into_iter().any(|c| {
            c.type_ == "PodScheduled"
                && c.status == "False"
                && c.reason.as_deref() == Some("Unschedulable")
                && c.message
                    .as_deref()
                    .is_some_and(|m| m.starts_with("0/1 nodes are available: 1 Insufficient cpu."))
        })
    };
    let pod = pod_when(&client, "huge", unschedulable).await;
    assert_eq!(phase(&pod), "Pending");
    assert!(pod.spec.unwrap().node_name.is_none());
    let name = pod.metadata.name.unwrap();
    assert_eq!(pods.logs(&name, &LogParams::default()).await.unwrap(), "");
    jobs.delete("huge", &DeleteParams::background()).await.unwrap();
    let started = Instant::now();
    while pods.get_opt(&name).await.unwrap().is_some() {
        assert!(started.elapsed() < Duration::from_secs(2));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_may_not_be_made() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("forbidden", &["true"]);
    wanted["spec"]["template"]["spec"]["priorityClassName"] = json!("no-such-class");
    create(&jobs, &wanted).await;
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about = ListParams::default()
        .fields("involvedObject.kind=Job,involvedObject.name=forbidden,reason=FailedCreate");
    let started = Instant::now();
    let event = loop {
        if let Some(event) = events.list(&about).await.unwrap().items.into_iter().next() {
            break event;
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(event.message.unwrap().contains("no PriorityClass with name no-such-class was found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_over_the_limit_is_an_oom_kill() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("oom", &["sh", "-c", "x=a; while :; do x=$x$x$x$x; done"]);
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "64Mi"}});
    create(&jobs, &wanted).await;
    let pod = pod_when(&client, "oom", has_ended).await;
    let end = terminated(&pod, "main");
    // A program may also see its request for memory refused and end by itself.
    assert!(
        matches!((end.exit_code, end.reason.as_deref()), (137, Some("OOMKilled")) | (1..=127, Some("Error"))),
        "{end:?}"
    );
    assert_eq!(pod.status.unwrap().qos_class.as_deref(), Some("Burstable"));
}
