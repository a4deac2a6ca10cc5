//! Examines everything that the program would start with, and starts none of it: `kubepermit doctor`.
//!
//! Each part is looked at whatever the others are like. Only the embedded cluster is really started, since there
//! is nothing else to look at.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::app;
use crate::audit::{self, AuditTarget};
use crate::caller::Caller;
use crate::config::{self, ClusterChoice, Config};
use crate::embedded::Embedded;
use crate::executor::{self, Cluster, JobExam, ReadExam, ReadTools};
use crate::finding::Finding;
use crate::pipeline::{Judge, Preview, Request};
use crate::plan::{PodProfile, Settings};
use crate::policy::{self, BundleSource, Policy};
use crate::schema::Catalogue;

/// What a list's finding shows of it.
const SHOWN: usize = 5;

/// Looks at everything; `caller` is the operator, as whom a call is tried on the policy.
pub async fn examine(config: &Config, caller: &Caller) -> Vec<Finding> {
    let mut findings: Vec<Finding> = config::variables_without_effect()
        .into_iter()
        .map(|what| Finding::warning("config.variables", what, "correct its name, or remove it"))
        .collect();
    let policy = load_policy(config, &mut findings).await;
    let embedded = start_embedded(config, &mut findings).await;
    let stand_in = matches!(config.cluster, ClusterChoice::Embedded { .. });
    let images = policy.as_ref().map_or_else(Vec::new, |policy| policy.images_for(&[]).listing());
    if stand_in && embedded.is_none() {
        findings.push(Finding::skipped("cluster.reach", "the embedded cluster did not start").about("jobs"));
    } else {
        findings.extend(examine_jobs(config, policy.as_deref(), embedded.as_ref(), !images.is_empty()).await);
    }
    let namespaces = match &policy {
        Some(policy) => policy.readable_namespaces(&[]),
        None => config.reads.allow_namespaces.clone().unwrap_or_default(),
    };
    match app::read_tools(config, embedded.as_ref()) {
        Ok(tools) => {
            findings.extend(examine_reads(config, &tools, &namespaces, stand_in).await);
            if let Some(policy) = policy {
                findings.extend(try_calls(config, policy, &tools, caller, &images, &namespaces).await);
            }
        }
        Err(error) => {
            let remedy = "give the program a directory for temporary files (TMPDIR) that it can write";
            findings.push(Finding::failed("reads.kubeconfig", format!("{error:#}"), remedy));
        }
    }
    findings.extend(examine_audit(config).await);
    if let Some(embedded) = embedded {
        embedded.stop().await;
    }
    findings
}

/// The bundle loads, its tests pass, and its lists are not empty.
async fn load_policy(config: &Config, findings: &mut Vec<Finding>) -> Option<Arc<Policy>> {
    let source = config.policies.clone().map_or(BundleSource::BuiltIn, BundleSource::Directory);
    let about = match &config.policies {
        Some(directory) => directory.display().to_string(),
        None => "compiled in".to_owned(),
    };
    let owned = config.clone();
    let loaded = tokio::task::spawn_blocking(move || {
        let policy = app::load_policy(&owned).map_err(|error| format!("{error:#}"));
        let tests = policy::test::run(&source).map_err(|error| format!("{:#}", anyhow::Error::from(error)));
        (policy, tests)
    });
    let (policy, tests) =
        loaded.await.unwrap_or_else(|error| (Err(error.to_string()), Err(error.to_string())));
    let remedy = "correct the bundle; `kubepermit policy init DIR` writes one that works";
    let policy = match policy {
        Ok(policy) => {
            let found = format!("it loads; revision {}", policy.revision());
            findings.push(Finding::ok("policy.bundle", found).about(about.clone()));
            policy
        }
        Err(error) => {
            findings.push(Finding::failed("policy.bundle", error, remedy).about(about));
            return None;
        }
    };
    let finding = match tests {
        Ok(report) if report.passed() => {
            Finding::ok("policy.tests", format!("{} tests pass", report.tests.len()))
        }
        Ok(_) => Finding::failed(
            "policy.tests",
            "the bundle's own tests fail",
            "run `kubepermit policy test` with the same --policies, which shows each",
        ),
        Err(error) => Finding::failed("policy.tests", error, remedy),
    };
    findings.push(finding.about(about));
    findings.push(listed(
        "policy.images",
        "may run",
        &policy.images_for(&[]).listing(),
        "no image may run",
        "list some in MCP_K8S_ALLOWED_IMAGES, --allowed-images or the policy's data.yaml",
    ));
    findings.push(listed(
        "policy.read_namespaces",
        "may be read",
        &policy.readable_namespaces(&[]),
        "no namespace may be read",
        "list some in KUBEPERMIT_ALLOW_NAMESPACES, --allow-namespaces or the policy's data.yaml",
    ));
    Some(Arc::new(policy))
}

