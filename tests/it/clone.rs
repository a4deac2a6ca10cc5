//! Clones on the embedded cluster: a real git, a real https server on the loopback address, a real token.

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use std::time::Duration;

use kubepermit::embedded::EmbeddedExtras;
use kubepermit::executor::{JobLimits, Reason};
use kubepermit::plan::JobExtras;
use serde_json::{Value, json};

use crate::jobs::{NAMESPACE, executor, run_with};
use crate::stand_in;

use crate::session::{audit_records, kubepermit};
use server::{Manner, Server, git, repository, serve};

/// Long enough not to appear by chance.
const CANARY: &str = "canary-7f3c1d9e0b5a4826";
/// `printf 'oauth2:%s' canary-7f3c1d9e0b5a4826 | base64`
const CANARY_BASIC: &str = "b2F1dGgyOmNhbmFyeS03ZjNjMWQ5ZTBiNWE0ODI2";

/// A folder with a repository, and the Secrets of the cluster.
struct Place {
    home: tempfile::TempDir,
    ids: Vec<String>,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("repos")).unwrap();
        let (_, ids) = repository(&home.path().join("repos"));
        fs::create_dir_all(home.path().join("secrets/git-tokens")).unwrap();
        Self { home, ids }
    }

    fn repos(&self) -> PathBuf {
        self.home.path().join("repos")
    }

    fn secret(&self, key: &str, value: &str) {
        fs::write(self.home.path().join("secrets/git-tokens").join(key), value).unwrap();
    }

    /// The server's authority becomes the host's, and a token its own.
    async fn serve(&self, manner: Manner, token: Option<&str>) -> Server {
        let server = serve(&self.repos(), manner).await;
        self.secret("localhost.ca.crt", &server.authority);
        if let Some(token) = token {
            self.secret("localhost", &format!("{token}\n"));
        }
        server
    }

    /// The result of `kubepermit call run_job`, and everything that it wrote to standard error.
    async fn call(&self, call: Value, more: &[&str]) -> (Value, String) {
        let mut command = kubepermit(self.home.path());
        command
            .args(["call", "run_job", &call.to_string(), "--embedded", "--log", "trace"])
            .args(["--clone-image", "alpine/git:latest", "--clone-secret", "git-tokens"])
            .arg("--embedded-secrets")
            .arg(self.home.path().join("secrets"))
            .args(more)
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (document, String::from_utf8(output.stderr).unwrap())
    }

    /// A job that clones from `server` and runs `script` in the work directory.
    async fn clone(&self, server: &Server, reference: &str, script: &str) -> (Value, String) {
        let hosts = format!("localhost:{}", server.port);
        self.call(job(&server.url("team/tool.git"), reference, script), &["--clone-hosts", &hosts]).await
    }
}

