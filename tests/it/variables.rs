//! The reference server's nineteen variables: what each does, and what holds without it. The defaults are those of its
//! README.

use std::path::Path;

use serde_json::{Value, json};

use crate::session::kubepermit;

/// Its README's table, row by row.
const VARIABLES: [&str; 19] = [
    "MCP_K8S_TRANSPORT",
    "MCP_K8S_ADDR",
    "MCP_K8S_NAMESPACE",
    "MCP_K8S_DEFAULT_TIMEOUT_S",
    "MCP_K8S_MAX_TIMEOUT_S",
    "MCP_K8S_MAX_OUTPUT_BYTES",
    "MCP_K8S_MAX_ARTIFACT_BYTES",
    "MCP_K8S_DEFAULT_CPU",
    "MCP_K8S_DEFAULT_MEMORY",
    "MCP_K8S_MAX_CONCURRENT",
    "MCP_K8S_ALLOWED_IMAGES",
    "MCP_K8S_SIDECAR_IMAGE",
    "MCP_K8S_CLONE_IMAGE",
    "MCP_K8S_CLONE_SECRET",
    "MCP_K8S_CACHE_PVC",
    "MCP_K8S_CACHE_MOUNT_PATH",
    "MCP_K8S_JOB_EXTRA_ENV",
    "MCP_K8S_KUBECONFIG",
    "MCP_K8S_AUTH_TOKEN",
];

/// How a call went: what it printed as JSON, and its standard error.
struct Went {
    document: Value,
    log: String,
}