fn listed(
    check: &'static str,
    what: &str,
    names: &[String],
    none: &'static str,
    remedy: &'static str,
) -> Finding {
    if names.is_empty() {
        return Finding::warning(check, none, remedy);
    }
    let shown: Vec<&str> = names.iter().map(String::as_str).take(SHOWN).collect();
    let rest = names.len().saturating_sub(SHOWN);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    Finding::ok(check, format!("{}{more} {what}", shown.join(", ")))
}

async fn start_embedded(config: &Config, findings: &mut Vec<Finding>) -> Option<Embedded> {
    match app::start_embedded(config).await {
        Ok(Some(embedded)) => {
            findings.push(Finding::ok("embedded.start", embedded.notice()));
            Some(embedded)
        }
        Ok(None) => None,
        Err(error) => {
            let remedy =
                "use --embedded-unconfined where this machine cannot confine commands, or a real cluster";
            findings.push(Finding::failed("embedded.start", format!("{error:#}"), remedy));
            None
        }
    }
}

async fn examine_jobs(
    config: &Config,
    policy: Option<&Policy>,
    embedded: Option<&Embedded>,
    wanted: bool,
) -> Vec<Finding> {
    // A gateway for reads alone is given no cluster for jobs, and no images.
    if !wanted && config.cluster == ClusterChoice::InCluster && !config.in_a_pod {
        let why = "no cluster for jobs is named, and no image may run: a gateway for reads alone";
        return vec![Finding::skipped("cluster.reach", why).about("jobs")];
    }
    let cluster = Cluster::new(app::source(config, embedded)).with_no_proxy(&config.no_proxy);
    let exam = JobExam {
        cluster: &cluster,
        namespace: &config.namespace,
        profile: policy.map_or(PodProfile::Restricted, Policy::pod_profile),
        cache_claim: config.cache.as_ref().map(|cache| cache.claim.as_str()),
        clone_secret: config.clone.secret.as_deref(),
        surroundings: embedded.is_none(),
    };
    let mut findings = executor::examine_jobs(&exam).await;
    let found = "places input files and collects artifacts; the nodes have to be able to pull it";
    findings.push(Finding::ok("helper.image", found).about(config.sidecar_image.as_str()));
    findings
}

async fn examine_reads(
    config: &Config,
    tools: &ReadTools,
    namespaces: &[String],
    stand_in: bool,
) -> Vec<Finding> {
    let exam = ReadExam {
        tools,
        namespaces,
        no_proxy: &config.no_proxy,
        deadline: app::read_limits(config).deadline,
        surroundings: !stand_in,
    };
    executor::examine_reads(&exam).await
}

