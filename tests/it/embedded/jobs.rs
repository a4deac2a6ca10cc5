//! Jobs and their pods, from creation to deletion.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_to_its_end() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let created = create(&jobs, &job("hello", &["sh", "-c", "echo hello; echo error >&2; exit 3"])).await;
    assert_eq!(created.spec.as_ref().unwrap().completions, Some(1));

    let pod = pod_when(&client, "hello", has_ended).await;
    let name = pod.metadata.name.clone().unwrap();
    assert!(name.starts_with("hello-") && name.len() == "hello-".len() + 5, "{name}");
    assert_eq!(pod.metadata.owner_references.as_ref().unwrap()[0].uid, created.metadata.uid.clone().unwrap());
    assert_eq!(phase(&pod), "Failed");
    let end = terminated(&pod, "main");
    assert_eq!((end.exit_code, end.reason.as_deref()), (3, Some("Error")));
    assert_eq!(pods.logs(&name, &LogParams::default()).await.unwrap(), "hello\nerror\n");

    let failed = job_when(&client, "hello", "Failed").await;
    let status = failed.status.unwrap();
    assert_eq!((status.failed, status.succeeded, status.active), (Some(1), None, None));
    assert_eq!(status.conditions.unwrap().last().unwrap().reason.as_deref(), Some("BackoffLimitExceeded"));

    jobs.delete("hello", &DeleteParams::background()).await.unwrap();
    assert!(jobs.get_opt("hello").await.unwrap().is_none());
    let started = Instant::now();
    while pods.get_opt(&name).await.unwrap().is_some() {
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_nothing_takes_little_time() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("warm-up", &["true"])).await;
    pod_when(&client, "warm-up", has_ended).await;
    let started = Instant::now();
    create(&jobs, &job("quick", &["true"])).await;
    let pod = pod_when(&client, "quick", has_ended).await;
    let took = started.elapsed();
    assert_eq!(phase(&pod), "Succeeded");
    eprintln!("create to terminated: {took:?}");
    assert!(took < Duration::from_millis(500), "{took:?}");
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about = format!("involvedObject.name={}", pod.metadata.name.unwrap());
    let reasons: Vec<_> = events.list(&ListParams::default().fields(&about)).await.unwrap().items;
    let reasons: Vec<&str> = reasons.iter().filter_map(|e| e.reason.as_deref()).collect();
    for wanted in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(reasons.contains(&wanted), "{reasons:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_in_order_and_share_volumes() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mount = json!([{"name": "work", "mountPath": "/work"}]);
    let mut wanted =
        job("init", &["sh", "-c", "pwd; cat order; echo $GREETING; hostname; echo $$(pwd) $(GREETING)"]);
    wanted["spec"]["template"]["spec"]["volumes"] = json!([{"name": "work", "emptyDir": {}}]);
    wanted["spec"]["template"]["spec"]["initContainers"] = json!([
        {"name": "one", "image": "busybox:1.36", "args": ["sh", "-c", "echo one >> order"],
         "workingDir": "/work", "volumeMounts": mount},
        {"name": "two", "image": "busybox:1.36", "command": ["sh", "-c"], "args": ["echo two >> /work/order"],
         "volumeMounts": mount},
    ]);
    let main = &mut wanted["spec"]["template"]["spec"]["containers"][0];
    main["workingDir"] = json!("/work");
    main["volumeMounts"] = mount;
    main["env"] = json!([{"name": "NAME", "value": "you"}, {"name": "GREETING", "value": "hello $(NAME)"}]);
    create(&jobs, &wanted).await;
    let pod = pod_when(&client, "init", has_ended).await;
    assert_eq!(phase(&pod), "Succeeded", "{:?}", pod.status);
    let name = pod.metadata.name.clone().unwrap();
    let logs = pods
        .logs(&name, &LogParams { container: Some("main".into()), ..LogParams::default() })
        .await
        .unwrap();
    assert_eq!(logs, format!("/work\none\ntwo\nhello you\n{name}\n/work hello you\n"));
    let (one, two, main) = (terminated(&pod, "one"), terminated(&pod, "two"), terminated(&pod, "main"));
    assert!(one.finished_at <= two.started_at && two.finished_at <= main.started_at);
    let status = pod.status.unwrap();
    let id = status.container_statuses.unwrap()[0].image_id.clone();
    assert!(id.starts_with("docker.io/library/busybox@sha256:") && id.len() == 97, "{id}");
    job_when(&client, "init", "Complete").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_init_container_fails_the_pod() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("init-fails", &["true"]);
    wanted["spec"]["template"]["spec"]["initContainers"] =
        json!([{"name": "one", "image": "busybox:1.36", "command": ["sh", "-c", "exit 7"]}]);
    create(&jobs, &wanted).await;
    let pod = pod_when(&client, "init-fails", has_ended).await;
    assert_eq!((phase(&pod), terminated(&pod, "one").exit_code), ("Failed", 7));
    let main = &pod.status.unwrap().container_statuses.unwrap()[0];
    let waiting = main.state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_deleted_only_when_it_is_the_one_that_was_meant() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let created = create(&jobs, &job("mine", &["sleep", "60"])).await;
    let mut params = DeleteParams::background();
    params.preconditions = Some(Preconditions { uid: Some("another".to_owned()), resource_version: None });
    assert_eq!(status_of(jobs.delete("mine", &params).await), (409, "Conflict".to_owned()));
    params.preconditions = Some(Preconditions { uid: created.metadata.uid, resource_version: None });
    jobs.delete("mine", &params).await.unwrap();
    assert_eq!(status_of(jobs.get("mine").await), (404, "NotFound".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_follow_the_propagation_policy() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for (name, params, stays) in [
        (
            "orphan",
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() },
            true,
        ),
        // What batch/v1 does when nothing is said.
        ("unsaid", DeleteParams::default(), true),
        ("background", DeleteParams::background(), false),
        ("foreground", DeleteParams::foreground(), false),
    ] {
        create(&jobs, &job(name, &["sleep", "60"])).await;
        let pod = pod_when(&client, name, |pod| phase(pod) == "Running").await.metadata.name.unwrap();
        jobs.delete(name, &params).await.unwrap();
        let started = Instant::now();
        while jobs.get_opt(name).await.unwrap().is_some()
            || (!stays && pods.get_opt(&pod).await.unwrap().is_some())
        {
            assert!(started.elapsed() < Duration::from_secs(10), "{name}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if stays {
            let pod = pods.get(&pod).await.unwrap();
            assert_eq!((phase(&pod), pod.metadata.owner_references.clone()), ("Running", None), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlines_end_a_job_and_a_pod() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut by_job = job("by-job", &["sleep", "60"]);
    by_job["spec"]["activeDeadlineSeconds"] = json!(1);
    create(&jobs, &by_job).await;
    let mut by_pod = job("by-pod", &["sh", "-c", "echo partial; sleep 60"]);
    by_pod["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(1);
    create(&jobs, &by_pod).await;

    let failed = job_when(&client, "by-job", "Failed").await;
    assert_eq!(reason_of(&failed).as_deref(), Some("DeadlineExceeded"));
    let left = pods.list(&ListParams::default().labels("job-name=by-job")).await.unwrap();
    assert!(left.items.is_empty(), "the controller deletes the pods of a Job past its deadline");

    let pod = pod_when(&client, "by-pod", has_ended).await;
    let status = pod.status.clone().unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.reason.as_deref()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
    let end = terminated(&pod, "main");
    assert!([137, 143].contains(&end.exit_code), "{end:?}");
    assert_eq!(pods.logs(&pod.metadata.name.unwrap(), &LogParams::default()).await.unwrap(), "partial\n");
    assert_eq!(
        reason_of(&job_when(&client, "by-pod", "Failed").await).as_deref(),
        Some("BackoffLimitExceeded")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_deletes_fails_its_job() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for (name, grace) in [("graceful", None), ("forced", Some(0))] {
        create(&jobs, &job(name, &["sh", "-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"]))
            .await;
        let pod = pod_when(&client, name, |pod| phase(pod) == "Running").await.metadata.name.unwrap();
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        pods.delete(&pod, &params).await.unwrap();
        assert_eq!(
            reason_of(&job_when(&client, name, "Failed").await).as_deref(),
            Some("BackoffLimitExceeded")
        );
        let started = Instant::now();
        while pods.get_opt(&pod).await.unwrap().is_some() {
            assert!(started.elapsed() < Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_goes_after_its_time() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("ttl", &["true"]);
    wanted["spec"]["ttlSecondsAfterFinished"] = json!(1);
    create(&jobs, &wanted).await;
    job_when(&client, "ttl", "Complete").await;
    let started = Instant::now();
    while jobs.get_opt("ttl").await.unwrap().is_some() {
        assert!(started.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_jobs_at_once() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let all = (0..20).map(|number| {
        let (jobs, pods, client) = (jobs.clone(), pods.clone(), client.clone());
        async move {
            let name = format!("many-{number}");
            create(&jobs, &job(&name, &["sh", "-c", &format!("echo {number}; exit {number}")])).await;
            let pod = pod_when(&client, &name, has_ended).await;
            assert_eq!(terminated(&pod, "main").exit_code, number);
            let log = pods.logs(&pod.metadata.name.unwrap(), &LogParams::default()).await.unwrap();
            assert_eq!(log, format!("{number}\n"));
        }
    });
    futures::future::join_all(all).await;
}

/// Whether a process of this machine runs with that word among its arguments.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_the_end() {
    for stop in [true, false] {
        let cluster = cluster().await;
        let client = client(&cluster).await;
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        // A number that nobody else sleeps for.
        let seconds = format!("{}.{}", 3000 + u32::from(stop), std::process::id());
        let script = format!("trap '' TERM; (trap '' TERM; sleep {seconds}) & sleep {seconds}");
        create(&jobs, &job("stays", &["sh", "-c", &script])).await;
        pod_when(&client, "stays", |pod| phase(pod) == "Running").await;
        let started = Instant::now();
        while !runs(&seconds) {
            assert!(started.elapsed() < Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let directory = cluster.kubeconfig().parent().unwrap().to_owned();
        if stop {
            cluster.stop().await;
            assert!(!runs(&seconds) && !directory.exists());
        } else {
            drop(cluster);
            while runs(&seconds) || directory.exists() {
                assert!(started.elapsed() < Duration::from_secs(5));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_one_pod() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("three", &["true"]);
    wanted["spec"]["completions"] = json!(3);
    wanted["spec"]["parallelism"] = json!(2);
    create(&jobs, &wanted).await;
    let done = job_when(&client, "three", "Complete").await;
    assert_eq!(done.status.unwrap().succeeded, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_brings_its_own_commands() {
    if !Embedded::images().iter().any(|image| image == "python:3.12-slim") {
        eprintln!("skipped: this machine has no python3");
        return;
    }
    for unconfined in [false, true] {
        let cluster = start(unconfined).await;
        let client = client(&cluster).await;
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let mut wanted = job("python", &["python", "-c", "print(6 * 7)"]);
        wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("python:3.12-slim");
        create(&jobs, &wanted).await;
        let pod = pod_when(&client, "python", has_ended).await;
        let log = pods.logs(&pod.metadata.name.unwrap(), &LogParams::default()).await.unwrap();
        assert_eq!(log, "42\n", "unconfined: {unconfined}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_runs_beside_the_others_and_ends_after_them() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job("sidecar", &["sh", "-c", "sleep 0.1; exit 0"]);
    wanted["spec"]["template"]["spec"]["initContainers"] = json!([
        {"name": "side", "image": "busybox:1.36", "restartPolicy": "Always",
         "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done"]},
        {"name": "next", "image": "busybox:1.36", "command": ["true"]},
    ]);
    create(&jobs, &wanted).await;
    let pod = pod_when(&client, "sidecar", has_ended).await;
    assert_eq!(phase(&pod), "Succeeded", "{:?}", pod.status);
    assert!(terminated(&pod, "side").finished_at >= terminated(&pod, "main").finished_at);
    job_when(&client, "sidecar", "Complete").await;
}
