//! The options that every command shares: one flag and one variable a setting, as text.
//!
//! They are understood in config.rs, which reports all faults at once; clap alone would stop at the first.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Secret, Setting, Typed};

/// What is logged unless somebody says otherwise.
const DEFAULT_LOG: &str = "warn,kubepermit=info";

/// Settings of the gateway. The `MCP_K8S_*` variables are those of the reference server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct GatewayOptions {
    /// Run on a stand-in for a cluster inside this process; nothing else is needed.
    #[arg(long)]
    embedded: bool,
    /// The same, also where this machine cannot confine the commands.
    #[arg(long)]
    embedded_unconfined: bool,
    /// Folder with the Secrets of --embedded: a folder in it is a Secret, a file in that a key.
    #[arg(long, value_name = "DIR", requires = "embedded")]
    embedded_secrets: Option<PathBuf>,
    /// Path of the kubeconfig; without it, the service account of the pod that this runs in.
    #[arg(long, env = "MCP_K8S_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context of the kubeconfig, on every command; without it, its current one at start.
    #[arg(long, env = "KUBEPERMIT_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the jobs [default: mcp-ephemeral].
    #[arg(long, env = "MCP_K8S_NAMESPACE", value_name = "NAME")]
    namespace: Option<String>,
    /// Path of a kubeconfig for the reads alone; without it, that of the jobs, the pod's service account, or
    /// $KUBECONFIG and ~/.kube/config, in this order.
    #[arg(long, env = "KUBEPERMIT_READ_KUBECONFIG", value_name = "FILE")]
    read_kubeconfig: Option<String>,
    /// What this server calls itself on its jobs [default: default].
    #[arg(long, env = "KUBEPERMIT_INSTANCE", value_name = "NAME")]
    instance: Option<String>,

    /// Namespaces that may be read, separated by commas, or `*` for every one; replaces the policy's list. Set
    /// but empty: none.
    #[arg(long, env = "KUBEPERMIT_ALLOW_NAMESPACES", value_name = "NAMES", help_heading = "Reads")]
    allow_namespaces: Option<String>,
    /// Absolute path of kubectl; without it, the first on the PATH at start.
    #[arg(long, env = "KUBEPERMIT_KUBECTL", value_name = "FILE", help_heading = "Reads")]
    kubectl: Option<String>,
    /// How much output of a read is returned, in characters [default: 262144].
    #[arg(long, env = "KUBEPERMIT_MAX_OUTPUT", value_name = "CHARACTERS", help_heading = "Reads")]
    max_output: Option<String>,
    /// How long a read may take, in seconds [default: 30].
    #[arg(long, env = "KUBEPERMIT_READ_TIMEOUT_S", value_name = "SECONDS", help_heading = "Reads")]
    read_timeout_s: Option<String>,
    /// How many reads may run at once [default: 4].
    #[arg(long, env = "KUBEPERMIT_MAX_READS", value_name = "COUNT", help_heading = "Reads")]
    max_reads: Option<String>,

    /// Images that may run, separated by commas; replaces the policy's list. Set but empty: none.
    #[arg(long, env = "MCP_K8S_ALLOWED_IMAGES", value_name = "IMAGES", help_heading = "Jobs")]
    allowed_images: Option<String>,
    /// Wall clock of a command that names none, in seconds [default: 60].
    #[arg(long, env = "MCP_K8S_DEFAULT_TIMEOUT_S", value_name = "SECONDS", help_heading = "Jobs")]
    default_timeout_s: Option<String>,
    /// The longest wall clock that a call may ask for, in seconds [default: 600].
    #[arg(long, env = "MCP_K8S_MAX_TIMEOUT_S", value_name = "SECONDS", help_heading = "Jobs")]
    max_timeout_s: Option<String>,
    /// How much output of a job is returned, in bytes [default: 1048576].
    #[arg(long, env = "MCP_K8S_MAX_OUTPUT_BYTES", value_name = "BYTES", help_heading = "Jobs")]
    max_output_bytes: Option<String>,
    /// How much of its files is returned, in bytes [default: 10485760].
    #[arg(long, env = "MCP_K8S_MAX_ARTIFACT_BYTES", value_name = "BYTES", help_heading = "Jobs")]
    max_artifact_bytes: Option<String>,
    /// cpu request of a job [default: 1].
    #[arg(long, env = "MCP_K8S_DEFAULT_CPU", value_name = "QUANTITY", help_heading = "Jobs")]
    default_cpu: Option<String>,
    /// Memory request of a job [default: 512Mi].
    #[arg(long, env = "MCP_K8S_DEFAULT_MEMORY", value_name = "QUANTITY", help_heading = "Jobs")]
    default_memory: Option<String>,
    /// Image that places input files and collects artifacts; it needs `sh` and `tar` [default: busybox:1.36].
    #[arg(long, env = "MCP_K8S_SIDECAR_IMAGE", value_name = "IMAGE", help_heading = "Jobs")]
    sidecar_image: Option<String>,
    /// How many jobs may be there at once [default: 10].
    #[arg(long, env = "MCP_K8S_MAX_CONCURRENT", value_name = "COUNT", help_heading = "Jobs")]
    max_concurrent: Option<String>,
    /// Image with `git` and `sh` that clones repositories; without it, `clone` is refused.
    #[arg(long, env = "MCP_K8S_CLONE_IMAGE", value_name = "IMAGE", help_heading = "Jobs")]
    clone_image: Option<String>,
    /// Secret of the jobs' namespace with one token for each git host, the host being the key; without it, `clone`
    /// is refused.
    #[arg(long, env = "MCP_K8S_CLONE_SECRET", value_name = "NAME", help_heading = "Jobs")]
    clone_secret: Option<String>,
    /// Git hosts that may be cloned from, separated by commas; replaces the policy's list. Set but empty: none.
    #[arg(long, env = "KUBEPERMIT_CLONE_HOSTS", value_name = "HOSTS", help_heading = "Jobs")]
    clone_hosts: Option<String>,
    /// PersistentVolumeClaim that jobs share as a cache; needs --cache-mount-path.
    #[arg(long, env = "MCP_K8S_CACHE_PVC", value_name = "NAME", help_heading = "Jobs")]
    cache_pvc: Option<String>,
    /// Where jobs see the cache, for example `/go/pkg/mod`; needs --cache-pvc.
    #[arg(long, env = "MCP_K8S_CACHE_MOUNT_PATH", value_name = "PATH", help_heading = "Jobs")]
    cache_mount_path: Option<String>,
    /// Environment variables of every job: a JSON object of texts. A call's own variables win.
    #[arg(
        long,
        env = "MCP_K8S_JOB_EXTRA_ENV",
        hide_env_values = true,
        value_name = "JSON",
        help_heading = "Jobs"
    )]
    job_extra_env: Option<Secret>,
    /// Directory in which servers share the results of background jobs, each for 60 minutes; without it, each server
    /// keeps its own in memory.
    #[arg(long, env = "KUBEPERMIT_RESULTS", value_name = "DIR", help_heading = "Jobs")]
    results: Option<String>,

    /// Directory of a policy bundle; replaces the compiled-in one whole.
    #[arg(long, env = "KUBEPERMIT_POLICIES", value_name = "DIR", help_heading = "Policy and audit")]
    policies: Option<String>,
    /// Where to record calls: a file, a directory (one file a process) or `stderr`
    /// [default: $XDG_STATE_HOME/kubepermit/audit].
    #[arg(long, env = "KUBEPERMIT_AUDIT", value_name = "WHERE", help_heading = "Policy and audit")]
    audit: Option<String>,
    /// Record commands in full; without it, only their digest and length.
    #[arg(long, help_heading = "Policy and audit")]
    audit_commands: bool,

    /// Transport of `serve`: `stdio` [default: stdio].
    #[arg(long, env = "MCP_K8S_TRANSPORT", value_name = "NAME", help_heading = "Program")]
    transport: Option<String>,
    /// Address on which HTTP listens [default: :8080]. No effect with `stdio`.
    #[arg(long, env = "MCP_K8S_ADDR", value_name = "ADDRESS", help_heading = "Program")]
    addr: Option<String>,
    /// Token that every HTTP request must carry; give it by the variable, since others can read a command line. No
    /// effect with `stdio`.
    #[arg(
        long,
        env = "MCP_K8S_AUTH_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Program"
    )]
    auth_token: Option<Secret>,
    /// YAML file of settings, below flags and variables; its keys are the flags' names with `_` for `-`.
    #[arg(long, env = "KUBEPERMIT_CONFIG", value_name = "FILE", help_heading = "Program")]
    config: Option<String>,
    /// What to log on standard error (`error`, `warn`, `info`, `debug`, or tracing's filter syntax).
    #[arg(
        long,
        env = "KUBEPERMIT_LOG",
        value_name = "FILTER",
        default_value = DEFAULT_LOG,
        help_heading = "Program"
    )]
    log: String,
}