/// Plain calls, as far as the policy's decision.
async fn try_calls(
    config: &Config,
    policy: Arc<Policy>,
    tools: &ReadTools,
    caller: &Caller,
    images: &[String],
    namespaces: &[String],
) -> Vec<Finding> {
    let settings =
        Settings { jobs: app::job_settings(config, &policy), kubectl: app::kubectl_settings(config, tools) };
    let judge = match Catalogue::load() {
        Ok(catalogue) => Judge::new(catalogue, settings, policy),
        Err(error) => {
            let remedy = "this build is broken: take another one, and report it";
            return vec![Finding::failed("policy.sample", error.to_string(), remedy)];
        }
    };
    let mut findings = Vec::new();
    if let Some(image) = images.first() {
        // With limits, since the policy may demand them.
        let limits = json!({ "cpu": "100m", "memory": "64Mi" });
        let arguments = json!({ "image": image, "command": ["true"], "limits": limits });
        findings.push(sample(&judge, caller, "run_job", arguments).await);
    }
    if let Some(namespace) = namespaces.first() {
        let everywhere = namespace == "*";
        let arguments = if everywhere { json!({}) } else { json!({ "namespace": namespace }) };
        findings.push(sample(&judge, caller, "list_pods", arguments).await);
    }
    findings
}

async fn sample(judge: &Judge, caller: &Caller, tool: &'static str, arguments: Value) -> Finding {
    const CHECK: &str = "policy.sample";
    /// The gateway's own namespace is refused, so no job at all can run.
    const HOPELESS: &str = "namespaces.not_listed";
    let shown = arguments.to_string();
    let request = Request { caller: caller.clone(), tool: tool.to_owned(), arguments, fault: None };
    let Preview { refusal, .. } = judge.preview(&request).await;
    let Some(refusal) = refusal else {
        return Finding::ok(CHECK, format!("{shown} would be allowed")).about(tool);
    };
    let reasons = &refusal.reasons;
    let found: Vec<String> =
        reasons.iter().map(|reason| format!("{} [{}]", reason.message, reason.code)).collect();
    let found = format!("{shown} would be refused: {}", found.join("; "));
    let hints: Vec<&str> =
        reasons.iter().map(|reason| reason.hint.as_str()).filter(|hint| !hint.is_empty()).collect();
    let remedy = if hints.is_empty() {
        "change the rule or its data, unless this is meant".to_owned()
    } else {
        hints.join("; ")
    };
    if reasons.iter().any(|reason| reason.code == HOPELESS) {
        Finding::failed(CHECK, found, remedy).about(tool)
    } else {
        Finding::warning(CHECK, found, remedy).about(tool)
    }
}

/// A record could be written, and what is there ends in whole records.
async fn examine_audit(config: &Config) -> Vec<Finding> {
    const PLACE: &str = "audit.place";
    let target = app::audit_target(config);
    let about = match &target {
        AuditTarget::Stderr => "stderr".to_owned(),
        AuditTarget::File(path) | AuditTarget::Directory(path) => path.display().to_string(),
    };
    let inspected = tokio::task::spawn_blocking(move || audit::inspect(&target)).await;
    let inspection = match inspected {
        Ok(Ok(inspection)) => inspection,
        Ok(Err(error)) => {
            let remedy = "mend it, or name another place with KUBEPERMIT_AUDIT or --audit: without a record nothing runs";
            let found = format!("{:#}", anyhow::Error::from(error));
            return vec![Finding::failed(PLACE, found, remedy).about(about)];
        }
        Err(error) => return vec![Finding::skipped(PLACE, error.to_string()).about(about)],
    };
    if inspection.in_use {
        let found = "another process writes it, so a second server on it does not start";
        let remedy = "name a directory, in which each process has a file of its own";
        return vec![Finding::warning(PLACE, found, remedy).about(about)];
    }
    let found = match inspection.logs {
        0 => "records can be written".to_owned(),
        count => format!("records can be written; the ends of {count} logs were looked at"),
    };
    let mut findings = vec![Finding::ok(PLACE, found).about(about)];
    findings.extend(inspection.damaged.into_iter().map(|(path, problem)| {
        let remedy = "keep it as evidence of a crash or of tampering; new records go to other files";
        Finding::warning("audit.tail", problem, remedy).about(path.display().to_string())
    }));
    findings
}
