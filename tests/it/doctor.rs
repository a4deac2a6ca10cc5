//! `kubepermit doctor`: each check that can fail, made to fail once, with what it says to do.

mod cluster;
mod local;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::session::kubepermit;

/// A run's document.
struct Report {
    code: i32,
    document: Value,
}

impl Report {
    /// The verdict, what was found and the remedy, of the only check of that name about something that holds `about`.
    fn of(&self, check: &str, about: &str) -> (String, String, String) {
        let all = self.document["checks"].as_array().unwrap().iter();
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let found: Vec<&Value> = all
            .filter(|finding| finding["check"] == json!(check) && text(finding, "about").contains(about))
            .collect();
        assert_eq!(found.len(), 1, "{check} {about}: {}", self.document);
        (text(found[0], "verdict"), text(found[0], "found"), text(found[0], "remedy"))
    }

    /// Asserts one check's verdict, and a part of what was found and of the remedy.
    fn says(&self, check: &str, about: &str, verdict: &str, found: &str, remedy: &str) {
        let (said, seen, todo) = self.of(check, about);
        assert_eq!(said, verdict, "{check}: {seen} -> {todo}");
        assert!(seen.contains(found), "{check}: {seen}");
        assert!(todo.contains(remedy) && todo.is_empty() == remedy.is_empty(), "{check}: {todo}");
    }

    /// The checks with a verdict, in their order.
    fn with(&self, verdict: &str) -> Vec<&str> {
        let all = self.document["checks"].as_array().unwrap().iter();
        all.filter(|finding| finding["verdict"] == json!(verdict))
            .map(|finding| finding["check"].as_str().unwrap())
            .collect()
    }

    /// Nothing failed, and the exit code says so.
    fn passed(&self) {
        assert_eq!((self.code, self.with("failed")), (0, Vec::new()), "{}", self.document);
        assert_eq!(self.document["passed"], json!(true));
    }

    /// Exactly these failed, and the exit code says so.
    fn failed(&self, checks: &[&str]) {
        assert_eq!((self.code, self.with("failed").as_slice()), (1, checks), "{}", self.document);
        assert_eq!(self.document["failed"], json!(checks.len()));
    }
}

/// A home with a program in kubectl's place that tells versions.
struct Stage {
    home: TempDir,
}

impl Stage {
    /// `client` and `server` are minor versions of 1; without a server, kubectl fails as the real one does.
    fn new(client: u32, server: Option<u32>) -> Self {
        let version = |minor: u32| json!({ "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.1") });
        let mut printed = json!({ "clientVersion": version(client), "kustomizeVersion": "v5" });
        let mut end = String::new();
        match server {
            Some(minor) => printed["serverVersion"] = version(minor),
            None => end.push_str("echo 'The connection to the server 10.1.2.3:6443 was refused - did you specify the right host or port?' >&2; exit 1"),
        }
        Self::with(&format!("echo \"$*\" >>\"$LOG\"; /usr/bin/env >>\"$LOG\"; echo '{printed}'; {end}"))
    }

    fn with(script: &str) -> Self {
        let stage = Self { home: tempfile::tempdir().unwrap() };
        let log = stage.home.path().join("log");
        crate::reads::script(&stage.kubectl(), &format!("LOG='{}'\n{script}", log.display()));
        stage
    }

    fn kubectl(&self) -> PathBuf {
        self.home.path().join("kubectl")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = kubepermit(self.home.path());
        command.env("PATH", "/nonexistent").arg("doctor").args(arguments);
        command.args(["--log", "error", "--kubectl", self.kubectl().to_str().unwrap()]);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Report {
        let mut command = self.command(arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let text = document.to_string();
        for secret in ["TOKEN-OF-THE-OPERATOR", "somebody said so"] {
            assert!(!text.contains(secret), "{text}");
        }
        Report { code: output.status.code().unwrap(), document }
    }

    /// The bundle that is compiled in, with one test for the eighty that it has: they take seconds in a debug build.
    fn quick_policies(&self) -> PathBuf {
        let bundle = self.home.path().join("quick");
        if !bundle.exists() {
            let made = kubepermit(self.home.path()).args(["policy", "init"]).arg(&bundle).output().unwrap();
            assert!(made.status.success(), "{made:?}");
            std::fs::remove_dir_all(bundle.join("tests")).unwrap();
            std::fs::create_dir(bundle.join("tests")).unwrap();
            let test =
                "package quick_test\n\ntest_nothing_is_allowed if not data.kubepermit.decision.allow\n";
            std::fs::write(bundle.join("tests/quick_test.rego"), test).unwrap();
        }
        bundle
    }

    /// The options of a gateway for this server, with one image and one namespace listed.
    async fn on(&self, server: &server::Server, more: &[&str]) -> Report {
        let kubeconfig = server.kubeconfig();
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
        arguments.extend(["--allowed-images", "busybox:1.36", "--allow-namespaces", server::NAMESPACE]);
        let policies = self.quick_policies();
        arguments.extend(["--policies", policies.to_str().unwrap()]);
        arguments.extend(more);
        let report = self.run(&arguments).await;
        server.was_only_asked();
        report
    }
}

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
