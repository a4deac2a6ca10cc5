//! Arguments to what runs: whatever JSON a caller sends, a plan that comes out passes Pod Security or is a bounded
//! read, and the policy gives a decision of its own about it.
//!
//! The input's first byte chooses the tool; the rest is the arguments' JSON.
#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use kubepermit::caller::Caller;
use kubepermit::plan::pod_security::{Level, violations};
use kubepermit::plan::{JobPlan, KubectlPlan, Plan};
use kubepermit::policy::{BundleSource, Overlay, Policy, Question, Verdict};
use kubepermit::strict;
use kubepermit_fuzz::{Front, is_told};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const IMAGES: [&str; 2] = ["busybox:1.36", "python:3.12-slim"];
const TOOLS: [&str; 5] = ["run_job", "list_pods", "pod_logs", "describe_resource", "list_events"];

static FRONT: LazyLock<Front> = LazyLock::new(|| Front::new(&IMAGES));

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let overlay = Overlay {
        images: Some(IMAGES.map(str::to_owned).to_vec()),
        read_namespaces: Some(vec!["*".to_owned()]),
        ..Overlay::default()
    };
    let policy = Policy::load(&BundleSource::BuiltIn, &overlay).expect("the bundle is compiled in");
    // An instrumented build on a busy machine; how long a decision takes is measured elsewhere.
    policy.with_time_limit(Duration::from_secs(60))
});

/// What a kubelet makes of `$(NAME)` and `$$` (Kubernetes, "Define a Command and Arguments"), with no variables.
fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        assert!(!rest.starts_with("$(") || !rest.contains(')'), "a variable would be put in: {text:?}");
        out.push('$');
        rest = rest.strip_prefix("$$").unwrap_or(&rest[1..]);
    }
    out + rest
}

fn check_job(plan: &JobPlan, arguments: &Value) {
    let manifest = serde_json::to_value(plan.manifest()).expect("a manifest is JSON");
    let template = &manifest["spec"]["template"];
    assert_eq!(violations(Level::Restricted, template), Vec::<&str>::new());
    let pod = template["spec"].as_object().expect("a pod has a spec");
    let known = [
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "containers",
        "enableServiceLinks",
        "initContainers",
        "restartPolicy",
        "securityContext",
        "terminationGracePeriodSeconds",
        "volumes",
    ];
    assert!(pod.keys().all(|key| known.contains(&key.as_str())), "{:?}", pod.keys());
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(manifest["metadata"]["namespace"], "mcp-ephemeral");
    let containers = pod["containers"].as_array().expect("a pod has containers");
    let main = &containers[0];
    assert_eq!(main["image"], plan.image().reference.key());
    let wanted = arguments["command"].as_array().expect("the schema demands a command");
    let given = main["command"].as_array().expect("the main container has a command");
    let given: Vec<Value> =
        given.iter().map(|word| expanded(word.as_str().unwrap_or_default()).into()).collect();
    assert_eq!(&given, wanted, "another command would run");
    let mut names = BTreeSet::new();
    for variable in main["env"].as_array().into_iter().flatten() {
        assert!(variable.get("valueFrom").is_none());
        assert!(names.insert(variable["name"].as_str().unwrap_or_default()));
    }
    // A caller's content is in no manifest: files come another way.
    for file in arguments["files"].as_array().into_iter().flatten() {
        let content = file["content_b64"].as_str().unwrap_or_default();
        if content.len() > 40 && !arguments["command"].to_string().contains(content) {
            assert!(!pod["volumes"].to_string().contains(content));
        }
    }
}

fn check_read(plan: &KubectlPlan) {
    let argv = plan.argv();
    assert!(["get", "describe", "logs"].contains(&argv[0].as_str()), "{argv:?}");
    let end = argv.iter().position(|token| token == "--").expect("names stand behind two dashes");
    let flags = [
        "--context",
        "--namespace",
        "--all-namespaces",
        "--request-timeout",
        "--cache-dir",
        "--output",
        "--selector",
        "--field-selector",
        "--show-events",
        "--container",
        "--tail",
        "--limit-bytes",
        "--previous",
        "--since",
    ];
    let mut seen = BTreeSet::new();
    for token in &argv[1..end] {
        let (flag, value) = token.split_once('=').expect("a flag and its value are one token");
        assert!(flags.contains(&flag) && !value.is_empty(), "{argv:?}");
        assert!(seen.insert(flag), "{flag} is given twice");
        // What kubectl 1.34 and later look for, anywhere in an argument (getExplicitKuberc in k8s.io/kubectl).
        assert!(!token.contains(['\0', '\n']) && !token.contains("--kuberc="), "{argv:?}");
    }
    assert!(seen.contains("--namespace") != seen.contains("--all-namespaces"), "{argv:?}");
    for name in &argv[end + 1..] {
        // Kinds with their groups, and names: DNS-1123 subdomains both.
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        assert!(!name.is_empty() && name.len() <= 253 && name.chars().all(good), "{argv:?}");
        assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{argv:?}");
        assert!(!name.starts_with("secret") || plan.resource() != Some(name), "{argv:?}");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, text)) = data.split_first() else {
        return;
    };
    let Ok(arguments) = strict::json(text) else {
        return;
    };
    let tool = TOOLS[usize::from(*first) % TOOLS.len()];
    let (call, plan) = match FRONT.plan(tool, arguments.clone()) {
        Ok(planned) => planned,
        Err(refusal) => return is_told(&refusal),
    };
    match &plan {
        Plan::Job(plan) => check_job(plan, &arguments),
        Plan::Kubectl(plan) => check_read(plan),
        Plan::Handle(_) => panic!("none of these tools looks a job up"),
    }
    let caller = Caller::at_command_line();
    let question = Question { caller: &caller, call: &call, plan, time: Timestamp::UNIX_EPOCH };
    match POLICY.judge(question) {
        Verdict::Allow(permit) => {
            if let Plan::Job(plan) = permit.plan() {
                let listed = |image: &&str| image.parse().as_ref() == Ok(&plan.image().reference);
                assert!(IMAGES.iter().any(listed), "an image that is not listed is allowed");
                assert!(plan.timeout().as_secs() <= 600 && plan.files().len() <= 100);
            }
        }
        Verdict::Deny { decision, .. } => {
            assert!(!decision.deny.is_empty());
            // `policy.*` is what Rust says when the bundle has no proper answer.
            assert!(decision.deny.iter().all(|reason| !reason.code.starts_with("policy.")), "{decision:?}");
        }
    }
});
