//! Properties of every manifest that can come out: whatever the caller wrote, the pod passes Pod Security
//! and has the fields beyond it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::plan::manifest::{CONTROL_DIR, HELPER, INJECT, MAIN};
use crate::plan::pod_security::{self, Level};
use crate::plan::process::tests::expand;
use crate::plan::{properties, quantity};

fn any_limits() -> impl Strategy<Value = RequestedLimits> {
    let cpu = prop::option::of("[1-9][0-9]{0,4}m|[1-9][0-9]?|0\\.[1-9]|[1-9]e[0-2]");
    let memory = prop::option::of("[1-9][0-9]{0,3}(Ki|Mi|Gi|k|M|G|)|[1-9]\\.[0-9]Gi");
    (cpu, memory).prop_map(|(cpu, memory)| RequestedLimits { cpu, memory })
}

fn any_file() -> impl Strategy<Value = InputFile> {
    ("[a-z]{1,8}(/[a-z]{1,8}){0,2}", prop::option::of("0?[0-7]{3}")).prop_map(|(path, mode)| InputFile {
        path,
        content: Bytes::from_static(b"content"),
        mode,
    })
}

/// Calls that are mostly accepted, with free text wherever a caller may write some.
fn any_call() -> impl Strategy<Value = RunJob> {
    (
        "[a-z]{1,8}(/[a-z]{1,8})?(:[a-z0-9]{1,8})?",
        prop::collection::vec("[^\\x00]{1,20}|echo \\$\\$ [$()A]{0,8}", 1..4),
        prop::collection::vec(any_file(), 0..4),
        prop::collection::btree_map(
            "[A-Za-z_][A-Za-z0-9_]{0,8}|HOME|PATH",
            "[^\\x00]{0,20}|[$()A]{0,8}",
            0..4,
        ),
        any_limits(),
        prop::option::of(0..100_000_u64),
        prop::option::of(prop_oneof![
            "(/[a-z0-9._-]{1,8}){1,3}",
            Just("/tmp".to_owned()),
            Just("/tmp/below".to_owned()),
            Just("/work/".to_owned()),
        ]),
        prop::option::of(prop::collection::vec("[a-z*]{1,4}", 0..2)),
    )
        .prop_map(|(image, command, files, env, limits, timeout_s, workdir, artifacts)| RunJob {
            image,
            command,
            files,
            env,
            limits,
            timeout_s,
            workdir,
            artifacts,
            clone: None,
        })
}

