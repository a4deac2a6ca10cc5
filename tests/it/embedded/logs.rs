//! Reading a container's output.

use futures::AsyncReadExt as _;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_the_output() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("lines", &["sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; printf end"]))
        .await;
    let pod = pod_when(&client, "lines", has_ended).await.metadata.name.unwrap();
    let all = "line 1\nline 2\nline 3\nline 4\nline 5\nend";
    for (params, expected) in [
        (LogParams::default(), all),
        (LogParams { tail_lines: Some(2), ..LogParams::default() }, "line 5\nend"),
        (LogParams { tail_lines: Some(0), ..LogParams::default() }, ""),
        (LogParams { tail_lines: Some(99), ..LogParams::default() }, all),
        // The limit cuts the head of what the tail left.
        (LogParams { limit_bytes: Some(8), ..LogParams::default() }, "line 1\nl"),
        (LogParams { tail_lines: Some(2), limit_bytes: Some(3), ..LogParams::default() }, "lin"),
        (LogParams { since_seconds: Some(600), ..LogParams::default() }, all),
        (LogParams { follow: true, ..LogParams::default() }, all),
    ] {
        assert_eq!(pods.logs(&pod, &params).await.unwrap(), expected, "{params:?}");
    }
    let stamped = pods.logs(&pod, &LogParams { timestamps: true, ..LogParams::default() }).await.unwrap();
    assert_eq!(stamped.lines().count(), 6);
    for line in stamped.lines() {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && all.contains(rest), "{line}");
    }
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(status_of(pods.logs(&pod, &previous).await).0, 400);
    let wrong = LogParams { container: Some("nobody".into()), ..LogParams::default() };
    assert_eq!(status_of(pods.logs(&pod, &wrong).await).0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_output_as_it_comes_and_its_end() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    create(&jobs, &job("follow", &["sh", "-c", "echo first; sleep 1; echo last"])).await;
    let pod = pod_when(&client, "follow", |pod| phase(pod) == "Running").await.metadata.name.unwrap();
    let started = Instant::now();
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut stream = Box::pin(pods.log_stream(&pod, &follow).await.unwrap());
    let mut first = [0; 6];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first\n");
    assert!(started.elapsed() < Duration::from_millis(900));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "last\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_megabytes_keep_their_tail() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let script = "yes 0123456789012345678901234567890123456789012345678 | head -n 1000000; echo the end";
    create(&jobs, &job("large", &["sh", "-c", script])).await;
    let pod = pod_when(&client, "large", has_ended).await;
    assert_eq!(phase(&pod), "Succeeded");
    let pod = pod.metadata.name.unwrap();
    let tail = pods.logs(&pod, &LogParams { tail_lines: Some(2), ..LogParams::default() }).await.unwrap();
    assert_eq!(tail, "0123456789012345678901234567890123456789012345678\nthe end\n");
    let mut stream = Box::pin(pods.log_stream(&pod, &LogParams::default()).await.unwrap());
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), 50_000_000 + "the end\n".len());
    assert!(all.ends_with(b"678\nthe end\n"));
}
