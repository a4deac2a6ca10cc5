//! Executing in a running container.

use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A pod that runs on, with `/work`.
async fn running(client: &Client, name: &str) -> String {
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job(name, &["sleep", "60"]);
    wanted["spec"]["template"]["spec"]["volumes"] = json!([{"name": "work", "emptyDir": {}}]);
    wanted["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "work", "mountPath": "/work"}]);
    create(&jobs, &wanted).await;
    pod_when(client, name, |pod| phase(pod) == "Running").await.metadata.name.unwrap()
}

/// Output, error, and the status' status and reason or exit code.
async fn finish(mut process: AttachedProcess, input: Option<&[u8]>) -> (Vec<u8>, String, (String, String)) {
    let (stdin, stdout, stderr) = (process.stdin(), process.stdout(), process.stderr());
    let status = process.take_status().unwrap();
    let (mut out, mut err) = (Vec::new(), String::new());
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            stdin.write_all(input).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
    };
    let (mut stdout, mut stderr) = (stdout.unwrap(), stderr.unwrap());
    let read =
        async { tokio::try_join!(stdout.read_to_end(&mut out), stderr.read_to_string(&mut err)).unwrap() };
    let work = async { tokio::join!(write, read, status).2 };
    let status =
        tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs").expect("no status");
    let cause =
        status.details.and_then(|d| d.causes).and_then(|c| c.into_iter().next()).and_then(|c| c.message);
    let detail = if status.reason.as_deref() == Some("NonZeroExitCode") { cause } else { status.reason };
    (out, err, (status.status.unwrap(), detail.unwrap_or_default()))
}

fn params(stdin: bool) -> AttachParams {
    AttachParams::default().stdin(stdin).container("main")
}

#[tokio::test(flavor = "multi_thread")]
async fn tar_streams_go_in_and_out() {
    tar_through(cluster().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_in_an_argv_work_without_confinement() {
    tar_through(start(true).await).await;
}

async fn tar_through(cluster: Embedded) {
    let client = client(&cluster).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = running(&client, "tar").await;
    // Larger than any buffer on the way.
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o640);
    archive.append_data(&mut header, "dir/data", content.as_slice()).unwrap();
    let archive = archive.into_inner().unwrap();

    let process = pods.exec(&pod, ["tar", "-xf", "-", "-C", "/work"], &params(true)).await.unwrap();
    let (_, err, status) = finish(process, Some(&archive)).await;
    assert_eq!((status.0.as_str(), err.as_str()), ("Success", ""));

    let process = pods.exec(&pod, ["tar", "-cf", "-", "-C", "/work", "."], &params(false)).await.unwrap();
    let (out, _, status) = finish(process, None).await;
    assert_eq!(status.0, "Success");
    let mut archive = tar::Archive::new(out.as_slice());
    let mut found =
        archive.entries().unwrap().map(Result::unwrap).find(|e| e.path().unwrap().ends_with("data")).unwrap();
    let mut back = Vec::new();
    std::io::Read::read_to_end(&mut found, &mut back).unwrap();
    assert!(back == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_exit_codes_are_kept_apart() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = running(&client, "codes").await;
    let command = ["sh", "-c", "cat; echo \"a b&c\"; echo e >&2; exit 42"];
    let process = pods.exec(&pod, command, &params(true)).await.unwrap();
    let (out, err, status) = finish(process, Some(b"in\n")).await;
    assert_eq!((out.as_slice(), err.as_str()), (b"in\na b&c\n".as_slice(), "e\n"));
    assert_eq!(status, ("Failure".to_owned(), "42".to_owned()));

    let process = pods.exec(&pod, ["no-such-program"], &params(false)).await.unwrap();
    let (_, _, status) = finish(process, None).await;
    assert_eq!(status, ("Failure".to_owned(), "InternalError".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_a_container_ends_with_it() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = running(&client, "ends").await;
    let command = ["sh", "-c", "echo up; sleep 60"];
    let mut process = pods.exec(&pod, command, &params(false)).await.unwrap();
    let mut up = [0; 3];
    let mut stdout = process.stdout().unwrap();
    stdout.read_exact(&mut up).await.unwrap();
    let status = process.take_status().unwrap();
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&pod, &now).await.unwrap();
    let status = tokio::time::timeout(Duration::from_secs(5), status).await.unwrap().unwrap();
    let causes = status.details.unwrap().causes.unwrap();
    assert_eq!(causes[0].message.as_deref(), Some("137"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_running_container_takes_a_command() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = running(&client, "other").await;
    let wrong = AttachParams::default().container("nobody");
    assert_eq!(
        status_of(pods.exec(&pod, ["true"], &wrong).await.map(|_| ())),
        (400, "BadRequest".to_owned())
    );
    create(&jobs, &job("done", &["true"])).await;
    let pod = pod_when(&client, "done", has_ended).await.metadata.name.unwrap();
    assert_eq!(status_of(pods.exec(&pod, ["true"], &params(false)).await.map(|_| ())).0, 400);
    assert_eq!(status_of(pods.exec("absent", ["true"], &params(false)).await.map(|_| ())).0, 404);
}
