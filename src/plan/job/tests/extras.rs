//! Clones, the cache and the operator's environment in a manifest: who sees what.

use super::*;
use crate::plan::{CacheAccess, CloneHost};

fn extras() -> JobSettings {
    JobSettings {
        extras: JobExtras {
            clone_image: Some("alpine/git:2.49.1".to_owned()),
            clone_secret: Some("git-tokens".to_owned()),
            cache: Some(CacheVolume { claim: "modules".to_owned(), mount_path: "/go/pkg/mod".to_owned() }),
            env: BTreeMap::from([
                ("GOPROXY".to_owned(), "https://proxy $(A)".to_owned()),
                ("HTTPS_PROXY".to_owned(), "http://egress:3128".to_owned()),
                ("MODE".to_owned(), "operator".to_owned()),
            ]),
        },
        ..settings()
    }
}

fn with_clone(url: &str) -> RunJob {
    RunJob {
        clone: Some(CloneRequest { repo_url: url.to_owned(), reference: "main".to_owned(), subdir: None }),
        env: BTreeMap::from([("MODE".to_owned(), "caller".to_owned())]),
        files: vec![InputFile { path: "repo/x".to_owned(), content: Bytes::new(), mode: None }],
        ..call()
    }
}

fn rights(cache: CacheAccess) -> Rights {
    Rights { cache, ..Rights::default() }
}

fn made(job: &RunJob, rights: &Rights) -> JobPlan {
    plan(DecisionId::mint(), job, &extras(), rights).unwrap()
}

fn all_containers(manifest: &Value) -> Vec<Value> {
    let pod = &manifest["spec"]["template"]["spec"];
    ["initContainers", "containers"]
        .iter()
        .filter_map(|list| pod[list].as_array())
        .flatten()
        .cloned()
        .collect()
}

fn named<'a>(containers: &'a [Value], name: &str) -> &'a Value {
    containers.iter().find(|container| container["name"] == name).unwrap()
}

fn mounts(container: &Value) -> Vec<&str> {
    container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["name"].as_str().unwrap())
        .collect()
}

#[test]
fn the_cloner_alone_mounts_the_token_of_one_host_and_comes_first() {
    let manifest = json_of(&made(&with_clone("https://GitHub.com/a/b"), &rights(CacheAccess::Write)));
    let containers = all_containers(&manifest);
    let names: Vec<&str> = containers.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["clone", "inject", "main", "helper"]);
    for container in &containers {
        let has_token = mounts(container).contains(&"clone-token");
        assert_eq!(has_token, container["name"] == "clone", "{container}");
        let has_cache = mounts(container).contains(&"cache");
        assert_eq!(has_cache, container["name"] == "main", "{container}");
    }
    let volumes = manifest["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let token = volumes.iter().find(|volume| volume["name"] == "clone-token").unwrap();
    assert_eq!(
        token["secret"],
        json!({
            // 0440: what fsGroup's members and root may read.
            "secretName": "git-tokens", "optional": true, "defaultMode": 288,
            "items": [
                { "key": "github.com", "path": "token", "mode": 288 },
                { "key": "github.com.ca.crt", "path": "ca.crt", "mode": 288 },
            ],
        })
    );
    let cloner = named(&containers, "clone");
    assert_eq!(cloner["image"], "docker.io/alpine/git:2.49.1");
    let argv: Vec<&str> =
        cloner["command"].as_array().unwrap().iter().skip(3).filter_map(Value::as_str).collect();
    assert_eq!(
        argv,
        [
            "clone",
            "https://github.com/a/b",
            "https://github.com",
            "refs/heads/main",
            "refs/tags/main",
            "/work/repo",
            "/kubepermit-token/token",
            "/kubepermit-token/ca.crt",
            "/kubepermit/before",
        ]
    );
    // Neither the caller's variables nor the operator's for jobs, except the way out of the network.
    let env = cloner["env"].to_string();
    assert!(env.contains("http://egress:3128") && !env.contains("GOPROXY") && !env.contains("MODE"), "{env}");
    // Cloning has a budget of its own: 60 + 300 + 30 + 30 s beside the command's 60, and 300 for the clone.
    assert_eq!(manifest["spec"]["activeDeadlineSeconds"], 60 + 420 + 300);
}