impl GatewayOptions {
    /// What to log.
    #[must_use]
    pub fn log(&self) -> &str {
        if self.log.is_empty() { DEFAULT_LOG } else { &self.log }
    }

    /// What was typed. Taken apart whole, so that a new option cannot be forgotten.
    #[must_use]
    pub fn typed(&self) -> Typed {
        let Self {
            embedded,
            embedded_unconfined,
            embedded_secrets,
            kubeconfig,
            context,
            read_kubeconfig,
            allow_namespaces,
            kubectl,
            max_output,
            read_timeout_s,
            max_reads,
            namespace,
            instance,
            allowed_images,
            default_timeout_s,
            max_timeout_s,
            max_output_bytes,
            max_artifact_bytes,
            default_cpu,
            default_memory,
            sidecar_image,
            max_concurrent,
            clone_image,
            clone_secret,
            clone_hosts,
            cache_pvc,
            cache_mount_path,
            job_extra_env,
            addr,
            auth_token,
            results,
            policies,
            audit,
            audit_commands,
            transport,
            config,
            log: _,
        } = self.clone();
        let values = [
            (Setting::Kubeconfig, kubeconfig),
            (Setting::Context, context),
            (Setting::ReadKubeconfig, read_kubeconfig),
            (Setting::AllowNamespaces, allow_namespaces),
            (Setting::Kubectl, kubectl),
            (Setting::MaxOutput, max_output),
            (Setting::ReadTimeoutS, read_timeout_s),
            (Setting::MaxReads, max_reads),
            (Setting::Namespace, namespace),
            (Setting::Instance, instance),
            (Setting::AllowedImages, allowed_images),
            (Setting::DefaultTimeoutS, default_timeout_s),
            (Setting::MaxTimeoutS, max_timeout_s),
            (Setting::MaxOutputBytes, max_output_bytes),
            (Setting::MaxArtifactBytes, max_artifact_bytes),
            (Setting::DefaultCpu, default_cpu),
            (Setting::DefaultMemory, default_memory),
            (Setting::SidecarImage, sidecar_image),
            (Setting::MaxConcurrent, max_concurrent),
            (Setting::CloneImage, clone_image),
            (Setting::CloneSecret, clone_secret),
            (Setting::CloneHosts, clone_hosts),
            (Setting::CachePvc, cache_pvc),
            (Setting::CacheMountPath, cache_mount_path),
            (Setting::JobExtraEnv, job_extra_env.map(Secret::into_text)),
            (Setting::Addr, addr),
            (Setting::AuthToken, auth_token.map(Secret::into_text)),
            (Setting::Results, results),
            (Setting::Policies, policies),
            (Setting::Audit, audit),
            (Setting::Transport, transport),
        ];
        Typed {
            values: values.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect(),
            file: config.filter(|path| !path.is_empty()).map(PathBuf::from),
            embedded,
            embedded_unconfined,
            embedded_secrets,
            audit_commands,
        }
    }
}
