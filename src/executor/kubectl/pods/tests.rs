//! STATUS, READY and RESTARTS as `kubectl get pods` prints them for the same pods.

use serde_json::{Value, json};

use super::{Pod, PodList};

fn pod(spec: Value, status: Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "name": "a" }, "spec": spec, "status": status })).unwrap()
}

fn summary(pod: &Pod) -> String {
    let summary = pod.summary();
    format!("{}/{} {} {}", summary.ready, summary.containers, summary.status, summary.restarts)
}

fn one() -> Value {
    json!({ "containers": [{ "name": "main" }] })
}

fn state(name: &str, ready: bool, restarts: u64, state: Value) -> Value {
    json!({ "name": name, "ready": ready, "restartCount": restarts, "state": state })
}

#[test]
fn the_status_is_kubectls() {
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let ended = |code: i64, reason: &str| json!({ "terminated": { "exitCode": code, "reason": reason } });
    let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
    let with_init =
        json!({ "containers": [{ "name": "main" }], "initContainers": [{ "name": "i1" }, { "name": "i2" }] });
    let with_sidecar = json!({
        "containers": [{ "name": "main" }], "initContainers": [{ "name": "side", "restartPolicy": "Always" }],
    });
    let of = |phase: &str, containers: Value| json!({ "phase": phase, "containerStatuses": containers });
    let table: Vec<(Value, Value, &str)> = vec![
        (one(), json!({ "phase": "Pending" }), "0/1 Pending 0"),
        (one(), of("Running", json!([state("main", true, 2, running.clone())])), "1/1 Running 2"),
        (one(), of("Running", json!([state("main", false, 0, running.clone())])), "0/1 Running 0"),
        (
            one(),
            of("Running", json!([state("main", false, 5, waiting("CrashLoopBackOff"))])),
            "0/1 CrashLoopBackOff 5",
        ),
        (
            one(),
            of("Pending", json!([state("main", false, 0, waiting("ImagePullBackOff"))])),
            "0/1 ImagePullBackOff 0",
        ),
        (one(), of("Succeeded", json!([state("main", false, 0, ended(0, "Completed"))])), "0/1 Completed 0"),
        (one(), of("Failed", json!([state("main", false, 0, ended(1, "Error"))])), "0/1 Error 0"),
        (one(), of("Failed", json!([state("main", false, 0, ended(137, "OOMKilled"))])), "0/1 OOMKilled 0"),
        (one(), of("Failed", json!([state("main", false, 0, ended(3, ""))])), "0/1 ExitCode:3 0"),
        (
            one(),
            of(
                "Failed",
                json!([state("main", false, 0, json!({ "terminated": { "exitCode": 137, "signal": 9 } }))]),
            ),
            "0/1 Signal:9 0",
        ),
        (one(), json!({ "phase": "Failed", "reason": "Evicted" }), "0/1 Evicted 0"),
        (
            one(),
            json!({ "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" }] }),
            "0/1 SchedulingGated 0",
        ),
        // Of several containers the first with something to tell.
        (
            json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
            of(
                "Running",
                json!([
                    state("a", true, 0, running.clone()),
                    state("b", false, 1, waiting("CrashLoopBackOff"))
                ]),
            ),
            "1/2 CrashLoopBackOff 1",
        ),
        // One has completed, the other runs.
        (
            json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
            json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }], "containerStatuses":
                [state("a", true, 0, running.clone()), state("b", false, 0, ended(0, "Completed"))] }),
            "1/2 Running 0",
        ),
        (
            json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
            of(
                "Running",
                json!([state("a", true, 0, running.clone()), state("b", false, 0, ended(0, "Completed"))]),
            ),
            "1/2 NotReady 0",
        ),
        // Init containers.
        (
            with_init.clone(),
            json!({ "phase": "Pending", "initContainerStatuses": [state("i1", false, 0, running.clone())],
                    "containerStatuses": [state("main", false, 0, waiting("PodInitializing"))] }),
            "0/1 Init:0/2 0",
        ),
        (
            with_init.clone(),
            json!({ "phase": "Pending", "initContainerStatuses":
                [state("i1", true, 0, ended(0, "Completed")), state("i2", false, 3, waiting("CrashLoopBackOff"))] }),
            "0/1 Init:CrashLoopBackOff 3",
        ),
        (
            with_init.clone(),
            json!({ "phase": "Pending", "initContainerStatuses": [state("i1", false, 0, ended(1, "Error"))] }),
            "0/1 Init:Error 0",
        ),
        (
            with_init.clone(),
            json!({ "phase": "Pending", "initContainerStatuses": [state("i1", false, 0, ended(2, ""))] }),
            "0/1 Init:ExitCode:2 0",
        ),
        (
            with_init,
            json!({ "phase": "Running", "conditions": [{ "type": "Initialized", "status": "True" }],
                "initContainerStatuses":
                    [state("i1", true, 4, ended(0, "Completed")), state("i2", true, 0, ended(0, "Completed"))],
                "containerStatuses": [state("main", true, 1, running.clone())] }),
            "1/1 Running 1",
        ),
        // A sidecar counts as a container.
        (
            with_sidecar,
            json!({ "phase": "Running", "initContainerStatuses":
                [{ "name": "side", "ready": true, "started": true, "restartCount": 2, "state": running }],
                "containerStatuses": [state("main", true, 1, running.clone())] }),
            "2/2 Running 3",
        ),
    ];
    for (spec, status, wanted) in table {
        assert_eq!(summary(&pod(spec, status.clone())), wanted, "{status}");
    }
}

#[test]
fn a_pod_that_is_being_deleted_says_so() {
    for (phase, reason, wanted) in [
        ("Running", "", "0/1 Terminating 0"),
        ("Running", "NodeLost", "0/1 Unknown 0"),
        ("Succeeded", "", "0/1 Succeeded 0"),
    ] {
        let mut pod = pod(one(), json!({ "phase": phase, "reason": reason }));
        pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        assert_eq!(summary(&pod), wanted);
    }
}

#[test]
fn the_table_has_kubectls_columns() {
    let list = json!({ "kind": "List", "items": [{
        "metadata": { "name": "web-1", "namespace": "dev", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "main" }] },
        "status": { "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [{
            "name": "main", "ready": true, "restartCount": 3, "state": { "running": {} },
            "lastState": { "terminated": { "exitCode": 1, "finishedAt": "2026-01-01T00:19:00Z" } } }] },
    }, { "metadata": { "name": "x\ny" } }] });
    let list: PodList = serde_json::from_value(list).unwrap();
    let now = "2026-01-01T00:20:00Z".parse().unwrap();
    assert_eq!(
        list.render(true, now),
        "NAMESPACE   NAME    READY   STATUS    RESTARTS      AGE         IP         NODE\n\
         dev         web-1   1/1     Running   3 (60s ago)   20m         10.0.0.7   n1\n\
         <none>      x y     0/0     <none>    0             <unknown>   <none>     <none>\n"
    );
    assert!(list.render(false, now).starts_with("NAME    READY"));
}