#[test]
fn such_pods_pass_pod_security_too() {
    for profile in [PodProfile::Restricted, PodProfile::Compat] {
        let settings = JobSettings { profile, ..extras() };
        let rights = rights(CacheAccess::Read);
        plan(DecisionId::mint(), &with_clone("https://github.com/a/b"), &settings, &rights).unwrap();
    }
}

#[test]
fn a_callers_variables_win_and_the_operators_are_taken_literally() {
    let manifest = json_of(&made(&with_clone("https://github.com/a/b"), &Rights::default()));
    let containers = all_containers(&manifest);
    let env = named(&containers, "main")["env"].as_array().unwrap();
    let of = |name: &str| env.iter().find(|entry| entry["name"] == name).map(|entry| entry["value"].clone());
    assert_eq!(of("MODE"), Some(json!("caller")));
    assert_eq!(of("GOPROXY"), Some(json!("https://proxy $$(A)")), "the kubelet would expand it");
    assert_eq!(of("GIT_CONFIG_VALUE_0"), Some(json!("/work/repo")), "git's safe.directory");
    let without = json_of(&made(&call(), &Rights::default()));
    assert!(!without.to_string().contains("GIT_CONFIG"));
}

#[test]
fn the_cache_is_as_the_rights_say() {
    let of = |access| {
        let plan = made(&call(), &rights(access));
        let manifest = json_of(&plan);
        let containers = all_containers(&manifest);
        let mounts = named(&containers, "main")["volumeMounts"].as_array().unwrap().clone();
        let mount = mounts.into_iter().find(|mount| mount["name"] == "cache");
        let policy = manifest["spec"]["template"]["spec"]["securityContext"]["fsGroupChangePolicy"].clone();
        (mount, policy, plan.cache().map(|cache| cache.read_only))
    };
    assert_eq!(of(CacheAccess::None), (None, Value::Null, None));
    let (mount, policy, read_only) = of(CacheAccess::Read);
    assert_eq!(mount, Some(json!({ "name": "cache", "mountPath": "/go/pkg/mod", "readOnly": true })));
    assert_eq!((policy, read_only), (json!("OnRootMismatch"), Some(true)));
    let (mount, _, read_only) = of(CacheAccess::Write);
    assert_eq!(mount, Some(json!({ "name": "cache", "mountPath": "/go/pkg/mod" })));
    assert_eq!(read_only, Some(false));
}

#[test]
fn what_is_in_the_way_is_refused() {
    let codes = |job: &RunJob, access| {
        let refusal = plan(DecisionId::mint(), job, &extras(), &rights(access));
        refusal
            .map(drop)
            .map_err(|refusal| refusal.reasons.into_iter().map(|reason| reason.code).collect::<Vec<_>>())
    };
    for workdir in ["/go/pkg/mod", "/go/pkg", "/go/pkg/mod/a"] {
        let job = RunJob { workdir: Some(workdir.to_owned()), ..call() };
        assert_eq!(codes(&job, CacheAccess::Read), Err(vec!["workdir.cache".to_owned()]), "{workdir}");
        assert_eq!(codes(&job, CacheAccess::None), Ok(()), "{workdir}");
    }
    let clone = |subdir: &str, file: &str| {
        let mut job = with_clone("https://github.com/a/b");
        job.files = vec![InputFile { path: file.to_owned(), content: Bytes::new(), mode: None }];
        if let Some(clone) = &mut job.clone {
            clone.subdir = Some(subdir.to_owned());
        }
        codes(&job, CacheAccess::None)
    };
    assert_eq!(clone("a/b", "a/b/c"), Ok(()));
    assert_eq!(clone("a/b", "a/c"), Ok(()));
    for (subdir, file) in
        [("a/b", "a"), ("a/b", "a/b"), (".git", "x"), ("a/.GIT/b", "x"), ("-a", "x"), ("a b", "x")]
    {
        assert_eq!(clone(subdir, file), Err(vec!["clone.subdir".to_owned()]), "{subdir} {file}");
    }
}

#[test]
fn submodules_come_from_the_same_host_alone() {
    let host = |name: &str| name.parse::<CloneHost>().unwrap();
    let rights = Rights {
        submodules: vec![
            (host("github.com"), "/my-org/".to_owned()),
            (host("github.com:8443"), "/".to_owned()),
            (host("gitlab.com"), "/".to_owned()),
        ],
        ..Rights::default()
    };
    let plan = made(&with_clone("https://github.com/my-org/b"), &rights);
    assert_eq!(plan.clone_plan().unwrap().submodules, ["https://github.com/my-org/"]);
}
