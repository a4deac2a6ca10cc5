//! A namespace on a cluster, and the server that runs jobs there.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use kubepermit::embedded::{Embedded, EmbeddedExtras};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::session::{Session, audit_records, kubepermit};
use crate::stand_in;

/// How long a thing may take that a test waits for; no claim about speed.
const PATIENCE: Duration = Duration::from_secs(90);

/// What `deploy/` ships.
const DEPLOYED: &str = include_str!("../../../deploy/kubernetes.yaml");

/// Images that the policy allows; `absent:1` exists nowhere.
const IMAGES: &str = "busybox:1.36,absent:1";

/// A namespace of its own on the cluster under test.
pub(crate) struct Site {
    runtime: tokio::runtime::Runtime,
    home: TempDir,
    namespace: String,
    cluster: Cluster,
}

enum Cluster {
    Embedded(Embedded),
    Real(PathBuf),
}

impl Site {
    /// A namespace with everything that `deploy/kubernetes.yaml` puts around jobs.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |deployed| deployed)
    }

    /// The same with changed manifests. The embedded cluster has no use for them.
    pub(crate) fn with(name: &str, change: impl FnOnce(String) -> String) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let namespace = format!("kubepermit-{name}");
        let cluster = match variable("KUBEPERMIT_TEST_KUBECONFIG") {
            Some(path) => Cluster::Real(PathBuf::from(path)),
            None => {
                Cluster::Embedded(runtime.block_on(stand_in::embedded(&namespace, EmbeddedExtras::default())))
            }
        };
        let site = Self { runtime, home: tempfile::tempdir().unwrap(), namespace, cluster };
        if site.is_real() {
            site.deploy(change(DEPLOYED.replace("mcp-ephemeral", &site.namespace)));
        }
        site
    }

    /// Whether this is a Kubernetes, and not the embedded stand-in.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.cluster, Cluster::Real(_))
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn admin_kubeconfig(&self) -> &Path {
        match &self.cluster {
            Cluster::Embedded(embedded) => embedded.kubeconfig(),
            Cluster::Real(path) => path,
        }
    }

    fn account_kubeconfig(&self) -> PathBuf {
        match &self.cluster {
            Cluster::Embedded(embedded) => embedded.kubeconfig().to_owned(),
            Cluster::Real(_) => self.home.path().join("account.kubeconfig"),
        }
    }

    /// The server's command line, up to what a test adds. A job that names no limits requests this much cpu.
    pub(crate) fn server(&self, cpu: &str) -> Command {
        let mut command = kubepermit(self.home.path());
        let kubeconfig = self.account_kubeconfig();
        command.args(["serve", "--namespace", &self.namespace, "--allow-namespaces", &self.namespace]);
        command.args(["--allowed-images", IMAGES, "--sidecar-image", "busybox:1.36"]);
        command.args(["--default-cpu", cpu, "--default-memory", "32Mi"]);
        command.arg("--kubeconfig").arg(&kubeconfig);
        match &self.cluster {
            // kubectl authenticates by a certificate there.
            Cluster::Embedded(embedded) => {
                command.arg("--read-kubeconfig").arg(embedded.kubectl_kubeconfig())
            }
            Cluster::Real(_) => &mut command,
        };
        command.arg("--kubectl").arg(kubectl());
        command
    }

    /// A session with a server that has the rights that `deploy/` gives.
    pub(crate) fn session(&self) -> Session {
        self.session_of(self.server("50m"))
    }

    pub(crate) fn session_of(&self, command: Command) -> Session {
        let mut session = Session::spawn(command);
        session.initialize("2025-11-25");
        session
    }

    /// The policy as it ships, with an edit of its data.
    pub(crate) fn policies(&self, change: impl FnOnce(String) -> String) -> PathBuf {
        let folder = self.home.path().join("policies");
        let init = kubepermit(self.home.path()).args(["policy", "init"]).arg(&folder).output().unwrap();
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        let data = folder.join("data.yaml");
        std::fs::write(&data, change(std::fs::read_to_string(&data).unwrap())).unwrap();
        folder
    }

    /// What the server recorded.
    pub(crate) fn records(&self) -> Vec<Value> {
        audit_records(&self.home.path().join(".local/state/kubepermit/audit"))
    }

    /// The administrator's client.
    pub(crate) fn admin(&self) -> Client {
        self.wait(stand_in::client(self.admin_kubeconfig()))
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.admin(), &self.namespace)
    }

    pub(crate) fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.admin(), &self.namespace)
    }

    /// Runs a future to its end.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Asks again until there is an answer.
    pub(crate) fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first pod there is, once it is as `want` says.
    pub(crate) fn pod(&self, what: &str, want: impl Fn(&Pod) -> bool) -> Pod {
        let pods = self.pods();
        self.until(what, || {
            let list = self.wait(pods.list(&ListParams::default())).unwrap();
            list.items.into_iter().find(&want)
        })
    }

    /// No Job is there, and soon no pod.
    pub(crate) fn assert_clean(&self) {
        let jobs = self.wait(self.jobs().list(&ListParams::default())).unwrap();
        let left: Vec<String> = jobs
            .iter()
            .filter(|job| job.metadata.deletion_timestamp.is_none())
            .map(|job| job.name_any())
            .collect();
        assert!(left.is_empty(), "Jobs were left behind: {left:?}");
        let pods = self.pods();
        self.until("the pods to be gone", || {
            self.wait(pods.list(&ListParams::default())).unwrap().items.is_empty().then_some(())
        });
    }

    /// `kubectl` as the administrator, with `input` on its standard input; it must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let output = self.try_kubectl(arguments, input);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn try_kubectl(&self, arguments: &[&str], input: &str) -> Output {
        use std::io::Write as _;
        let mut command = Command::new(kubectl());
        command.env("HOME", self.home.path()).arg("--kubeconfig").arg(self.admin_kubeconfig());
        command.args(["--namespace", &self.namespace]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn deploy(&self, manifests: String) {
        self.kubectl(&["delete", "namespace", &self.namespace, "--ignore-not-found", "--wait"], "");
        self.kubectl(&["apply", "-f", "-"], &manifests);
        // Each is the work of a controller, or known to the API server's caches only after a moment.
        let account = format!("system:serviceaccount:{}:kubepermit", self.namespace);
        let holds = |question: &[&str]| self.try_kubectl(question, "").status.success();
        let can = |verb, resource| holds(&["auth", "can-i", verb, resource, "--as", &account]);
        // A test may take one of them away.
        self.until("the rights", || (can("get", "pods") || can("create", "jobs")).then_some(()));
        self.until("the default service account", || {
            holds(&["get", "serviceaccount", "default"]).then_some(())
        });
        if manifests.contains("kind: ResourceQuota") {
            self.until("the quota's count", || {
                let used =
                    self.kubectl(&["get", "resourcequota", "-o", "jsonpath={.items[*].status.used}"], "");
                used.contains("pods").then_some(())
            });
        }
        let token = self.kubectl(&["create", "token", "kubepermit", "--duration", "1h"], "");
        let view = self.kubectl(&["config", "view", "--raw", "--minify", "--flatten", "-o", "json"], "");
        let mut kubeconfig: Value = serde_json::from_str(&view).unwrap();
        kubeconfig["users"][0]["user"] = json!({ "token": token.trim() });
        let file = self.account_kubeconfig();
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.is_real() {
            self.try_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"], "");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "which cluster is tested is the tester's choice, not the product's"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The kubectl of the PATH.
pub(super) fn kubectl() -> PathBuf {
    let path = variable("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("kubectl"))
        .find(|file| file.exists())
        .unwrap_or_else(|| PathBuf::from("/usr/bin/kubectl"))
}

/// A call of run_job with a shell script.
pub(super) fn shell(script: &str) -> Value {
    json!({ "image": "busybox:1.36", "command": ["sh", "-c", script], "timeout_s": 60 })
}

/// The names and contents of a result's artifacts, in order.
pub(super) fn artifacts(result: &Value) -> Vec<(String, Vec<u8>)> {
    use base64::Engine as _;
    let artifacts = result["artifacts"].as_array().unwrap().iter();
    let content = |artifact: &Value| {
        base64::engine::general_purpose::STANDARD.decode(artifact["content_b64"].as_str().unwrap()).unwrap()
    };
    artifacts.map(|artifact| (artifact["name"].as_str().unwrap().to_owned(), content(artifact))).collect()
}

/// Status, reason and exit code.
pub(super) fn end(result: &Value) -> (&str, &str, i64) {
    (
        result["status"].as_str().unwrap(),
        result["reason"].as_str().unwrap_or_default(),
        result["exit_code"].as_i64().unwrap(),
    )
}
