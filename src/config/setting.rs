//! The names of all settings: variable, flag and key in the file.

/// Every setting that takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// Transport of `serve`.
    Transport,
    /// Namespace of the Jobs.
    Namespace,
    /// Wall clock of a command that names none.
    DefaultTimeoutS,
    /// The most that a caller may ask for.
    MaxTimeoutS,
    /// Cap on the output of a job.
    MaxOutputBytes,
    /// Cap on the artifacts of a job.
    MaxArtifactBytes,
    /// cpu request.
    DefaultCpu,
    /// Memory request.
    DefaultMemory,
    /// The images that may run.
    AllowedImages,
    /// The helper's image.
    SidecarImage,
    /// The kubeconfig.
    Kubeconfig,
    /// Its context.
    Context,
    /// The policy bundle.
    Policies,
    /// The audit log.
    Audit,
    /// What this server calls itself on its Jobs.
    Instance,
    /// The namespaces that may be read.
    AllowNamespaces,
    /// The kubeconfig of the reads.
    ReadKubeconfig,
    /// The program that reads.
    Kubectl,
    /// Cap on the output of a read.
    MaxOutput,
    /// How long a read may take.
    ReadTimeoutS,
    /// How many reads may run at once.
    MaxReads,
    /// How many jobs may be there at once.
    MaxConcurrent,
    /// The cloner's image.
    CloneImage,
    /// The Secret with a token for each git host.
    CloneSecret,
    /// The git hosts that may be cloned from.
    CloneHosts,
    /// The claim of the shared cache.
    CachePvc,
    /// Where jobs see the shared cache.
    CacheMountPath,
    /// Environment variables of every job.
    JobExtraEnv,
    /// Where HTTP listens.
    Addr,
    /// What HTTP requests must carry.
    AuthToken,
    /// Where results of background jobs are kept.
    Results,
}

impl Setting {
    /// All of them, in the order in which README.md lists them.
    pub const ALL: [Self; 31] = [
        Self::Transport,
        Self::Namespace,
        Self::DefaultTimeoutS,
        Self::MaxTimeoutS,
        Self::MaxOutputBytes,
        Self::MaxArtifactBytes,
        Self::DefaultCpu,
        Self::DefaultMemory,
        Self::AllowedImages,
        Self::SidecarImage,
        Self::Kubeconfig,
        Self::Context,
        Self::Policies,
        Self::Audit,
        Self::Instance,
        Self::AllowNamespaces,
        Self::ReadKubeconfig,
        Self::Kubectl,
        Self::MaxOutput,
        Self::ReadTimeoutS,
        Self::MaxReads,
        Self::MaxConcurrent,
        Self::CloneImage,
        Self::CloneSecret,
        Self::CloneHosts,
        Self::CachePvc,
        Self::CacheMountPath,
        Self::JobExtraEnv,
        Self::Addr,
        Self::AuthToken,
        Self::Results,
    ];

