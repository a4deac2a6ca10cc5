//! What a pod is counted to use, and when it is too much.

use std::os::unix::fs::{FileExt as _, symlink};

use serde_json::{Value, json};

use super::*;

const MIB: u64 = 1 << 20;

fn spec(volumes: &Value, containers: &Value, init: &Value) -> PodSpec {
    serde_json::from_value(json!({ "volumes": volumes, "containers": containers, "initContainers": init }))
        .unwrap()
}

/// As `du` counts: sparse files by their blocks, two names of one file once, links not at all.
#[test]
fn the_disk_is_counted_as_du_does() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let bytes = |count: u64| vec![1; usize::try_from(count).unwrap()];
    fs::write(outside.path().join("huge"), bytes(8 * MIB)).unwrap();
    let top = folder.path();
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/b/file"), bytes(MIB)).unwrap();
    fs::hard_link(top.join("a/b/file"), top.join("again")).unwrap();
    File::create(top.join("sparse")).unwrap().write_at(b"x", 1 << 30).unwrap();
    symlink(outside.path(), top.join("link")).unwrap();
    symlink(outside.path().join("huge"), top.join("file-link")).unwrap();
    let du = std::process::Command::new("du").args(["-s", "-B1"]).arg(top).output().unwrap();
    let du: u64 = String::from_utf8(du.stdout).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let found = disk_usage(top);
    // `du` counts the top itself.
    assert!(found <= du && du - found < 64 << 10, "{found} {du}");
    assert!((MIB..2 * MIB).contains(&found), "{found}");
}

#[test]
fn a_folder_that_turned_into_a_link_is_not_entered() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("b")).unwrap();
    symlink(outside.path(), folder.path().join("a")).unwrap();
    let top = fs::canonicalize(folder.path()).unwrap();
    assert!(open_inside(&top.join("a"), &top).is_err());
    // Above the last name, only the descriptor tells.
    assert!(open_inside(&top.join("a/b"), &top).unwrap().is_none());
    assert!(open_inside(&top, &top).unwrap().is_some());
}

/// The messages are those of the kubelet's eviction manager.
#[test]
fn what_is_too_much_is_said_as_the_kubelet_says_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), vec![1; 2 << 20]).unwrap();
    let folders = BTreeMap::from([("work".to_owned(), folder.path().to_owned())]);
    let volume = |limit: Value| json!([{ "name": "work", "emptyDir": limit }]);
    let main = |limit: Value| json!([{ "name": "main", "resources": { "limits": limit } }]);
    for (volumes, containers, expected) in [
        (
            volume(json!({ "sizeLimit": "1Mi" })),
            main(json!({})),
            Some(Some("Usage of EmptyDir volume \"work\" exceeds the limit \"1Mi\". ")),
        ),
        (volume(json!({ "sizeLimit": "3Mi" })), main(json!({})), Some(None)),
        (
            volume(json!({})),
            main(json!({ "ephemeral-storage": "1Mi" })),
            Some(Some("Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ")),
        ),
        (volume(json!({})), main(json!({ "ephemeral-storage": "3Mi" })), Some(None)),
        (volume(json!({})), main(json!({})), None),
        (volume(json!({ "sizeLimit": "0" })), main(json!({})), None),
    ] {
        let bounds = Bounds::of(&spec(&volumes, &containers, &json!([])), &folders);
        let found = bounds.map(|bounds| bounds.check());
        assert_eq!(found.as_ref().map(Option::as_deref), expected, "{volumes} {containers}");
    }
}

/// "Resource sharing within containers" of the Kubernetes documentation on sidecars.
#[test]
fn the_total_is_the_pods_effective_limit() {
    let limit = |name: &str, amount: Option<&str>, sidecar: bool| {
        let limits = amount.map(|amount| json!({ "ephemeral-storage": amount }));
        let policy = sidecar.then_some("Always");
        json!({ "name": name, "resources": { "limits": limits }, "restartPolicy": policy })
    };
    for (containers, init, expected) in [
        (vec![limit("a", Some("1Mi"), false), limit("b", Some("2Mi"), false)], vec![], Some(3 * MIB)),
        (vec![limit("a", Some("1Mi"), false), limit("b", None, false)], vec![], Some(MIB)),
        (vec![limit("a", None, false)], vec![], None),
        (vec![limit("a", Some("1Mi"), false)], vec![limit("i", Some("5Mi"), false)], Some(5 * MIB)),
        (
            vec![limit("a", Some("1Mi"), false)],
            vec![limit("s", Some("2Mi"), true), limit("i", Some("5Mi"), false)],
            Some(7 * MIB),
        ),
        (vec![limit("a", Some("9Mi"), false)], vec![limit("s", Some("2Mi"), true)], Some(11 * MIB)),
    ] {
        assert_eq!(
            total_limit(&spec(&json!([]), &json!(containers), &json!(init))),
            expected,
            "{containers:?}"
        );
    }
}
