//! Joins configuration to stages: the composition root. The only file that knows the embedded cluster.

mod doctor;

pub use doctor::examine;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::audit::{Audit, AuditOptions, AuditTarget};
use crate::config::{self, AuditChoice, ClusterChoice, Config, ReadCluster};
use crate::embedded::{Embedded, EmbeddedExtras, EmbeddedOptions};
use crate::executor::{
    Access, Claim, Cluster, ClusterSource, Executor, JobExecutor, JobLimits, KubectlExecutor, PrivateHome,
    ReadLimits, ReadSource, ReadTools, Results,
};
use crate::pipeline::{Gateway, Judge};
use crate::plan::{CacheVolume, ImageReference, JobExtras, JobSettings, KubectlSettings, Settings};
use crate::policy::{BundleSource, Overlay, Policy};
use crate::schema::Catalogue;

/// User, group and fsGroup of every container: a number that no image gives a meaning to (distroless'
/// `nonroot`), above every range that distributions reserve.
const POD_USER: i64 = 65532;

/// How long [`App::stop`] waits for running calls to delete their jobs and close their records.
const STOP_GRACE: Duration = Duration::from_secs(25);

/// A running program.
pub struct App {
    gateway: Arc<Gateway>,
    embedded: Option<Embedded>,
    notices: Vec<String>,
}

impl App {
    /// Starts every part, the cluster's stand-in first.
    ///
    /// # Errors
    /// The part that could not start, and why. A cluster that cannot be reached is not an error here: the
    /// handshake and the list of tools work without one, and each call says what is wrong.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let catalogue = Catalogue::load()?;
        let policy = Arc::new(load_policy(&config)?);
        let embedded = start_embedded(&config).await?;
        let audit = start_audit(&config)?;
        let mut notices = vec![format!("audit records go to {}", audit.location())];
        notices.extend(embedded.as_ref().map(Embedded::notice));
        notices.extend(config.notices.iter().cloned());
        notices.extend(cluster_notice(&config));
        if policy.images_for(&[]).listing().is_empty() {
            notices.push(
                "no image may run: list some in MCP_K8S_ALLOWED_IMAGES, --allowed-images or the policy's data.yaml"
                    .to_owned(),
            );
        }
        if policy.readable_namespaces(&[]).is_empty() {
            notices.push(
                "no namespace may be read: list some in KUBEPERMIT_ALLOW_NAMESPACES, --allow-namespaces or the \
                 policy's data.yaml"
                    .to_owned(),
            );
        }
        let cluster =
            Arc::new(Cluster::new(source(&config, embedded.as_ref())).with_no_proxy(&config.no_proxy));
        match check_cache(&config, &cluster).await {
            Ok(notice) => notices.extend(notice),
            Err(error) => {
                if let Some(embedded) = embedded {
                    embedded.stop().await;
                }
                return Err(error);
            }
        }
        let limits = JobLimits {
            at_once: config.max_concurrent,
            ..JobLimits::new(config.max_output_bytes, config.max_artifact_bytes)
        };
        let tools = read_tools(&config, embedded.as_ref())?;
        notices.extend(read_notices(&tools));
        let settings =
            Settings { jobs: job_settings(&config, &policy), kubectl: kubectl_settings(&config, &tools) };
        let judge = Judge::new(catalogue, settings, policy);
        let jobs = JobExecutor::new(cluster, limits).as_process(
            judge.process().clone(),
            &config.instance,
            &config.namespace,
        );
        let results = config.results.as_deref().map(Results::open).transpose();
        let results = results.context("the results cannot be kept (KUBEPERMIT_RESULTS, --results)")?;
        let executor =
            Executor::new(jobs, KubectlExecutor::new(tools, read_limits(&config))).sharing(results);
        let gateway = Arc::new(Gateway::new(judge, audit, executor));
        Ok(Self { gateway, embedded, notices })
    }

    /// The gateway.
    #[must_use]
    pub fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    /// What the operator should know, a sentence each.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Waits for running calls to end cleanly, then ends the rest.
    pub async fn stop(self) {
        // The embedded cluster ends with this process, and its jobs with it.
        let leave_jobs = self.embedded.is_none();
        if tokio::time::timeout(STOP_GRACE, self.gateway.finish(leave_jobs)).await.is_err() {
            tracing::warn!(
                "calls were still running after {} s; their jobs may outlive this server",
                STOP_GRACE.as_secs()
            );
        }
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }

    /// The stages that judge a call, without a cluster or an audit log.
    ///
    /// # Errors
    /// A bundle or catalogue that cannot be loaded.
    pub fn judge(config: &Config) -> anyhow::Result<Judge> {
        let policy = load_policy(config)?;
        let tools = read_tools(config, None)?;
        let settings =
            Settings { jobs: job_settings(config, &policy), kubectl: kubectl_settings(config, &tools) };
        Ok(Judge::new(Catalogue::load()?, settings, Arc::new(policy)))
    }
}

