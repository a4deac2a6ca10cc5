//! What lies on the machine's disk: who may see it, how much it may be, and that it goes.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::*;

/// A user who has nothing to do with the cluster.
const STRANGER: u32 = 12345;

/// `job` with an emptyDir of this size at `/work`.
fn job_with_volume(name: &str, script: &str, volume: Value) -> Value {
    let mut wanted = job(name, &["sh", "-c", script]);
    let spec = &mut wanted["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "work", "emptyDir": volume}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "work", "mountPath": "/work"}]);
    spec["containers"][0]["workingDir"] = json!("/work");
    wanted
}

/// Every path at and below `top`.
fn tree(top: &Path) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        if path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            found.extend(std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        next += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_user_reaches_a_jobs_files() {
    for unconfined in [false, true] {
        let cluster = start(unconfined).await;
        let client = client(&cluster).await;
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        let script = "umask 0; echo secret > input && cat input && sleep 60";
        create(&jobs, &job_with_volume("private", script, json!({}))).await;
        let pod = pod_when(&client, "private", |pod| phase(pod) == "Running").await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let name = pod.metadata.name.unwrap();
        let begun = Instant::now();
        // The job itself reaches them.
        while pods.logs(&name, &LogParams::default()).await.unwrap() != "secret\n" {
            assert!(begun.elapsed() < Duration::from_secs(10), "the job cannot use its folder");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let home = cluster.kubeconfig().parent().unwrap();
        let paths = tree(home);
        let input = paths.iter().find(|path| path.ends_with("work/input")).unwrap();
        assert_eq!(std::fs::metadata(home).unwrap().mode() & 0o007, 0, "unconfined: {unconfined}");
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            continue;
        }
        let as_stranger = |script: &str, path: &Path| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).arg(path).uid(STRANGER).gid(STRANGER).current_dir("/");
            shell.output().unwrap()
        };
        for path in &paths {
            let shown = as_stranger("cat \"$1\" || ls -A \"$1\"", path);
            assert!(!shown.status.success() && shown.stdout.is_empty(), "{}", path.display());
        }
        let planted = input.with_file_name("planted");
        as_stranger("echo planted > \"$1\"; echo changed > \"$2\"", &planted);
        as_stranger("echo changed > \"$1\"", input);
        assert!(!planted.exists());
        assert_eq!(std::fs::read_to_string(input).unwrap(), "secret\n");
    }
}

/// The kubelet evicts a pod whose volume exceeds its `sizeLimit`; a hole in a file takes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_beyond_its_size_evicts_the_pod() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let size = json!({"sizeLimit": "4Mi"});
    let script = "head -c 8388608 /dev/zero > file; sleep 60";
    create(&jobs, &job_with_volume("large", script, size.clone())).await;
    let script = "truncate -s 1G sparse && head -c 1000000 /dev/zero > file && sleep 2";
    create(&jobs, &job_with_volume("sparse", script, size)).await;
    let status = pod_when(&client, "large", has_ended).await.status.unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    assert_eq!(
        status.message.as_deref(),
        Some("Usage of EmptyDir volume \"work\" exceeds the limit \"4Mi\". ")
    );
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    assert!(!events.list(&ListParams::default().fields("reason=Evicted")).await.unwrap().items.is_empty());
    assert_eq!(phase(&pod_when(&client, "sparse", has_ended).await), "Succeeded");
}

/// The sum of what all volumes take is bounded by the containers' limits.
#[tokio::test(flavor = "multi_thread")]
async fn storage_beyond_the_containers_limits_evicts_the_pod() {
    let cluster = cluster().await;
    let client = client(&cluster).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let mut wanted = job_with_volume("total", "head -c 8388608 /dev/zero > file; sleep 60", json!({}));
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"ephemeral-storage": "4Mi"}});
    create(&jobs, &wanted).await;
    let status = pod_when(&client, "total", has_ended).await.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("Evicted"));
    assert_eq!(
        status.message.as_deref(),
        Some("Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ")
    );
}