fn containers(pod: &Value) -> Vec<&Value> {
    ["containers", "initContainers"].iter().filter_map(|list| pod[list].as_array()).flatten().collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

fn amount(resources: &Value, kind: &str, name: &str) -> Option<u64> {
    let text = resources[kind][name].as_str()?;
    Some(if name == "cpu" { quantity::cpu_millis(text) } else { quantity::memory_bytes(text) }.unwrap())
}

proptest! {
    #![proptest_config(properties(300))]

    #[test]
    fn passes_pod_security(job in any_call(), compat in any::<bool>()) {
        let profile = if compat { PodProfile::Compat } else { PodProfile::Restricted };
        let settings = JobSettings { profile, ..settings() };
        let Ok(plan) = plan(DecisionId::mint(), &job, &settings, &Rights::from(&AllowedImages::default())) else {
            return Ok(());
        };
        let template = json_of(&plan)["spec"]["template"].clone();
        let expected: &[&str] = if compat { &["runAsNonRoot"] } else { &[] };
        prop_assert_eq!(pod_security::violations(Level::Restricted, &template), expected);
        prop_assert!(pod_security::violations(Level::Baseline, &template).is_empty());
    }

    #[test]
    fn bounds_the_pod_beyond_pod_security(job in any_call()) {
        let Ok(plan) = plan(DecisionId::mint(), &job, &settings(), &Rights::from(&AllowedImages::default())) else {
            return Ok(());
        };
        let manifest = json_of(&plan);
        let pod = &manifest["spec"]["template"]["spec"];
        // Nothing of the caller's reaches any other field of the pod.
        let fields: BTreeSet<&str> = pod.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = BTreeSet::from([
            "activeDeadlineSeconds", "automountServiceAccountToken", "containers", "enableServiceLinks",
            "restartPolicy", "securityContext", "terminationGracePeriodSeconds", "volumes",
        ]);
        if !job.files.is_empty() {
            expected.insert("initContainers");
        }
        prop_assert_eq!(fields, expected);
        prop_assert_eq!(&pod["automountServiceAccountToken"], &json!(false));
        prop_assert_eq!(&pod["enableServiceLinks"], &json!(false));
        prop_assert_eq!(&pod["restartPolicy"], "Never");
        prop_assert!(pod["terminationGracePeriodSeconds"].as_u64().unwrap() <= 5);
        let timeout = job.timeout_s.filter(|seconds| *seconds > 0).unwrap_or(60);
        for deadline in [&pod["activeDeadlineSeconds"], &manifest["spec"]["activeDeadlineSeconds"]] {
            prop_assert_eq!(deadline.as_u64(), Some(timeout + 420));
        }
        for id in ["runAsUser", "runAsGroup", "fsGroup"] {
            prop_assert_eq!(&pod["securityContext"][id], &json!(65532));
        }
        for volume in pod["volumes"].as_array().unwrap() {
            prop_assert!(volume["emptyDir"]["sizeLimit"].is_string(), "{}", volume);
        }
        for container in containers(pod) {
            prop_assert_eq!(&container["securityContext"]["readOnlyRootFilesystem"], &json!(true));
            prop_assert_eq!(&container["imagePullPolicy"], "IfNotPresent");
            prop_assert!(amount(&container["resources"], "limits", "ephemeral-storage").is_some());
        }
        let spec = &manifest["spec"];
        prop_assert_eq!(
            (&spec["backoffLimit"], &spec["completions"], &spec["parallelism"]),
            (&json!(0), &json!(1), &json!(1))
        );
        prop_assert_eq!(&spec["podReplacementPolicy"], "Failed");
        prop_assert_eq!(&spec["ttlSecondsAfterFinished"], &json!(300));
        for metadata in [&manifest["metadata"], &spec["template"]["metadata"]] {
            prop_assert_eq!(&metadata["labels"], &json!({
                "app.kubernetes.io/managed-by": "kubepermit",
                "kubepermit.io/decision-id": plan.id().to_string(),
                "kubepermit.io/instance": "test-0",
            }));
        }
    }

    /// What the API server's validation demands of any pod.
    #[test]
    fn is_a_pod_that_kubernetes_accepts(job in any_call()) {
        let Ok(plan) = plan(DecisionId::mint(), &job, &settings(), &Rights::from(&AllowedImages::default())) else {
            return Ok(());
        };
        let manifest = json_of(&plan);
        let pod = &manifest["spec"]["template"]["spec"];
        let volumes: BTreeSet<&str> = names(&pod["volumes"]).into_iter().collect();
        prop_assert_eq!(volumes.len(), pod["volumes"].as_array().unwrap().len());
        for container in containers(pod) {
            let mounts = container["volumeMounts"].as_array().unwrap();
            let paths: BTreeSet<&str> = mounts.iter().filter_map(|mount| mount["mountPath"].as_str()).collect();
            prop_assert_eq!(paths.len(), mounts.len(), "one mount for each path");
            prop_assert!(!paths.iter().any(|path| path.contains(':')));
            prop_assert!(names(&container["volumeMounts"]).iter().all(|name| volumes.contains(name)));
            for resource in ["cpu", "memory", "ephemeral-storage"] {
                let request = amount(&container["resources"], "requests", resource).unwrap();
                let limit = amount(&container["resources"], "limits", resource);
                prop_assert!(limit.is_none_or(|limit| request <= limit), "{}: {}", resource, container);
            }
        }
    }

    #[test]
    fn gives_the_command_what_the_caller_wrote_and_no_more(job in any_call()) {
        let Ok(plan) = plan(DecisionId::mint(), &job, &settings(), &Rights::from(&AllowedImages::default())) else {
            return Ok(());
        };
        let manifest = json_of(&plan);
        let pod = &manifest["spec"]["template"]["spec"];
        let none_wanted = job.artifacts.as_ref().is_some_and(Vec::is_empty);
        prop_assert_eq!(names(&pod["containers"]), if none_wanted { vec![MAIN] } else { vec![MAIN, HELPER] });
        prop_assert_eq!(names(&pod["initContainers"]), if job.files.is_empty() { vec![] } else { vec![INJECT] });
        let main = &pod["containers"][0];
        let fields: BTreeSet<&str> = main.as_object().unwrap().keys().map(String::as_str).collect();
        prop_assert_eq!(fields, BTreeSet::from([
            "command", "env", "image", "imagePullPolicy", "name", "resources", "securityContext", "volumeMounts",
            "workingDir",
        ]));
        prop_assert_eq!(&main["image"], &json!(plan.image().reference.key()));
        prop_assert_eq!(main["workingDir"].as_str(), Some(plan.workdir()));
        let given = |value: &Value| expand(value.as_str().unwrap());
        let argv: Vec<String> = main["command"].as_array().unwrap().iter().map(given).collect();
        prop_assert_eq!(&argv, &job.command);
        for entry in main["env"].as_array().unwrap() {
            if let Some(value) = job.env.get(entry["name"].as_str().unwrap()) {
                prop_assert_eq!(&given(&entry["value"]), value);
            }
        }

        let env = names(&main["env"]);
        let mut expected: BTreeSet<&str> = job.env.keys().map(String::as_str).collect();
        expected.insert("HOME");
        prop_assert_eq!(&env, &expected.into_iter().collect::<Vec<_>>(), "sorted, each once");
        let home = main["env"].as_array().unwrap().iter().find(|entry| entry["name"] == "HOME").unwrap();
        if !job.env.contains_key("HOME") {
            prop_assert_eq!(&home["value"], "/tmp");
        }

        let mounted = |container: &Value, path: &str| {
            container["volumeMounts"].as_array().unwrap().iter().find(|mount| mount["mountPath"] == path).map(|mount| mount["name"].clone())
        };
        prop_assert!(mounted(main, "/tmp").is_some());
        prop_assert_eq!(mounted(main, CONTROL_DIR), None);
        for container in containers(pod) {
            prop_assert_eq!(mounted(container, plan.workdir()), Some(json!("work")));
            if container["name"] != MAIN {
                prop_assert_eq!(mounted(container, CONTROL_DIR), Some(json!("control")));
                prop_assert_eq!(&container["env"], &Value::Null);
                prop_assert_eq!(&container["image"], "docker.io/library/busybox:1.36");
            }
        }
    }
}

/// The properties above say something only if most generated calls are planned.
#[test]
fn most_generated_calls_are_accepted() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let accepted = (0..200)
        .filter(|_| {
            let job = any_call().new_tree(&mut runner).unwrap().current();
            plan(DecisionId::mint(), &job, &settings(), &Rights::from(&AllowedImages::default())).is_ok()
        })
        .count();
    assert!(accepted > 150, "{accepted} of 200");
}