/// What is odd about the choice of a cluster. Nothing here keeps the program from starting: each call tells.
fn cluster_notice(config: &Config) -> Option<String> {
    match &config.cluster {
        ClusterChoice::Embedded { .. } => config.kubeconfig_is_set.then(|| {
            "a kubeconfig is set and not used for jobs, since the embedded cluster is asked for".to_owned()
        }),
        ClusterChoice::Kubeconfig { path, .. } => std::fs::File::open(path).err().map(|error| {
            format!("no job can run: the kubeconfig `{}` cannot be read: {error}", path.display())
        }),
        ClusterChoice::InCluster => (!config.in_a_pod).then(|| {
            "no job can run: this is not a pod of a cluster, and no kubeconfig is named \
             (MCP_K8S_KUBECONFIG, --kubeconfig); --embedded needs none"
                .to_owned()
        }),
    }
}

async fn start_embedded(config: &Config) -> anyhow::Result<Option<Embedded>> {
    let ClusterChoice::Embedded { unconfined } = config.cluster else { return Ok(None) };
    let launcher = config::program().context("this program cannot find itself, which --embedded needs")?;
    let extras = EmbeddedExtras {
        secrets: config.embedded_secrets.as_deref().map(secrets).transpose()?.unwrap_or_default(),
        claims: config.cache.iter().map(|cache| cache.claim.clone()).collect(),
        // Whoever set both wants to clone, and nothing can be cloned without.
        network_image: config
            .clone
            .secret
            .as_ref()
            .and(config.clone.image.as_ref())
            .and_then(|image| Some(image.parse::<ImageReference>().ok()?.key())),
    };
    let options =
        EmbeddedOptions { namespaces: vec![config.namespace.clone()], launcher, unconfined, extras };
    Ok(Some(Embedded::start(options).await.context("the embedded cluster cannot start")?))
}

/// The folders in `folder`, each a Secret.
fn secrets(folder: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let unreadable = || format!("the Secrets in `{}` cannot be read (--embedded-secrets)", folder.display());
    let mut secrets = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_dir()) {
            secrets.insert(name.to_owned(), path.clone());
        }
    }
    Ok(secrets)
}

/// A cache that is not there would keep every job waiting for its volume.
async fn check_cache(config: &Config, cluster: &Cluster) -> anyhow::Result<Option<String>> {
    let Some(cache) = &config.cache else { return Ok(None) };
    match cluster.claim(&config.namespace, &cache.claim).await {
        Claim::Present => Ok(None),
        Claim::Missing => anyhow::bail!(
            "there is no PersistentVolumeClaim `{}` in namespace `{}` (MCP_K8S_CACHE_PVC, --cache-pvc); make it, or \
             leave both cache settings out",
            cache.claim,
            config.namespace
        ),
        Claim::Unknown(why) => Ok(Some(format!(
            "whether the cache's PersistentVolumeClaim `{}` is there could not be found out: {why}",
            cache.claim
        ))),
    }
}

fn load_policy(config: &Config) -> anyhow::Result<Policy> {
    let source = match &config.policies {
        Some(directory) => BundleSource::Directory(directory.clone()),
        None => BundleSource::BuiltIn,
    };
    // The embedded cluster lists its own images and namespaces, but never widens somebody's own bundle.
    let trying_out = matches!(config.cluster, ClusterChoice::Embedded { .. }) && config.policies.is_none();
    let overlay = Overlay {
        images: config.allowed_images.clone(),
        extra_images: if trying_out { Embedded::images() } else { Vec::new() },
        job_namespaces: config.namespace_is_set.then(|| vec![config.namespace.clone()]),
        max_timeout_s: Some(config.max_timeout_s),
        read_namespaces: config.reads.allow_namespaces.clone(),
        clone_hosts: config.clone.hosts.clone(),
        extra_read_namespaces: if trying_out {
            vec![config.namespace.clone(), "default".to_owned()]
        } else {
            Vec::new()
        },
    };
    let policy = Policy::load(&source, &overlay).context("the policy cannot be used")?;
    Ok(policy.with_time_limit(config::POLICY_TIME_LIMIT))
}

