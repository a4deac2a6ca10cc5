//! Configuration: what was typed, and what it means. The only reader of the environment.
//!
//! Each setting has a variable, a flag and a place in an optional YAML file; flags win over the environment,
//! which wins over the file, which wins over the default. Every fault is found before the first is reported.
//! The `MCP_K8S_*` variables and their defaults are those of `inhuman/mcp-k8s-ephemeral-job`, so that this
//! server can take its place. No file is ever found through the working directory: an agent's repository
//! must not be able to supply one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

mod file;
mod jobs;
mod reader;
mod reads;
mod secret;
mod setting;

pub use jobs::{CacheConfig, CloneConfig};
pub use reads::{ReadCluster, ReadConfig};
pub use secret::Secret;
pub use setting::Setting;

use reader::Reader;

/// A setting's default, beside its reason in the table of README.md.
pub mod defaults {
    /// `MCP_K8S_NAMESPACE`
    pub const NAMESPACE: &str = "mcp-ephemeral";
    /// `MCP_K8S_DEFAULT_TIMEOUT_S`
    pub const DEFAULT_TIMEOUT_S: u64 = 60;
    /// `MCP_K8S_MAX_TIMEOUT_S`
    pub const MAX_TIMEOUT_S: u64 = 600;
    /// `MCP_K8S_MAX_OUTPUT_BYTES`
    pub const MAX_OUTPUT_BYTES: u64 = 1_048_576;
    /// `MCP_K8S_MAX_ARTIFACT_BYTES`
    pub const MAX_ARTIFACT_BYTES: u64 = 10_485_760;
    /// `MCP_K8S_DEFAULT_CPU`
    pub const DEFAULT_CPU: &str = "1";
    /// `MCP_K8S_DEFAULT_MEMORY`
    pub const DEFAULT_MEMORY: &str = "512Mi";
    /// `MCP_K8S_SIDECAR_IMAGE`
    pub const SIDECAR_IMAGE: &str = "busybox:1.36";
    /// `MCP_K8S_MAX_CONCURRENT`
    pub const MAX_CONCURRENT: u64 = 10;
    /// `MCP_K8S_ADDR`
    pub const ADDR: &str = ":8080";
    /// `KUBEPERMIT_MAX_OUTPUT`, in characters.
    pub const MAX_OUTPUT: u64 = 262_144;
    /// `KUBEPERMIT_READ_TIMEOUT_S`
    pub const READ_TIMEOUT_S: u64 = 30;
    /// `KUBEPERMIT_MAX_READS`
    pub const MAX_READS: u64 = 4;
}

/// What was typed: flags and variables (clap fills both in), unparsed. Some of it is secret.
#[derive(Clone, Default)]
pub struct Typed {
    /// Values by setting, `None` where nothing was typed.
    pub values: BTreeMap<Setting, String>,
    /// The optional YAML file.
    pub file: Option<PathBuf>,
    /// `--embedded`
    pub embedded: bool,
    /// `--embedded-unconfined`
    pub embedded_unconfined: bool,
    /// `--embedded-secrets`
    pub embedded_secrets: Option<PathBuf>,
    /// `--audit-commands`
    pub audit_commands: bool,
}

impl fmt::Debug for Typed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed").field("set", &self.values.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// What was typed, understood.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which cluster.
    pub cluster: ClusterChoice,
    /// Where the embedded cluster's Secrets are.
    pub embedded_secrets: Option<PathBuf>,
    /// A kubeconfig for jobs was named, also where another cluster is used.
    pub kubeconfig_is_set: bool,
    /// Hosts that are reached without the proxy that `HTTPS_PROXY` names.
    pub no_proxy: String,
    /// This runs in a pod: the cluster says where its API server is.
    pub in_a_pod: bool,
    /// Namespace of the Jobs, and whether somebody set it (then it replaces the policy's list).
    pub namespace: String,
    /// The operator set the namespace.
    pub namespace_is_set: bool,
    /// Wall clock of a command that names none.
    pub default_timeout_s: u64,
    /// Ceiling on a caller's time-out; the lower of this and the policy's holds.
    pub max_timeout_s: u64,
    /// Cap on the output of a job, in bytes.
    pub max_output_bytes: u64,
    /// Cap on the artifacts of a job, in bytes.
    pub max_artifact_bytes: u64,
    /// cpu request, in millicores.
    pub default_cpu_millis: u64,
    /// Memory request, in bytes.
    pub default_memory_bytes: u64,
    /// Replaces the policy's list of images when set.
    pub allowed_images: Option<Vec<String>>,
    /// Image of the helper containers.
    pub sidecar_image: String,
    /// How many jobs may be there at once.
    pub max_concurrent: usize,
    /// What cloning needs.
    pub clone: CloneConfig,
    /// The cache that jobs share.
    pub cache: Option<CacheConfig>,
    /// Environment variables of every job; a call's own win.
    pub job_extra_env: BTreeMap<String, String>,
    /// Where HTTP listens: `host:port`, and every address where the host is empty.
    pub addr: String,
    /// What HTTP requests must carry.
    pub auth_token: Option<Secret>,
    /// Settings that were made and change nothing, or less than whoever made them may think: a sentence each.
    pub notices: Vec<String>,
    /// The policy bundle; `None` is the one that is compiled in.
    pub policies: Option<PathBuf>,
    /// Where the audit records go.
    pub audit: AuditChoice,
    /// Record commands in full.
    pub audit_commands: bool,
    /// Label value on this server's Jobs.
    pub instance: String,
    /// Directory in which servers share the results of background jobs; `None` keeps them in memory.
    pub results: Option<PathBuf>,
    /// What the reads need.
    pub reads: ReadConfig,
}

