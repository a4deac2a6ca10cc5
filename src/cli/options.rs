//! The options that every command shares: one flag and one variable a setting, as text.
//!
//! They are understood in config.rs, which reports all faults at once; clap alone would stop at the first.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Setting, Typed};

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
            audit_commands,
        }
    }
}