impl Went {
    fn at(&self, pointer: &str) -> Value {
        self.document.pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    /// The code of the first reason of a refusal.
    fn code(&self) -> Value {
        let shown = self.at("/refusal/reasons/0/code");
        if shown.is_null() { self.at("/error/reasons/0/code") } else { shown }
    }
}

fn run(home: &Path, call: &Value, set: &[(&str, &str)], more: &[&str]) -> Went {
    let output = kubepermit(home)
        .args(["call", "run_job", &call.to_string()])
        .args(more)
        .envs(set.iter().copied())
        .output()
        .unwrap();
    Went {
        document: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        log: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What would run.
fn dry(call: Value, set: &[(&str, &str)]) -> Went {
    let home = tempfile::tempdir().unwrap();
    let images = [("MCP_K8S_ALLOWED_IMAGES", "busybox:1.36")];
    let set: Vec<_> = images
        .iter()
        .filter(|(name, _)| set.iter().all(|(other, _)| other != name))
        .chain(set)
        .copied()
        .collect();
    run(home.path(), &call, &set, &["--dry-run"])
}

/// What comes of it on the embedded cluster.
fn embedded(call: Value, set: &[(&str, &str)]) -> Went {
    let home = tempfile::tempdir().unwrap();
    run(home.path(), &call, set, &["--embedded"])
}

fn plain() -> Value {
    json!({ "image": "busybox", "command": ["true"] })
}

fn shell(script: &str) -> Value {
    json!({ "image": "busybox", "command": ["sh", "-c", script] })
}

const POD: &str = "/manifest/spec/template/spec";

fn in_pod(pointer: &str) -> String {
    format!("{POD}{pointer}")
}

#[test]
fn each_variable_has_its_effect_and_its_default() {
    for variable in VARIABLES {
        match variable {
            "MCP_K8S_TRANSPORT" => {
                assert_eq!(dry(plain(), &[]).at("/allow"), true);
                assert_eq!(dry(plain(), &[(variable, "stdio")]).at("/allow"), true);
                let other = dry(plain(), &[(variable, "carrier-pigeon")]);
                assert!(other.document.is_null() && other.log.contains(variable), "{}", other.log);
            }
            "MCP_K8S_ADDR" => {
                assert!(!embedded(plain(), &[]).log.contains(variable));
                let set = embedded(plain(), &[(variable, "127.0.0.1:9000")]);
                assert_eq!(set.at("/status"), "succeeded");
                assert!(set.log.contains("MCP_K8S_ADDR (--addr) has no effect with stdio"), "{}", set.log);
                assert!(dry(plain(), &[(variable, "nowhere")]).log.contains(variable));
            }
            "MCP_K8S_NAMESPACE" => {
                assert_eq!(dry(plain(), &[]).at("/manifest/metadata/namespace"), "mcp-ephemeral");
                let set = dry(plain(), &[(variable, "ephemeral-dev")]);
                assert_eq!(
                    (set.at("/allow"), set.at("/manifest/metadata/namespace")),
                    (json!(true), json!("ephemeral-dev"))
                );
            }
            "MCP_K8S_DEFAULT_TIMEOUT_S" => {
                // The budgets beside the command's own wall clock are 450 s.
                let deadline = |set: &[_]| {
                    dry(plain(), set).at("/manifest/spec/activeDeadlineSeconds").as_u64().unwrap()
                };
                assert_eq!(deadline(&[]) - deadline(&[(variable, "7")]), 60 - 7);
            }
            "MCP_K8S_MAX_TIMEOUT_S" => {
                let of = |seconds: u64, set: &[_]| {
                    let mut call = plain();
                    call["timeout_s"] = json!(seconds);
                    dry(call, set).code()
                };
                assert_eq!((of(600, &[]), of(601, &[])), (Value::Null, json!("timeouts.ceiling")));
                let set = [(variable, "100")];
                assert_eq!((of(100, &set), of(101, &set)), (Value::Null, json!("timeouts.ceiling")));
            }
            "MCP_K8S_MAX_OUTPUT_BYTES" => {
                let of = |bytes: usize, set: &[_]| {
                    let went = embedded(shell(&format!("head -c {bytes} /dev/zero | tr '\\0' a")), set);
                    (
                        went.at("/stdout").as_str().unwrap().len(),
                        went.at("/truncated/stdout"),
                        went.at("/omitted_bytes"),
                    )
                };
                assert_eq!(of(1_048_577, &[]), (1_048_576, json!(true), json!(1)));
                assert_eq!(of(30, &[(variable, "20")]), (20, json!(true), json!(10)));
            }
            "MCP_K8S_MAX_ARTIFACT_BYTES" => {
                let of = |bytes: usize, set: &[_]| {
                    let went = embedded(shell(&format!("head -c {bytes} /dev/zero > f")), set);
                    (went.at("/artifacts/0/size"), went.at("/truncated/artifacts"))
                };
                assert_eq!(of(10_485_760, &[]), (json!(10_485_760), json!(false)));
                assert_eq!(of(10_485_761, &[]), (Value::Null, json!(true)));
                assert_eq!(of(20, &[(variable, "20")]), (json!(20), json!(false)));
                assert_eq!(of(21, &[(variable, "20")]), (Value::Null, json!(true)));
            }
            "MCP_K8S_DEFAULT_CPU" | "MCP_K8S_DEFAULT_MEMORY" => {
                let (name, default, other) = if variable.ends_with("CPU") {
                    ("cpu", "1", "250m")
                } else {
                    ("memory", "512Mi", "64Mi")
                };
                let request = in_pod(&format!("/containers/0/resources/requests/{name}"));
                let limit = in_pod(&format!("/containers/0/resources/limits/{name}"));
                assert_eq!(dry(plain(), &[]).at(&request), default);
                let set = dry(plain(), &[(variable, other)]);
                assert_eq!((set.at(&request), set.at(&limit)), (json!(other), Value::Null));
            }
            "MCP_K8S_MAX_CONCURRENT" => {
                // That it is kept to is a matter of many calls; here, that it is read.
                assert_eq!(dry(plain(), &[(variable, "1")]).at("/allow"), true);
                assert!(dry(plain(), &[(variable, "0")]).log.contains(variable));
            }
            "MCP_K8S_ALLOWED_IMAGES" => {
                let home = tempfile::tempdir().unwrap();
                let unset = run(home.path(), &plain(), &[], &["--dry-run"]);
                assert_eq!(unset.code(), "images.not_listed");
                assert_eq!(dry(plain(), &[(variable, "")]).code(), "images.not_listed");
                let set = dry(plain(), &[(variable, "busybox:1.36,python:3.12-slim")]);
                assert_eq!(set.at(&in_pod("/containers/0/image")), "docker.io/library/busybox:1.36");
            }
            "MCP_K8S_SIDECAR_IMAGE" => {
                let helper = in_pod("/containers/1/image");
                assert_eq!(dry(plain(), &[]).at(&helper), "docker.io/library/busybox:1.36");
                assert_eq!(
                    dry(plain(), &[(variable, "alpine:3.22")]).at(&helper),
                    "docker.io/library/alpine:3.22"
                );
            }
            "MCP_K8S_CLONE_IMAGE" | "MCP_K8S_CLONE_SECRET" => {
                let mut call = plain();
                call["clone"] = json!({ "repo_url": "https://github.com/a/b", "ref": "main" });
                let hosts = ("KUBEPERMIT_CLONE_HOSTS", "github.com");
                let image = ("MCP_K8S_CLONE_IMAGE", "alpine/git:2.49.1");
                let secret = ("MCP_K8S_CLONE_SECRET", "git-tokens");
                assert_eq!(dry(call.clone(), &[hosts]).code(), "clone.unavailable");
                let alone = if variable == image.0 { image } else { secret };
                assert_eq!(dry(call.clone(), &[hosts, alone]).code(), "clone.unavailable");
                let set = dry(call, &[hosts, image, secret]);
                assert_eq!(
                    set.at(&in_pod("/initContainers/0/image")),
                    "docker.io/alpine/git:2.49.1",
                    "{}",
                    set.log
                );
                let volumes = set.at(&in_pod("/volumes"));
                let named = volumes
                    .as_array()
                    .unwrap()
                    .iter()
                    .find_map(|volume| volume.pointer("/secret/secretName"));
                assert_eq!(named, Some(&json!("git-tokens")));
            }
            "MCP_K8S_CACHE_PVC" | "MCP_K8S_CACHE_MOUNT_PATH" => {
                let claim = ("MCP_K8S_CACHE_PVC", "go-modules");
                let path = ("MCP_K8S_CACHE_MOUNT_PATH", "/go/pkg/mod");
                let mounted = |went: &Went| {
                    let mounts = went.at(&in_pod("/containers/0/volumeMounts"));
                    mounts.as_array().unwrap().iter().any(|mount| mount["mountPath"] == "/go/pkg/mod")
                };
                assert!(!mounted(&dry(plain(), &[])));
                let alone = if variable == claim.0 { claim } else { path };
                assert!(dry(plain(), &[alone]).log.contains("together"));
                let set = dry(plain(), &[claim, path]);
                assert!(mounted(&set), "{}", set.document);
                assert!(set.document.to_string().contains(r#""claimName":"go-modules""#));
            }
            "MCP_K8S_JOB_EXTRA_ENV" => {
                let mut call = plain();
                call["env"] = json!({ "A": "the caller's" });
                assert!(dry(call.clone(), &[]).document["manifest"].to_string().contains("the caller's"));
                let set = dry(call, &[(variable, r#"{"A":"operator's","B":"also"}"#)]);
                let env = set.at(&in_pod("/containers/0/env"));
                assert!(
                    env.as_array().unwrap().contains(&json!({ "name": "A", "value": "the caller's" })),
                    "{env}"
                );
                assert!(env.as_array().unwrap().contains(&json!({ "name": "B", "value": "also" })), "{env}");
                assert_eq!(set.at("/warn/0/code"), "env.overridden");
            }
            "MCP_K8S_KUBECONFIG" => {
                let home = tempfile::tempdir().unwrap();
                let images = ("MCP_K8S_ALLOWED_IMAGES", "busybox:1.36");
                let unset = run(home.path(), &plain(), &[images], &[]);
                assert!(unset.log.contains("not a pod of a cluster"), "{}", unset.log);
                let set = run(home.path(), &plain(), &[images, (variable, "/no/such/kubeconfig")], &[]);
                assert!(set.log.contains("`/no/such/kubeconfig` cannot be read"), "{}", set.log);
            }
            "MCP_K8S_AUTH_TOKEN" => {
                assert!(!embedded(plain(), &[]).log.contains(variable));
                let set = embedded(plain(), &[(variable, "s3cret-token")]);
                assert_eq!(set.at("/status"), "succeeded");
                assert!(
                    set.log.contains("MCP_K8S_AUTH_TOKEN (--auth-token) has no effect with stdio"),
                    "{}",
                    set.log
                );
                assert!(
                    !set.log.contains("s3cret-token") && !set.document.to_string().contains("s3cret-token")
                );
            }
            other => panic!("{other} has no row"),
        }
    }
}

#[test]
fn help_shows_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let set = [("MCP_K8S_AUTH_TOKEN", "s3cret-token"), ("MCP_K8S_JOB_EXTRA_ENV", r#"{"A":"s3cret-value"}"#)];
    let output = kubepermit(home.path()).arg("--help").envs(set).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("MCP_K8S_AUTH_TOKEN") && !text.contains("s3cret"), "{text}");
}

#[test]
fn the_cache_is_one_folder_for_all_jobs_and_is_checked_at_start() {
    let home = tempfile::tempdir().unwrap();
    let set = [("MCP_K8S_CACHE_PVC", "cache"), ("MCP_K8S_CACHE_MOUNT_PATH", "/cache")];
    let mut session = crate::session::Session::start(
        home.path(),
        &["--embedded", "--cache-pvc", "cache", "--cache-mount-path", "/cache"],
    );
    session.initialize("2025-06-18");
    let first = session.run_job(shell("echo kept > /cache/file && touch here"));
    assert_eq!(
        (&first["status"], &first["artifacts"][0]["name"]),
        (&json!("succeeded"), &json!("here")),
        "{first}"
    );
    let second = session.run_job(shell("cat /cache/file"));
    assert_eq!(second["stdout"], "kept\n", "{second}");
    drop(session);

    // The policy may say that it is only read, or not seen.
    let policy = home.path().join("policy");
    assert!(kubepermit(home.path()).args(["policy", "init"]).arg(&policy).output().unwrap().status.success());
    let data = std::fs::read_to_string(policy.join("data.yaml"))
        .unwrap()
        .replace("  images: []", "  images: [busybox:1.36]");
    for (access, wanted) in [("read", "failed"), ("none", "failed"), ("write", "succeeded")] {
        let data = data.replace("    access: write", &format!("    access: {access}"));
        std::fs::write(policy.join("data.yaml"), data).unwrap();
        let more = ["--embedded", "--policies", policy.to_str().unwrap()];
        let went = run(home.path(), &shell("test -d /cache && echo x > /cache/y"), &set, &more);
        assert_eq!(went.at("/status"), wanted, "{access}: {} {}", went.document, went.log);
        let seen = run(home.path(), &shell("test -d /cache"), &set, &more);
        assert_eq!(seen.at("/status"), if access == "none" { "failed" } else { "succeeded" }, "{access}");
    }
    let mut call = shell("true");
    call["workdir"] = json!("/cache/work");
    assert_eq!(run(home.path(), &call, &set, &["--embedded"]).code(), "workdir.cache");
}

/// An API server that has nothing but this answer to the question for the claim.
async fn api_server(code: u16, reason: &'static str) -> (tokio::task::JoinHandle<()>, String) {
    let answer = move || async move {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no", "reason": reason,
            "code": code,
        });
        (axum::http::StatusCode::from_u16(code).unwrap(), axum::Json(status))
    };
    let path = "/api/v1/namespaces/mcp-ephemeral/persistentvolumeclaims/cache";
    let router = axum::Router::new().route(path, axum::routing::get(answer));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            let io = hyper_util::rt::TokioIo::new(connection);
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
        }
    });
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
    );
    (served, kubeconfig)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_is_missing_keeps_the_server_from_starting() {
    let set = [
        ("MCP_K8S_CACHE_PVC", "cache"),
        ("MCP_K8S_CACHE_MOUNT_PATH", "/cache"),
        ("MCP_K8S_KUBECONFIG", "kubeconfig"),
    ];
    // Whether it starts, and what it says. A refused call is enough: it needs a running server.
    let call = json!({ "image": "evil", "command": ["true"] });
    for (code, reason, starts, says) in [
        (404, "NotFound", false, "there is no PersistentVolumeClaim `cache` in namespace `mcp-ephemeral`"),
        (
            403,
            "Forbidden",
            true,
            "whether the cache's PersistentVolumeClaim `cache` is there could not be found out",
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let (served, kubeconfig) = api_server(code, reason).await;
        std::fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
        let (path, call) = (home.path().to_owned(), call.clone());
        let went = tokio::task::spawn_blocking(move || run(&path, &call, &set, &[])).await.unwrap();
        assert!(went.log.contains(says), "{code}: {}", went.log);
        assert_eq!(went.code() == "images.not_listed", starts, "{code}: {}", went.document);
        served.abort();
    }
}
