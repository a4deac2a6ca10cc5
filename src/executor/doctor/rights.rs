//! What an identity may do, asked of the API server itself by SelfSubjectAccessReview: too little, and too much.

use std::fmt;

use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Answer, JobExam, ask};
use crate::finding::Finding;

/// How many questions are open at once.
const AT_ONCE: usize = 8;

/// From this minor version of Kubernetes 1 on, opening a WebSocket to `pods/exec` needs `create`, too.
const EXEC_NEEDS_CREATE: u32 = 35;

/// One thing that RBAC can allow. A star stands for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

const ANYTHING: Right = Right::new("*", "*", "*");
const CREATE_JOBS: Right = Right::new("create", "batch", "jobs");
const CREATE_EXEC: Right = Right::part("create", "pods", "exec");
pub(super) const CREATE_PODS: Right = Right::new("create", "", "pods");
pub(super) const GET_SECRETS: Right = Right::new("get", "", "secrets");

/// What jobs need, in their namespace: the same as the Role of deploy/kubernetes.yaml.
const FOR_JOBS: [Right; 16] = [
    CREATE_JOBS,
    Right::new("get", "batch", "jobs"),
    Right::new("list", "batch", "jobs"),
    Right::new("delete", "batch", "jobs"),
    Right::new("get", "", "pods"),
    Right::new("list", "", "pods"),
    Right::new("watch", "", "pods"),
    Right::part("get", "pods", "log"),
    Right::part("get", "pods", "exec"),
    CREATE_EXEC,
    Right::new("list", "", "events"),
    Right::new("create", "coordination.k8s.io", "leases"),
    Right::new("get", "coordination.k8s.io", "leases"),
    Right::new("list", "coordination.k8s.io", "leases"),
    Right::new("update", "coordination.k8s.io", "leases"),
    Right::new("delete", "coordination.k8s.io", "leases"),
];

/// What jobs need in addition where they mount a claim.
const GET_CLAIMS: Right = Right::new("get", "", "persistentvolumeclaims");

/// What the gateway never uses, and somebody who takes it over would: in the jobs' namespace.
const TOO_MUCH_HERE: [(Right, &str); 5] = [
    (GET_SECRETS, "read the namespace's Secrets"),
    (CREATE_PODS, "make pods that no policy has seen"),
    (Right::part("create", "serviceaccounts", "token"), "make tokens of the namespace's service accounts"),
    (Right::new("create", "rbac.authorization.k8s.io", "rolebindings"), "give rights of its own to others"),
    (Right::new("patch", "apps", "deployments"), "change workloads"),
];

/// The same, in the whole cluster.
const TOO_MUCH_EVERYWHERE: [(Right, &str); 3] = [
    (GET_SECRETS, "read every Secret of the cluster"),
    (CREATE_JOBS, "make jobs in every namespace, although one is configured"),
    (Right::new("impersonate", "", "users"), "act as any other user"),
];

/// Whether something is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Allowed {
    Yes,
    No,
    /// The server would not say.
    Unknown(String),
}

/// How the right to create jobs was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// In the jobs' namespace.
    pub(super) here: bool,
    /// In every namespace.
    pub(super) everywhere: bool,
}

/// Asks for one identity.
pub(super) struct Rights<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl Right {
    pub(super) const fn new(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        Self { verb, group, resource, subresource: "" }
    }

    pub(super) const fn part(verb: &'static str, resource: &'static str, subresource: &'static str) -> Self {
        Self { verb, group: "", resource, subresource }
    }

    /// `pods/log`, as a rule of a Role names it.
    pub(super) fn target(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.resource, self.subresource)
    }

    /// The rule that allows it.
    pub(super) fn rule(&self) -> String {
        format!(
            r#"{{apiGroups: ["{}"], resources: ["{}"], verbs: ["{}"]}}"#,
            self.group,
            self.target(),
            self.verb
        )
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.target(), self.group)
    }
}

impl<'a> Rights<'a> {
    pub(super) fn new(client: &'a Client, namespace: &'a str) -> Self {
        Self { client, namespace }
    }

    /// Each right in the namespace.
    pub(super) async fn here(&self, rights: &[Right]) -> Vec<Allowed> {
        self.each(rights, Some(self.namespace), "").await
    }

    /// Each right in all namespaces at once.
    pub(super) async fn everywhere(&self, rights: &[Right]) -> Vec<Allowed> {
        self.each(rights, None, "").await
    }

    /// A right on one object of the namespace.
    pub(super) async fn on(&self, right: Right, name: &str) -> Allowed {
        self.may(right, Some(self.namespace), name).await
    }

    async fn each(&self, rights: &[Right], namespace: Option<&str>, name: &str) -> Vec<Allowed> {
        let asking = rights.iter().map(|right| self.may(*right, namespace, name));
        futures::stream::iter(asking).buffered(AT_ONCE).collect().await
    }

    async fn may(&self, right: Right, namespace: Option<&str>, name: &str) -> Allowed {
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            verb: set(right.verb),
            group: set(right.group),
            resource: set(right.resource),
            subresource: set(right.subresource),
            namespace: namespace.map(str::to_owned),
            name: set(name),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        match ask("answer a SelfSubjectAccessReview", || api.create(&params, &review)).await {
            Answer::Given(review) => match review.status {
                Some(status) if status.allowed => Allowed::Yes,
                Some(_) => Allowed::No,
                None => Allowed::Unknown("the API server's answer has no status".to_owned()),
            },
            Answer::Failed(why) => Allowed::Unknown(why),
            Answer::Forbidden | Answer::NotFound(_) => {
                Allowed::Unknown("the API server does not answer SelfSubjectAccessReviews".to_owned())
            }
        }
    }
}