/// Which cluster the jobs run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterChoice {
    /// The stand-in inside this process.
    Embedded {
        /// Run commands even where nothing can confine them.
        unconfined: bool,
    },
    /// By kubeconfig.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// One of its contexts; `None` is its current one.
        context: Option<String>,
    },
    /// The service account of the pod that this runs in.
    InCluster,
}

/// Where the audit records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditChoice {
    /// Standard error.
    Stderr,
    /// A file, or a directory that gets one file a process; the audit log tells them apart.
    Path(PathBuf),
    /// A directory of the user's that is made when missing.
    StateDirectory(PathBuf),
}

/// Everything that is wrong with the configuration.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        for error in &self.0 {
            write!(f, "\n- {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl Config {
    /// Understands what was typed.
    ///
    /// # Errors
    /// All faults at once, each naming its variable, flag or place in the file.
    pub fn read(typed: &Typed, environment: &Environment) -> Result<Self, ConfigErrors> {
        let mut reader = Reader::new(typed);
        let namespace = reader.text(Setting::Namespace);
        let max_timeout_s = reader.whole(Setting::MaxTimeoutS, defaults::MAX_TIMEOUT_S, 1);
        // Nobody asked for the default, so a lower ceiling is no mistake.
        let unset = defaults::DEFAULT_TIMEOUT_S.min(max_timeout_s);
        let default_timeout_s = reader.whole(Setting::DefaultTimeoutS, unset, 1);
        if default_timeout_s > max_timeout_s {
            reader.fault(
                Setting::DefaultTimeoutS,
                &format!("{default_timeout_s} is above the ceiling of {max_timeout_s}"),
            );
        }
        let kubeconfig = reader.text(Setting::Kubeconfig).map(PathBuf::from);
        let context = reader.text(Setting::Context);
        let audit = reader.text(Setting::Audit);
        let clone = CloneConfig::read(&mut reader);
        let mut notices = Vec::new();
        notices.extend(clone.notice());
        for setting in [Setting::Addr, Setting::AuthToken] {
            if reader.text(setting).is_some() {
                notices.push(format!(
                    "{} (--{}) has no effect with stdio, the only transport of this version",
                    setting.variable(),
                    setting.flag()
                ));
            }
        }
        let reads = ReadConfig::read(&mut reader, kubeconfig.as_deref(), context.clone(), environment);
        let config = Self {
            embedded_secrets: typed.embedded_secrets.clone(),
            kubeconfig_is_set: kubeconfig.is_some(),
            no_proxy: environment.no_proxy.clone().unwrap_or_default(),
            in_a_pod: environment.service.is_some(),
            cluster: cluster(typed, kubeconfig, context),
            namespace_is_set: namespace.is_some(),
            namespace: reader.label(Setting::Namespace, namespace, defaults::NAMESPACE),
            default_timeout_s,
            max_timeout_s,
            max_output_bytes: reader.whole(Setting::MaxOutputBytes, defaults::MAX_OUTPUT_BYTES, 1),
            max_artifact_bytes: reader.whole(Setting::MaxArtifactBytes, defaults::MAX_ARTIFACT_BYTES, 0),
            default_cpu_millis: reader.cpu(Setting::DefaultCpu, defaults::DEFAULT_CPU),
            default_memory_bytes: reader.memory(Setting::DefaultMemory, defaults::DEFAULT_MEMORY),
            allowed_images: reader.images(Setting::AllowedImages),
            sidecar_image: reader.image(Setting::SidecarImage, defaults::SIDECAR_IMAGE),
            max_concurrent: usize::try_from(reader.whole(
                Setting::MaxConcurrent,
                defaults::MAX_CONCURRENT,
                1,
            ))
            .unwrap_or(usize::MAX),
            clone,
            cache: CacheConfig::read(&mut reader),
            job_extra_env: jobs::extra_env(&mut reader),
            addr: jobs::address(&mut reader),
            auth_token: reader.text(Setting::AuthToken).map(Secret::from),
            notices,
            policies: reader.text(Setting::Policies).map(PathBuf::from),
            audit: audit_choice(&mut reader, audit, environment),
            audit_commands: typed.audit_commands,
            instance: {
                let typed = reader.text(Setting::Instance);
                reader.label(Setting::Instance, typed, "default")
            },
            results: results(&mut reader),
            reads,
        };
        match reader.text(Setting::Transport).as_deref() {
            None | Some("stdio") => {}
            Some(other) => {
                reader.fault(
                    Setting::Transport,
                    &format!("`{other}` is not served by this version; use `stdio`"),
                );
            }
        }
        reader.finish(config)
    }
}