    /// The environment variable.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Transport => "MCP_K8S_TRANSPORT",
            Self::Namespace => "MCP_K8S_NAMESPACE",
            Self::DefaultTimeoutS => "MCP_K8S_DEFAULT_TIMEOUT_S",
            Self::MaxTimeoutS => "MCP_K8S_MAX_TIMEOUT_S",
            Self::MaxOutputBytes => "MCP_K8S_MAX_OUTPUT_BYTES",
            Self::MaxArtifactBytes => "MCP_K8S_MAX_ARTIFACT_BYTES",
            Self::DefaultCpu => "MCP_K8S_DEFAULT_CPU",
            Self::DefaultMemory => "MCP_K8S_DEFAULT_MEMORY",
            Self::AllowedImages => "MCP_K8S_ALLOWED_IMAGES",
            Self::SidecarImage => "MCP_K8S_SIDECAR_IMAGE",
            Self::Kubeconfig => "MCP_K8S_KUBECONFIG",
            Self::Context => "KUBEPERMIT_CONTEXT",
            Self::Policies => "KUBEPERMIT_POLICIES",
            Self::Audit => "KUBEPERMIT_AUDIT",
            Self::Instance => "KUBEPERMIT_INSTANCE",
            Self::AllowNamespaces => "KUBEPERMIT_ALLOW_NAMESPACES",
            Self::ReadKubeconfig => "KUBEPERMIT_READ_KUBECONFIG",
            Self::Kubectl => "KUBEPERMIT_KUBECTL",
            Self::MaxOutput => "KUBEPERMIT_MAX_OUTPUT",
            Self::ReadTimeoutS => "KUBEPERMIT_READ_TIMEOUT_S",
            Self::MaxReads => "KUBEPERMIT_MAX_READS",
            Self::MaxConcurrent => "MCP_K8S_MAX_CONCURRENT",
            Self::CloneImage => "MCP_K8S_CLONE_IMAGE",
            Self::CloneSecret => "MCP_K8S_CLONE_SECRET",
            Self::CloneHosts => "KUBEPERMIT_CLONE_HOSTS",
            Self::CachePvc => "MCP_K8S_CACHE_PVC",
            Self::CacheMountPath => "MCP_K8S_CACHE_MOUNT_PATH",
            Self::JobExtraEnv => "MCP_K8S_JOB_EXTRA_ENV",
            Self::Addr => "MCP_K8S_ADDR",
            Self::AuthToken => "MCP_K8S_AUTH_TOKEN",
            Self::Results => "KUBEPERMIT_RESULTS",
        }
    }

    /// The flag without its dashes; with `_` for `-`, the key in the YAML file.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Namespace => "namespace",
            Self::DefaultTimeoutS => "default-timeout-s",
            Self::MaxTimeoutS => "max-timeout-s",
            Self::MaxOutputBytes => "max-output-bytes",
            Self::MaxArtifactBytes => "max-artifact-bytes",
            Self::DefaultCpu => "default-cpu",
            Self::DefaultMemory => "default-memory",
            Self::AllowedImages => "allowed-images",
            Self::SidecarImage => "sidecar-image",
            Self::Kubeconfig => "kubeconfig",
            Self::Context => "context",
            Self::Policies => "policies",
            Self::Audit => "audit",
            Self::Instance => "instance",
            Self::AllowNamespaces => "allow-namespaces",
            Self::ReadKubeconfig => "read-kubeconfig",
            Self::Kubectl => "kubectl",
            Self::MaxOutput => "max-output",
            Self::ReadTimeoutS => "read-timeout-s",
            Self::MaxReads => "max-reads",
            Self::MaxConcurrent => "max-concurrent",
            Self::CloneImage => "clone-image",
            Self::CloneSecret => "clone-secret",
            Self::CloneHosts => "clone-hosts",
            Self::CachePvc => "cache-pvc",
            Self::CacheMountPath => "cache-mount-path",
            Self::JobExtraEnv => "job-extra-env",
            Self::Addr => "addr",
            Self::AuthToken => "auth-token",
            Self::Results => "results",
        }
    }

    /// Whether the value is a path, of which `stderr` is none.
    #[must_use]
    pub fn is_path(self, value: &str) -> bool {
        match self {
            Self::Kubeconfig | Self::ReadKubeconfig | Self::Policies | Self::Kubectl | Self::Results => true,
            Self::Audit => value != "stderr",
            Self::Transport
            | Self::Namespace
            | Self::DefaultTimeoutS
            | Self::MaxTimeoutS
            | Self::MaxOutputBytes
            | Self::MaxArtifactBytes
            | Self::DefaultCpu
            | Self::DefaultMemory
            | Self::AllowedImages
            | Self::SidecarImage
            | Self::Context
            | Self::Instance
            | Self::AllowNamespaces
            | Self::MaxOutput
            | Self::ReadTimeoutS
            | Self::MaxReads
            | Self::MaxConcurrent
            | Self::CloneImage
            | Self::CloneSecret
            | Self::CloneHosts
            | Self::CachePvc
            | Self::CacheMountPath
            | Self::JobExtraEnv
            | Self::Addr
            | Self::AuthToken => false,
        }
    }

    /// Set but empty means "nothing" here; for every other setting it means "not set", as for the reference
    /// server, whose published client configurations set all variables.
    #[must_use]
    pub fn empty_is_a_value(self) -> bool {
        matches!(self, Self::AllowedImages | Self::AllowNamespaces | Self::CloneHosts)
    }
}