/// Where the records go.
fn audit_target(config: &Config) -> AuditTarget {
    match &config.audit {
        AuditChoice::Stderr => AuditTarget::Stderr,
        AuditChoice::StateDirectory(directory) => AuditTarget::Directory(directory.clone()),
        // An existing directory is one; so is a name that ends like one.
        AuditChoice::Path(path) if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            AuditTarget::Directory(path.clone())
        }
        AuditChoice::Path(path) => AuditTarget::File(path.clone()),
    }
}

fn start_audit(config: &Config) -> anyhow::Result<Audit> {
    let options = AuditOptions {
        record_commands: config.audit_commands,
        instance: config.instance.clone(),
        ..AuditOptions::default()
    };
    Audit::start(audit_target(config), options)
        .context("the audit log cannot be used (KUBEPERMIT_AUDIT, --audit)")
}

fn source(config: &Config, embedded: Option<&Embedded>) -> ClusterSource {
    match (&config.cluster, embedded) {
        (_, Some(embedded)) => {
            ClusterSource::Kubeconfig { path: embedded.kubeconfig().to_owned(), context: None }
        }
        (ClusterChoice::Kubeconfig { path, context }, None) => {
            ClusterSource::Kubeconfig { path: path.clone(), context: context.clone() }
        }
        (ClusterChoice::InCluster | ClusterChoice::Embedded { .. }, None) => ClusterSource::InCluster,
    }
}

fn job_settings(config: &Config, policy: &Policy) -> JobSettings {
    JobSettings {
        namespace: config.namespace.clone(),
        instance: config.instance.clone(),
        default_timeout_s: config.default_timeout_s,
        default_cpu_millis: config.default_cpu_millis,
        default_memory_bytes: config.default_memory_bytes,
        helper_image: config.sidecar_image.clone(),
        user: POD_USER,
        profile: policy.pod_profile(),
        extras: JobExtras {
            clone_image: config.clone.image.clone(),
            clone_secret: config.clone.secret.clone(),
            cache: config.cache.as_ref().map(|cache| CacheVolume {
                claim: cache.claim.clone(),
                mount_path: cache.mount_path.clone(),
            }),
            env: config.job_extra_env.clone(),
        },
    }
}

/// What the reads run with. What is missing is no error here: the tools stay listed, and each call says what
/// is missing and who can mend it.
fn read_tools(config: &Config, embedded: Option<&Embedded>) -> anyhow::Result<ReadTools> {
    let home = PrivateHome::new().context("a private directory for kubectl cannot be made")?;
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("`{}` has no absolute path", path.display()))
    };
    let mut context = config.reads.context.as_deref();
    let source = match (&config.reads.cluster, embedded) {
        (ReadCluster::OwnKubeconfig(path), _) => ReadSource::Named(absolute(path)?),
        (ReadCluster::Kubeconfig(_) | ReadCluster::Ambient { .. }, Some(embedded)) => {
            context = None;
            ReadSource::Named(embedded.kubectl_kubeconfig())
        }
        (ReadCluster::Kubeconfig(path), None) => ReadSource::Named(absolute(path)?),
        (ReadCluster::Ambient { service, files }, None) => {
            ReadSource::Ambient { service: service.clone(), files: files.clone() }
        }
    };
    let access = Access::resolve(&source, context, &home);
    Ok(ReadTools { program: config.reads.kubectl.clone(), access, home })
}

fn read_notices(tools: &ReadTools) -> Vec<String> {
    let mut notices = match &tools.access {
        Ok(access) => access.notices.clone(),
        Err(error) => vec![format!("nothing can be read: {error}")],
    };
    match &tools.program {
        Some(program) => notices.push(format!("reads run {}", program.display())),
        None => notices.push(
            "nothing can be read: there is no kubectl on the PATH; name one with KUBEPERMIT_KUBECTL or --kubectl"
                .to_owned(),
        ),
    }
    notices
}

fn read_limits(config: &Config) -> ReadLimits {
    ReadLimits {
        max_output: usize::try_from(config.reads.max_output).unwrap_or(usize::MAX),
        deadline: Duration::from_secs(config.reads.timeout_s),
        at_once: usize::try_from(config.reads.at_once).unwrap_or(usize::MAX),
        ..ReadLimits::default()
    }
}

fn kubectl_settings(config: &Config, tools: &ReadTools) -> KubectlSettings {
    KubectlSettings {
        context: match (&tools.access, &config.reads.context) {
            (Ok(access), _) => access.context.clone(),
            // No read runs; the context is that of the records.
            (Err(_), Some(context)) => context.clone(),
            (Err(_), None) => "none".to_owned(),
        },
        cache_dir: tools.home.cache().display().to_string(),
        // A request that hangs ends before kubectl is killed, so that the cause can be told.
        request_timeout_s: (config.reads.timeout_s * 2 / 3).max(1),
    }
}