/// Whether the rights that jobs need are there, and none beside them.
pub(super) async fn examine_jobs(
    rights: &Rights<'_>,
    exam: &JobExam<'_>,
    minor: Option<u32>,
    findings: &mut Vec<Finding>,
) -> Held {
    let mut needed = FOR_JOBS.to_vec();
    needed.extend(exam.cache_claim.map(|_| GET_CLAIMS));
    let answers = rights.here(&needed).await;
    let held_here = needed.iter().zip(&answers).any(|(r, a)| *r == CREATE_JOBS && *a == Allowed::Yes);
    let optional = |right: &Right| *right == CREATE_EXEC && minor.is_some_and(|m| m < EXEC_NEEDS_CREATE);
    let place = format!("namespace `{}`", exam.namespace);
    findings.extend(lacking("jobs", &place, &needed, &answers, optional));
    if !exam.surroundings {
        return Held { here: held_here, everywhere: false };
    }
    let everywhere = rights.everywhere(&[ANYTHING, CREATE_JOBS]).await;
    findings.extend(too_much(rights, everywhere.first() == Some(&Allowed::Yes)).await);
    Held { here: held_here, everywhere: everywhere.get(1) == Some(&Allowed::Yes) }
}

/// One finding when all is there, or else one for each right that is missing.
pub(super) fn lacking(
    who: &'static str,
    place: &str,
    needed: &[Right],
    answers: &[Allowed],
    optional: impl Fn(&Right) -> bool,
) -> Vec<Finding> {
    const CHECK: &str = "rights.needed";
    let about = format!("{who}, {place}");
    if let Some(why) = unknown(answers) {
        let remedy =
            "every identity may ask by default, by the cluster role system:basic-user; bind it again";
        return vec![Finding::warning(CHECK, format!("not known: {why}"), remedy).about(about)];
    }
    let missing = needed.iter().zip(answers).filter(|(_, allowed)| **allowed == Allowed::No);
    let mut findings: Vec<Finding> = missing
        .map(|(right, _)| {
            let found = format!("`{right}` is not allowed");
            let remedy = format!(
                "add {} to the identity's Role (deploy/kubernetes.yaml has all that jobs need)",
                right.rule()
            );
            let since = if *right == CREATE_EXEC {
                format!("; Kubernetes 1.{EXEC_NEEDS_CREATE} and newer need it to open a WebSocket")
            } else {
                String::new()
            };
            let remedy = format!("{remedy}{since}");
            let finding = if optional(right) {
                Finding::warning(CHECK, found, remedy)
            } else {
                Finding::failed(CHECK, found, remedy)
            };
            finding.about(about.clone())
        })
        .collect();
    if findings.is_empty() {
        let all: Vec<String> = needed.iter().map(ToString::to_string).collect();
        findings.push(Finding::ok(CHECK, format!("allowed: {}", all.join(", "))).about(about));
    }
    findings
}

async fn too_much(rights: &Rights<'_>, anything_anywhere: bool) -> Vec<Finding> {
    const CHECK: &str = "rights.too_broad";
    const REMEDY: &str = "use an identity of the gateway's own; deploy/kubernetes.yaml has its Role";
    let warn = |right: &Right, what: &str, place: &str| {
        Finding::warning(CHECK, format!("`{right}` is allowed: it could {what}"), REMEDY)
            .about(format!("jobs, {place}"))
    };
    let cluster = "the whole cluster";
    if anything_anywhere {
        return vec![warn(&ANYTHING, "do anything in the cluster, whatever the policy says", cluster)];
    }
    let namespace = format!("namespace `{}`", rights.namespace);
    let mut findings = Vec::new();
    let here: Vec<Right> = TOO_MUCH_HERE.iter().map(|(right, _)| *right).collect();
    let everywhere: Vec<Right> = TOO_MUCH_EVERYWHERE.iter().map(|(right, _)| *right).collect();
    let anything_here = rights.here(&[ANYTHING]).await;
    let (answers_here, answers_everywhere) =
        futures::join!(rights.here(&here), rights.everywhere(&everywhere));
    if anything_here.first() == Some(&Allowed::Yes) {
        findings.push(warn(&ANYTHING, "do anything in the namespace, whatever the policy says", &namespace));
    } else {
        let held = TOO_MUCH_HERE.iter().zip(&answers_here).filter(|(_, allowed)| **allowed == Allowed::Yes);
        findings.extend(held.map(|((right, what), _)| warn(right, what, &namespace)));
    }
    let held =
        TOO_MUCH_EVERYWHERE.iter().zip(&answers_everywhere).filter(|(_, allowed)| **allowed == Allowed::Yes);
    findings.extend(held.map(|((right, what), _)| warn(right, what, cluster)));
    if findings.is_empty() && unknown(&answers_here).or(unknown(&answers_everywhere)).is_none() {
        let found = "no Secrets, no pods, no tokens, no other namespaces";
        findings.push(Finding::ok(CHECK, found).about(format!("jobs, {namespace}")));
    }
    findings
}

/// Why the first of the answers that is none is none.
pub(super) fn unknown(answers: &[Allowed]) -> Option<&str> {
    answers.iter().find_map(|answer| match answer {
        Allowed::Unknown(why) => Some(why.as_str()),
        Allowed::Yes | Allowed::No => None,
    })
}