fn job(url: &str, reference: &str, script: &str) -> Value {
    json!({
        "image": "busybox", "command": ["sh", "-c", script], "timeout_s": 60,
        "clone": { "repo_url": url, "ref": reference },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_a_tag_and_a_commit_are_cloned_shallow() {
    let place = Place::new();
    let server = place.serve(Manner::Token(CANARY.to_owned()), Some(CANARY)).await;
    let script = "cd repo && cat file.txt && git rev-parse HEAD && git rev-list --count HEAD && git status --short && \
                  git symbolic-ref -q --short HEAD || echo detached";
    let rows = [
        ("main", 2, "three", "main"),
        ("feature/x", 1, "two", "feature/x"),
        ("v1", 0, "one", "detached"),
        (place.ids[1].as_str(), 1, "two", "detached"),
        ("refs/heads/feature/x", 1, "two", "feature/x"),
    ];
    for (reference, commit, text, head) in rows {
        let (result, log) = place.clone(&server, reference, script).await;
        assert_eq!(result["status"], "succeeded", "{reference}: {result} {log}");
        let wanted = format!("{text}\n{}\n1\n{head}\n", place.ids[commit]);
        assert_eq!(result["stdout"], json!(wanted), "{reference}");
    }
    let with_token = server.seen.lock().unwrap().iter().filter(|(_, sent)| sent.is_some()).count();
    assert!(with_token > 0, "the token was never used, so the test shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_nowhere() {
    let place = Place::new();
    let server = place.serve(Manner::Token(CANARY.to_owned()), Some(CANARY)).await;
    // What the command could find it in: its files, its mounts, its environment, the processes' arguments. The words are
    // halved, so that what prints the script itself is not taken for a find.
    let halves = |text: &'static str| text.split_at_checked(12).unwrap();
    let ((a, b), (c, d)) = (halves(CANARY), halves(CANARY_BASIC));
    let script = format!(
        "env; cat /proc/mounts; cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls -laR /kubepermit* 2>&1; \
         cat repo/.git/config; cd repo && git remote -v && cd .. && \
         if grep -r -a -q -s -e '{a}''{b}' -e '{c}''{d}' /work /tmp /kubepermit /etc /dev/shm /run /var /root /home; then \
         echo 'fou''nd'; fi; echo 'sear''ched'",
    );
    let (result, log) = place.clone(&server, "main", &script).await;
    assert_eq!(result["status"], "succeeded", "{result} {log}");
    let output = result["stdout"].as_str().unwrap();
    assert!(output.contains("searched") && !output.contains("found"), "{output}");
    assert!(!output.contains("/clone-token"), "the token's volume is mounted: {output}");
    let records = audit_records(&place.home.path().join(".local/state/kubepermit/audit"));
    assert!(records.len() >= 3, "{records:?}");
    for text in [result.to_string(), log, json!(records).to_string()] {
        for canary in [CANARY, CANARY_BASIC] {
            assert!(!text.contains(canary), "{text}");
        }
    }
    assert!(server.seen.lock().unwrap().iter().any(|(_, sent)| sent.is_some()));
    assert!(server.seen.lock().unwrap().iter().all(|(path, _)| !path.contains(CANARY)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_clone_says_why_in_the_servers_words_but_never_the_token() {
    let place = Place::new();
    let server = place.serve(Manner::Echo, Some(CANARY)).await;
    let (result, log) = place.clone(&server, "main", "echo never").await;
    assert_eq!((&result["status"], &result["reason"]), (&json!("error"), &json!("clone_failed")), "{result}");
    assert_eq!(result["exit_code"], -1);
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("you sent Basic [redacted] and [redacted]"), "{message}");
    for canary in [CANARY, CANARY_BASIC] {
        assert!(!result.to_string().contains(canary) && !log.contains(canary), "{result}\n{log}");
    }
    assert!(!result["stdout"].as_str().unwrap().contains("never"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cloned_says_so() {
    let place = Place::new();
    let server = place.serve(Manner::Token(CANARY.to_owned()), Some("another-token")).await;
    let failed = |result: &Value, words: &[&str]| {
        assert_eq!(result["reason"], "clone_failed", "{result}");
        let message = result["message"].as_str().unwrap();
        assert!(words.iter().any(|word| message.contains(word)), "{message}");
    };
    let (result, _) = place.clone(&server, "main", "true").await;
    failed(&result, &["Authentication failed", "terminal prompts disabled"]);
    fs::remove_file(place.home.path().join("secrets/git-tokens/localhost")).unwrap();
    let (result, _) = place.clone(&server, "main", "true").await;
    failed(&result, &["no token for https://localhost"]);
    place.secret("localhost", CANARY);
    let (result, _) = place.clone(&server, "absent", "true").await;
    failed(&result, &["there is no branch and no tag absent"]);
    let (result, _) = place.clone(&server, &"0".repeat(40), "true").await;
    failed(&result, &["not our ref", "unadvertised", "remote error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_key_is_cloned_without_a_token() {
    let place = Place::new();
    let server = place.serve(Manner::Open, None).await;
    let (result, log) = place.clone(&server, "main", "cat repo/file.txt").await;
    assert_eq!(
        (&result["status"], &result["stdout"]),
        (&json!("succeeded"), &json!("three\n")),
        "{result} {log}"
    );
    assert!(server.seen.lock().unwrap().iter().all(|(_, sent)| sent.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    let place = Place::new();
    let target = serve(&place.repos(), Manner::Open).await;
    let server =
        place.serve(Manner::Redirect(format!("https://localhost:{}", target.port)), Some(CANARY)).await;
    // Both are trusted, so that nothing else keeps git from going there.
    place.secret("localhost.ca.crt", &format!("{}{}", server.authority, target.authority));
    let (result, _) = place.clone(&server, "main", "true").await;
    assert_eq!(result["reason"], "clone_failed", "{result}");
    assert!(server.requests() > 0);
    assert_eq!(target.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_the_hosts_name_is_not_trusted() {
    let place = Place::new();
    let server = place.serve(Manner::Token(CANARY.to_owned()), Some(CANARY)).await;
    let other = serve(&place.repos(), Manner::Open).await;
    place.secret("localhost.ca.crt", &other.authority);
    let (result, _) = place.clone(&server, "main", "true").await;
    assert_eq!(result["reason"], "clone_failed", "{result}");
    assert!(result["message"].as_str().unwrap().contains("certificate"), "{result}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_in_the_repository_runs_while_it_is_cloned() {
    let place = Place::new();
    let work = place.repos().join("work");
    for (name, text) in [
        (".gitattributes", "* filter=evil\n*.bin filter=lfs\n"),
        ("x.bin", "version https://git-lfs.github.com/spec/v1\n"),
        (".gitmodules", "[submodule \"a\"]\n\tpath = a\n\turl = https://evil.example/x\n"),
    ] {
        fs::write(work.join(name), text).unwrap();
    }
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "evil"]);
    git(&work, &["push", "-q", place.repos().join("team/tool.git").to_str().unwrap(), "main"]);
    let server = place.serve(Manner::Open, None).await;
    let script = "cd repo && cat x.bin && ls .git/hooks 2>/dev/null; ls a 2>/dev/null; git config --get-regexp '^(core.hooks|submodule|filter)' || echo clean";
    let (result, log) = place.clone(&server, "main", script).await;
    assert_eq!(result["status"], "succeeded", "{result} {log}");
    assert_eq!(result["stdout"], "version https://git-lfs.github.com/spec/v1\nclean\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_placed_over_the_clone() {
    let place = Place::new();
    let server = place.serve(Manner::Open, None).await;
    let mut call = job(
        &server.url("team/tool"),
        "main",
        "cat src/app/file.txt src/app/new.txt && cd src/app && git status --short",
    );
    call["clone"]["subdir"] = json!("src/app");
    call["files"] = json!([
        { "path": "src/app/file.txt", "content_b64": "bWluZQo=" },
        { "path": "src/app/new.txt", "content_b64": "bmV3Cg==" },
    ]);
    let hosts = format!("localhost:{}/team", server.port);
    let (result, log) = place.call(call, &["--clone-hosts", &hosts]).await;
    assert_eq!(result["status"], "succeeded", "{result} {log}");
    assert_eq!(result["stdout"], "mine\nnew\n M file.txt\n?? new.txt\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_are_cloned_where_the_policy_lets_them_and_on_the_same_host_alone() {
    let place = Place::new();
    let policy = place.home.path().join("policy");
    assert!(
        kubepermit(place.home.path())
            .args(["policy", "init"])
            .arg(&policy)
            .output()
            .unwrap()
            .status
            .success()
    );
    let data = fs::read_to_string(policy.join("data.yaml")).unwrap();
    let data = data
        .replace("    submodules: false", "    submodules: true")
        .replace("  images: []", "  images: [busybox:1.36]");
    fs::write(policy.join("data.yaml"), data).unwrap();
    let tool = place.repos().join("team/tool.git");
    let work = place.repos().join("work");
    // The one that is not listed is there, too: only the list keeps it out.
    for name in ["team/part.git", "other/part.git"] {
        let bare = place.repos().join(name);
        fs::create_dir_all(&bare).unwrap();
        git(&bare, &["init", "-q", "--bare"]);
        git(&work, &["push", "-q", bare.to_str().unwrap(), "main"]);
    }
    let server = place.serve(Manner::Open, None).await;
    let id = &place.ids[2];
    let hosts = format!("localhost:{}/team", server.port);
    for (url, works) in [
        ("../part.git".to_owned(), true),
        (server.url("team/part.git"), true),
        (server.url("other/part.git"), false),
        (server.url("team/../other/part.git"), false),
        ("https://evil.example/team/part.git".to_owned(), false),
        ("../../../../evil.example/team/part.git".to_owned(), false),
        (format!("https://evil.example/x {}", server.url("team/part.git")), false),
        ("ext::sh -c id".to_owned(), false),
        ("-u./x".to_owned(), false),
    ] {
        let modules = format!("[submodule \"part\"]\n\tpath = part\n\turl = \"{url}\"\n");
        fs::write(work.join(".gitmodules"), modules).unwrap();
        git(&work, &["add", ".gitmodules"]);
        git(&work, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},part")]);
        git(&work, &["commit", "-q", "-m", "module"]);
        git(&work, &["push", "-q", tool.to_str().unwrap(), "main"]);
        let call = job(&server.url("team/tool.git"), "main", "cat repo/part/file.txt");
        let more = ["--clone-hosts", &hosts, "--policies", policy.to_str().unwrap()];
        let (result, log) = place.call(call, &more).await;
        if works {
            assert_eq!(result["stdout"], "three\n", "{url}: {result} {log}");
        } else {
            assert_eq!(result["reason"], "clone_failed", "{url}: {result}");
            assert!(!server.seen.lock().unwrap().iter().any(|(path, _)| path.contains("other")), "{url}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cloner_alone_has_a_network() {
    let place = Place::new();
    let server = place.serve(Manner::Open, None).await;
    // The image of the cloner, but in the command's place.
    let script = format!("git ls-remote {} 2>&1; echo ended $?", server.url("team/tool.git"));
    let mut call = job(&server.url("team/tool.git"), "main", &script);
    call["image"] = json!("alpine/git:latest");
    let hosts = format!("localhost:{}", server.port);
    let (result, log) = place.call(call, &["--clone-hosts", &hosts]).await;
    assert_eq!(result["status"], "succeeded", "{result} {log}");
    let output = result["stdout"].as_str().unwrap();
    assert!(output.contains("ended 128") && !output.contains("refs/heads"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_listed_or_not_configured_is_refused_and_nothing_is_asked() {
    let place = Place::new();
    let server = place.serve(Manner::Open, None).await;
    let call = || job(&server.url("team/tool.git"), "main", "true");
    let code = |refusal: &Value| refusal["error"]["reasons"][0]["code"].clone();
    let (refusal, _) = place.call(call(), &[]).await;
    assert_eq!(code(&refusal), "clone.host", "{refusal}");
    let (refusal, _) = place.call(call(), &["--clone-hosts", "localhost"]).await;
    assert_eq!(code(&refusal), "clone.host", "another port: {refusal}");
    let (refusal, _) = place.call(call(), &["--clone-hosts", &format!("localhost:{}/te", server.port)]).await;
    assert_eq!(code(&refusal), "clone.path", "{refusal}");
    let mut with_password = call();
    with_password["clone"]["repo_url"] = json!(format!("https://user:{CANARY}@localhost/team/tool.git"));
    let (refusal, log) = place.call(with_password, &[]).await;
    assert_eq!(code(&refusal), "clone.url", "{refusal}");
    assert!(!log.contains(CANARY));
    let records = audit_records(&place.home.path().join(".local/state/kubepermit/audit"));
    assert!(!json!(records).to_string().contains(CANARY), "{records:?}");
    let output = run_without_cloner(place.home.path(), &call());
    assert_eq!(code(&output), "clone.unavailable", "{output}");
    assert_eq!(server.requests(), 0);
}

/// The gateway cannot read the Secret, and the kubelet writes no status from its content; here it is looked for all the
/// same, in whatever the API server has while a clone fails and while one works.
#[tokio::test(flavor = "multi_thread")]
async fn no_object_of_the_cluster_holds_the_token() {
    let place = Place::new();
    for (manner, reason) in
        [(Manner::Token(CANARY.to_owned()), None), (Manner::Echo, Some(Reason::CloneFailed))]
    {
        let server = place.serve(manner, Some(CANARY)).await;
        let extras = EmbeddedExtras {
            secrets: [("git-tokens".to_owned(), place.home.path().join("secrets/git-tokens"))].into(),
            network_image: Some("docker.io/alpine/git:latest".to_owned()),
            ..EmbeddedExtras::default()
        };
        let cluster = stand_in::embedded(NAMESPACE, extras).await;
        let client = stand_in::client(cluster.kubeconfig()).await;
        let executor = executor(cluster.kubeconfig(), JobLimits::new(1 << 20, 1 << 20));
        let extras = JobExtras {
            clone_image: Some("alpine/git:latest".to_owned()),
            clone_secret: Some("git-tokens".to_owned()),
            ..JobExtras::default()
        };
        let call = job(&server.url("team/tool.git"), "main", "sleep 1; cat repo/file.txt");
        let hosts = Some(vec![format!("localhost:{}", server.port)]);
        let run = run_with(&executor, call, extras, hosts);
        tokio::pin!(run);
        let mut looked = 0;
        let outcome = loop {
            tokio::select! {
                went = &mut run => break went.outcome,
                () = tokio::time::sleep(Duration::from_millis(30)) => {
                    for path in ["/api/v1/pods", "/apis/batch/v1/jobs", "/api/v1/events", "/api/v1/secrets"] {
                        let request = hyper::Request::get(path).body(Vec::new()).unwrap();
                        let text = client.request_text(request).await.unwrap();
                        for canary in [CANARY, CANARY_BASIC] {
                            assert!(!text.contains(canary), "{path}: {text}");
                        }
                        looked += usize::from(text.contains("kubepermit-"));
                    }
                }
            }
        };
        assert_eq!(outcome.reason, reason, "{outcome:?}");
        assert!(looked > 3, "there was nothing to look at");
        assert!(!format!("{outcome:?}").contains(CANARY));
        cluster.stop().await;
    }
}

fn run_without_cloner(home: &Path, call: &Value) -> Value {
    let output = kubepermit(home)
        .args(["call", "run_job", &call.to_string(), "--embedded", "--clone-image", "alpine/git:latest"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}