fn cluster(typed: &Typed, kubeconfig: Option<PathBuf>, context: Option<String>) -> ClusterChoice {
    if typed.embedded || typed.embedded_unconfined {
        return ClusterChoice::Embedded { unconfined: typed.embedded_unconfined };
    }
    match kubeconfig {
        Some(path) => ClusterChoice::Kubeconfig { path, context },
        // A context may still be one for the reads.
        None => ClusterChoice::InCluster,
    }
}

/// A URL is refused rather than taken for the name of a directory.
fn results(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let text = reader.text(Setting::Results)?;
    if text.contains("://") {
        reader.fault(Setting::Results, "this version keeps results in a directory only; give its path");
    }
    Some(PathBuf::from(text))
}

fn audit_choice(reader: &mut Reader<'_>, typed: Option<String>, environment: &Environment) -> AuditChoice {
    match typed.as_deref() {
        Some("stderr") => AuditChoice::Stderr,
        Some(name @ ("-" | "stdout")) => {
            reader.fault(
                Setting::Audit,
                &format!("`{name}`: standard output is the protocol's; name a file, a directory or `stderr`"),
            );
            AuditChoice::Stderr
        }
        Some(path) => AuditChoice::Path(PathBuf::from(path)),
        None => match environment.state_directory() {
            Some(directory) => AuditChoice::StateDirectory(directory.join("kubepermit").join("audit")),
            None => {
                reader.fault(
                    Setting::Audit,
                    "there is no default place, since neither XDG_STATE_HOME nor HOME is an absolute path; \
                     name a file, a directory or `stderr`",
                );
                AuditChoice::Stderr
            }
        },
    }
}

/// The variables that are not settings of ours.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `XDG_STATE_HOME`
    pub state_home: Option<PathBuf>,
    /// `HOME`
    pub home: Option<PathBuf>,
    /// `PATH`
    pub path: Option<OsString>,
    /// `KUBECONFIG`
    pub kubeconfig: Option<OsString>,
    /// `NO_PROXY`, or `no_proxy`, which programs know as well.
    pub no_proxy: Option<String>,
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, by which a pod knows its API server.
    pub service: Option<(String, String)>,
}

impl Environment {
    /// Reads the process's environment.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn read() -> Self {
        Self {
            state_home: std::env::var_os("XDG_STATE_HOME").map(PathBuf::from),
            home: std::env::var_os("HOME").map(PathBuf::from),
            path: std::env::var_os("PATH"),
            kubeconfig: std::env::var_os("KUBECONFIG"),
            no_proxy: std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy")).ok(),
            service: std::env::var("KUBERNETES_SERVICE_HOST")
                .ok()
                .zip(std::env::var("KUBERNETES_SERVICE_PORT").ok())
                .filter(|(host, port)| !host.is_empty() && !port.is_empty()),
        }
    }

    /// The XDG base directory for state. A relative path is to be ignored (XDG Base Directory
    /// Specification), and here it would also lead into the working directory.
    fn state_directory(&self) -> Option<PathBuf> {
        let absolute = |path: &&PathBuf| path.is_absolute();
        self.state_home
            .as_ref()
            .filter(absolute)
            .cloned()
            .or_else(|| self.home.as_ref().filter(absolute).map(|home| home.join(".local").join("state")))
    }
}

/// What to say of `MCP_K8S_*` and `KUBEPERMIT_*` variables that are set and are no setting: misspelt ones.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn variables_without_effect() -> Vec<String> {
    let known = |name: &str| {
        ["KUBEPERMIT_CONFIG", "KUBEPERMIT_LOG"].contains(&name)
            || Setting::ALL.into_iter().any(|setting| setting.variable() == name)
    };
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = set.filter_map(|(name, _)| name.into_string().ok());
    let ours = names.filter(|name| name.starts_with("MCP_K8S_") || name.starts_with("KUBEPERMIT_"));
    let mut said: Vec<String> = ours
        .filter(|name| !known(name))
        .map(|name| format!("{name} is set, but there is no such setting"))
        .collect();
    said.sort();
    said
}

/// How long one policy decision may take before it is a denial.
pub const POLICY_TIME_LIMIT: Duration = Duration::from_secs(1);

/// The program itself, for the embedded cluster's containers.
///
/// # Errors
/// The operating system's, when it does not tell.
pub fn program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}

#[cfg(test)]
mod tests;
