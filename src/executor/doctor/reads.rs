//! What reads need: kubectl, new enough and able to reach its server, and rights to look, and no more.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::rights::{self, Allowed, CREATE_PODS, GET_SECRETS, Right, Rights};
use super::server::{self, minor_of};
use super::{Answer, ask};
use crate::executor::kubectl::version::{Version, Versions, versions};
use crate::executor::kubectl::{Access, ReadFailure, ReadTools};
use crate::executor::text::shortened;
use crate::executor::{Cluster, ClusterSource};
use crate::finding::Finding;
use crate::plan;

/// The oldest minor version of kubectl 1: since 1.26 it keeps control characters out of what `describe` prints
/// (CVE-2021-25743), and takes credentials from exec plugins alone.
const OLDEST_KUBECTL: u32 = 26;

/// Kubernetes' version skew policy: kubectl may be one minor version older or newer than the API server.
const MOST_SKEW: u32 = 1;

/// How many namespaces are asked about, one after the other: an operator with more has other means.
const MOST_NAMESPACES: usize = 50;

/// What every read tool but `describe_resource` needs.
const FOR_READS: [Right; 4] = [
    Right::new("get", "", "pods"),
    Right::new("list", "", "pods"),
    Right::part("get", "pods", "log"),
    Right::new("list", "", "events"),
];

/// What reads never use.
const TOO_MUCH: [(Right, &str); 2] =
    [(GET_SECRETS, "read Secrets"), (CREATE_PODS, "make pods, although reads only read")];

/// What of a cluster is examined for reads.
#[derive(Debug)]
pub struct ReadExam<'a> {
    /// kubectl and its kubeconfig.
    pub tools: &'a ReadTools,
    /// The namespaces that may be read; one star for every namespace.
    pub namespaces: &'a [String],
    /// The value of `NO_PROXY`.
    pub no_proxy: &'a str,
    /// How long kubectl may run.
    pub deadline: Duration,
    /// Whether rights that are too broad are of any interest.
    pub surroundings: bool,
}

/// Examines what reads need. Where no namespace may be read, nothing is needed.
pub async fn examine_reads(exam: &ReadExam<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if exam.namespaces.is_empty() {
        findings.push(Finding::skipped("kubectl.program", "not needed, since no namespace may be read"));
        return findings;
    }
    let access = match &exam.tools.access {
        Ok(access) => Some(access),
        Err(error) => {
            let remedy = "mend it, or name another with KUBEPERMIT_READ_KUBECONFIG or --read-kubeconfig";
            findings.push(Finding::failed("reads.kubeconfig", error.to_string(), remedy));
            None
        }
    };
    if let Some(access) = access {
        findings.extend(kubeconfig(access));
    }
    let seen = versions(exam.tools, exam.deadline).await;
    findings.extend(kubectl(exam.tools, &seen));
    let Some(access) = access.filter(|access| !access.is_nothing) else { return findings };
    let source = ClusterSource::Kubeconfigs {
        paths: std::env::split_paths(&access.kubeconfig).collect(),
        context: access.context.clone(),
    };
    let cluster = Cluster::new(source).with_no_proxy(exam.no_proxy);
    let Some(server) = server::reach("reads", &cluster, &mut findings).await else {
        let why = "not asked, since the API server cannot be used";
        findings.push(Finding::skipped("cluster.rights", why).about("reads"));
        return findings;
    };
    for namespace in exam.namespaces.iter().take(MOST_NAMESPACES) {
        let rights = Rights::new(&server.client, namespace);
        in_namespace(&rights, namespace, exam.surroundings, &mut findings).await;
        if namespace != "*" {
            findings.extend(exists(&server.client, namespace).await);
        }
    }
    let rest = exam.namespaces.len().saturating_sub(MOST_NAMESPACES);
    if rest > 0 {
        let why = format!("{rest} more namespaces were not asked about");
        findings.push(Finding::skipped("rights.needed", why).about("reads"));
    }
    findings
}

fn kubeconfig(access: &Access) -> Vec<Finding> {
    const CHECK: &str = "reads.kubeconfig";
    if access.is_nothing {
        let remedy = "name a kubeconfig with KUBEPERMIT_READ_KUBECONFIG or --read-kubeconfig";
        return vec![Finding::failed(CHECK, "no cluster is known for reads, so nothing can be read", remedy)];
    }
    if access.notices.is_empty() {
        return vec![Finding::ok(CHECK, format!("context `{}`", access.context))];
    }
    let notices = access.notices.iter();
    notices.map(|notice| Finding::warning(CHECK, notice.clone(), "correct the kubeconfig")).collect()
}

/// kubectl itself, its way to the server, and their distance in versions.
fn kubectl(tools: &ReadTools, seen: &Versions) -> Vec<Finding> {
    const PROGRAM: &str = "kubectl.program";
    const REACH: &str = "kubectl.reach";
    let Some(program) = &tools.program else {
        let found = "this machine has no kubectl on the PATH, so nothing can be read";
        let remedy = format!(
            "install kubectl 1.{OLDEST_KUBECTL} or newer, or name it with KUBEPERMIT_KUBECTL or --kubectl"
        );
        return vec![Finding::failed(PROGRAM, found, remedy)];
    };
    let about = program.display().to_string();
    if tools.access.is_err() {
        let why = "not run, since reads have no kubeconfig that may be used";
        return vec![Finding::skipped(PROGRAM, why).about(about)];
    }
    let client = match &seen.client {
        Ok(client) => client,
        Err(failure) => {
            let found = format!("it does not tell its version: {}", failure.message);
            let remedy =
                format!("name a kubectl of 1.{OLDEST_KUBECTL} or newer with KUBEPERMIT_KUBECTL or --kubectl");
            return vec![Finding::failed(PROGRAM, found, remedy).about(about)];
        }
    };
    let git_version = shortened(&client.git_version);
    let minor = minor_of(&client.major, &client.minor);
    let itself = match minor {
        Some(minor) if minor < OLDEST_KUBECTL => Finding::failed(
            PROGRAM,
            format!("{git_version} is older than 1.{OLDEST_KUBECTL}"),
            format!(
                "install kubectl 1.{OLDEST_KUBECTL} or newer, or name one with KUBEPERMIT_KUBECTL or --kubectl"
            ),
        ),
        Some(_) => Finding::ok(PROGRAM, git_version),
        None => Finding::warning(
            PROGRAM,
            format!("`{git_version}` is no version of kubectl 1"),
            format!("make sure that it does what kubectl 1.{OLDEST_KUBECTL} does"),
        ),
    };
    vec![itself.about(about), way(REACH, minor, &seen.server)]
}

fn way(check: &'static str, client: Option<u32>, server: &Result<Version, ReadFailure>) -> Finding {
    let server = match server {
        Ok(server) => server,
        Err(failure) => {
            let found = format!("kubectl gets no answer: {}", failure.message);
            return Finding::failed(check, found, failure.hint.clone());
        }
    };
    let git_version = shortened(&server.git_version);
    match client.zip(minor_of(&server.major, &server.minor)) {
        Some((client, server)) if client.abs_diff(server) > MOST_SKEW => Finding::warning(
            check,
            format!(
                "kubectl 1.{client} is {} minor versions from the API server's 1.{server}",
                client.abs_diff(server)
            ),
            format!("install kubectl 1.{server}; Kubernetes supports a distance of {MOST_SKEW}"),
        ),
        _ => Finding::ok(check, format!("kubectl reaches Kubernetes {git_version}")),
    }
}

async fn in_namespace(rights: &Rights<'_>, namespace: &str, surroundings: bool, findings: &mut Vec<Finding>) {
    let everywhere = namespace == "*";
    let place = if everywhere { "every namespace".to_owned() } else { format!("namespace `{namespace}`") };
    let about = format!("reads, {place}");
    let kinds = plan::describable_resources();
    let describe: Vec<Right> = kinds.iter().map(|(group, plural)| Right::new("get", group, plural)).collect();
    let too_much: Vec<Right> = TOO_MUCH.iter().map(|(right, _)| *right).collect();
    let all: Vec<Right> = FOR_READS.iter().chain(&describe).chain(&too_much).copied().collect();
    let answers = if everywhere { rights.everywhere(&all).await } else { rights.here(&all).await };
    let (needed, rest) = answers.split_at(FOR_READS.len().min(answers.len()));
    let (described, held) = rest.split_at(describe.len().min(rest.len()));
    findings.extend(rights::lacking("reads", &place, &FOR_READS, needed, |_| false));
    let missing: Vec<String> = describe
        .iter()
        .zip(described)
        .filter(|(_, allowed)| **allowed == Allowed::No)
        .map(|(right, _)| right.target())
        .collect();
    if !missing.is_empty() {
        let found = format!("describe_resource cannot show {}", missing.join(", "));
        let remedy =
            "bind the identity to the cluster role `view`, or leave it so: each call says what is missing";
        findings.push(Finding::warning("rights.describe", found, remedy).about(about.clone()));
    }
    if surroundings {
        let held = TOO_MUCH.iter().zip(held).filter(|(_, allowed)| **allowed == Allowed::Yes);
        findings.extend(held.map(|((right, what), _)| {
            let found = format!("`{right}` is allowed: it could {what}");
            let remedy =
                "give reads an identity of their own with the cluster role `view` (--read-kubeconfig)";
            Finding::warning("rights.too_broad", found, remedy).about(about.clone())
        }));
    }
}

/// Only said when it is known not to be there: who may read in a namespace need not be allowed to get it.
async fn exists(client: &kube::Client, namespace: &str) -> Option<Finding> {
    let api: Api<Namespace> = Api::all(client.clone());
    match ask("get the namespace", || api.get(namespace)).await {
        Answer::NotFound(_) => Some(
            Finding::warning(
                "namespace.exists",
                "there is no such namespace, and it is listed for reads",
                "correct KUBEPERMIT_ALLOW_NAMESPACES, --allow-namespaces or reads.namespaces in data.yaml",
            )
            .about(format!("reads, namespace `{namespace}`")),
        ),
        Answer::Given(_) | Answer::Forbidden | Answer::Failed(_) => None,
    }
}
