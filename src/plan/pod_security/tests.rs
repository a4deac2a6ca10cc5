//! The checker against the text of the standard: one row for each way to break a control, at each place
//! where its field may stand, and the good twins of those pods.

use serde_json::{Value, json};

use super::*;

/// A pod that complies with "restricted" in the smallest way, with each sort of container.
fn restricted_pod() -> Value {
    let container = |name: &str| {
        json!({
            "name": name,
            "image": "registry.example.com/app:1",
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
            },
        })
    };
    json!({
        "metadata": {},
        "spec": {
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [container("app"), container("beside")],
            "initContainers": [container("before")],
            "ephemeralContainers": [container("debug")],
        },
    })
}

/// Sets the value at a path of field names and indices, making objects on the way.
fn set(pod: &mut Value, path: &str, value: &Value) {
    let mut at = pod;
    for step in path.split('/') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step.replace('|', "/")],
        };
    }
    *at = value.clone();
}

fn violated(level: Level, changes: &[(&str, Value)]) -> Vec<&'static str> {
    let mut pod = restricted_pod();
    for (path, value) in changes {
        set(&mut pod, path, value);
    }
    violations(level, &pod)
}

const CONTAINERS: [&str; 4] =
    ["spec/containers/0", "spec/containers/1", "spec/initContainers/0", "spec/ephemeralContainers/0"];

#[test]
fn the_smallest_restricted_pod_complies() {
    assert_eq!(violated(Level::Restricted, &[]), Vec::<&str>::new());
    assert_eq!(violated(Level::Baseline, &[]), Vec::<&str>::new());
}

#[test]
fn a_bad_field_of_the_pod_violates_its_control() {
    let rows = [
        ("hostNetwork", json!(true), vec!["hostNamespaces"]),
        ("hostPID", json!(true), vec!["hostNamespaces"]),
        ("hostIPC", json!(true), vec!["hostNamespaces"]),
        ("hostIPC", json!("yes"), vec!["hostNamespaces"]),
        ("securityContext/windowsOptions/hostProcess", json!(true), vec!["windowsHostProcess"]),
        ("securityContext/seLinuxOptions", json!({ "type": "spc_t" }), vec!["seLinuxOptions"]),
        ("securityContext/seLinuxOptions", json!({ "user": "root" }), vec!["seLinuxOptions"]),
        ("securityContext/seLinuxOptions", json!({ "role": "sysadm_r" }), vec!["seLinuxOptions"]),
        ("securityContext/appArmorProfile", json!({ "type": "Unconfined" }), vec!["appArmorProfile"]),
        ("securityContext/appArmorProfile", json!({}), vec!["appArmorProfile"]),
        ("securityContext/sysctls", json!([{ "name": "kernel.msgmax", "value": "1" }]), vec!["sysctls"]),
        ("securityContext/sysctls", json!({ "name": "kernel.msgmax" }), vec!["sysctls"]),
        (
            "securityContext/seccompProfile",
            json!({ "type": "Unconfined" }),
            vec!["seccompProfile_baseline", "seccompProfile_restricted"],
        ),
        ("securityContext/seccompProfile", Value::Null, vec!["seccompProfile_restricted"]),
        ("securityContext/runAsNonRoot", json!(false), vec!["runAsNonRoot"]),
        ("securityContext/runAsNonRoot", Value::Null, vec!["runAsNonRoot"]),
        ("securityContext/runAsUser", json!(0), vec!["runAsUser"]),
        ("securityContext/runAsUser", json!("65532"), vec!["runAsUser"]),
    ];
    for (field, value, expected) in rows {
        let path = format!("spec/{field}");
        assert_eq!(violated(Level::Restricted, &[(&path, value.clone())]), expected, "{field} = {value}");
    }
}

/// Each row is tried on an ordinary, a second, an init and an ephemeral container.
#[test]
fn a_bad_field_of_any_container_violates_its_control() {
    let host = || json!({ "httpGet": { "port": 80, "host": "169.254.169.254" } });
    let tcp_host = || json!({ "tcpSocket": { "port": 80, "host": "10.0.0.1" } });
    let rows = [
        ("securityContext/privileged", json!(true), vec!["privileged"]),
        ("securityContext/privileged", json!(1), vec!["privileged"]),
        (
            "securityContext/capabilities/add",
            json!(["SYS_ADMIN"]),
            vec!["capabilities_baseline", "capabilities_restricted"],
        ),
        ("securityContext/capabilities/add", json!(["CHOWN"]), vec!["capabilities_restricted"]),
        ("securityContext/capabilities/drop", json!([]), vec!["capabilities_restricted"]),
        ("securityContext/capabilities/drop", json!(["NET_RAW"]), vec!["capabilities_restricted"]),
        ("securityContext/capabilities/drop", json!(["all"]), vec!["capabilities_restricted"]),
        ("securityContext/capabilities", Value::Null, vec!["capabilities_restricted"]),
        ("ports", json!([{ "containerPort": 80, "hostPort": 80 }]), vec!["hostPorts"]),
        ("livenessProbe", host(), vec!["hostProbesAndHostLifecycle"]),
        ("readinessProbe", tcp_host(), vec!["hostProbesAndHostLifecycle"]),
        ("startupProbe", host(), vec!["hostProbesAndHostLifecycle"]),
        ("lifecycle/postStart", host(), vec!["hostProbesAndHostLifecycle"]),
        ("lifecycle/preStop", tcp_host(), vec!["hostProbesAndHostLifecycle"]),
        ("securityContext/windowsOptions/hostProcess", json!(true), vec!["windowsHostProcess"]),
        ("securityContext/seLinuxOptions/type", json!("spc_t"), vec!["seLinuxOptions"]),
        ("securityContext/seLinuxOptions/user", json!("system_u"), vec!["seLinuxOptions"]),
        ("securityContext/seLinuxOptions/role", json!("system_r"), vec!["seLinuxOptions"]),
        ("securityContext/appArmorProfile/type", json!("Unconfined"), vec!["appArmorProfile"]),
        ("securityContext/procMount", json!("Unmasked"), vec!["procMount"]),
        (
            "securityContext/seccompProfile/type",
            json!("Unconfined"),
            vec!["seccompProfile_baseline", "seccompProfile_restricted"],
        ),
        ("securityContext/allowPrivilegeEscalation", json!(true), vec!["allowPrivilegeEscalation"]),
        ("securityContext/allowPrivilegeEscalation", Value::Null, vec!["allowPrivilegeEscalation"]),
        ("securityContext/runAsNonRoot", json!(false), vec!["runAsNonRoot"]),
        ("securityContext/runAsUser", json!(0), vec!["runAsUser"]),
        ("securityContext", Value::Null, vec!["allowPrivilegeEscalation", "capabilities_restricted"]),
    ];
    for (field, value, expected) in rows {
        for container in CONTAINERS {
            let path = format!("{container}/{field}");
            assert_eq!(violated(Level::Restricted, &[(&path, value.clone())]), expected, "{path} = {value}");
        }
    }
}

#[test]
fn an_unconfined_apparmor_annotation_violates_its_control() {
    let path = "metadata/annotations/container.apparmor.security.beta.kubernetes.io|app";
    assert_eq!(violated(Level::Baseline, &[(path, json!("unconfined"))]), ["appArmorProfile"]);
    for allowed in ["", "runtime/default", "localhost/profile"] {
        assert_eq!(violated(Level::Restricted, &[(path, json!(allowed))]), Vec::<&str>::new(), "{allowed}");
    }
}

/// Every kind of volume of the core API that the standard does not list, and one that does not exist yet.
#[test]
fn other_kinds_of_volume_are_refused() {
    let kinds = [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
        "notInventedYet",
    ];
    for kind in kinds {
        let volumes = json!([{ "name": "data", "emptyDir": {} }, { "name": "v", kind: {} }]);
        let volumes = [("spec/volumes", volumes)];
        assert_eq!(violated(Level::Restricted, &volumes), ["restrictedVolumes"], "{kind}");
        assert_eq!(violated(Level::Baseline, &volumes), Vec::<&str>::new(), "{kind}");
    }
    let host_path = [("spec/volumes", json!([{ "name": "v", "hostPath": { "path": "/" } }]))];
    assert_eq!(violated(Level::Restricted, &host_path), ["hostPathVolumes", "restrictedVolumes"]);
    assert_eq!(violated(Level::Baseline, &host_path), ["hostPathVolumes"]);
}

#[test]
fn listed_kinds_of_volume_comply() {
    for kind in VOLUME_KINDS {
        let volumes = json!([{ "name": "v", kind: {} }]);
        assert_eq!(violated(Level::Restricted, &[("spec/volumes", volumes)]), Vec::<&str>::new(), "{kind}");
    }
}

const VOLUME_KINDS: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

#[test]
fn good_twins_comply() {
    let everywhere = |field: &str, value: Value| -> Vec<(String, Value)> {
        CONTAINERS.iter().map(|container| (format!("{container}/{field}"), value.clone())).collect()
    };
    let at = |path: &str, value: Value| vec![(path.to_owned(), value)];
    let mut by_container = everywhere("securityContext/runAsNonRoot", json!(true));
    by_container.extend(at("spec/securityContext/runAsNonRoot", Value::Null));
    let mut own_seccomp = everywhere("securityContext/seccompProfile", json!({ "type": "RuntimeDefault" }));
    own_seccomp.extend(at("spec/securityContext", json!({ "runAsNonRoot": true })));
    let rows = [
        ("runAsNonRoot by every container", by_container),
        ("seccomp by every container", own_seccomp),
        (
            "a local seccomp profile",
            at(
                "spec/securityContext/seccompProfile",
                json!({ "type": "Localhost", "localhostProfile": "p" }),
            ),
        ),
        ("a user", at("spec/securityContext/runAsUser", json!(1000))),
        ("NET_BIND_SERVICE", everywhere("securityContext/capabilities/add", json!(["NET_BIND_SERVICE"]))),
        ("an SELinux level", at("spec/securityContext/seLinuxOptions", json!({ "level": "s0:c1,c2" }))),
        ("an SELinux type", at("spec/securityContext/seLinuxOptions", json!({ "type": "container_kvm_t" }))),
        (
            "a safe sysctl",
            at("spec/securityContext/sysctls", json!([{ "name": "net.ipv4.tcp_rmem", "value": "1" }])),
        ),
        ("flags that are false", at("spec/hostNetwork", json!(false))),
        ("a container's port", everywhere("ports", json!([{ "containerPort": 80, "hostPort": 0 }]))),
        ("a probe of the pod", everywhere("livenessProbe", json!({ "httpGet": { "port": 80, "host": "" } }))),
        ("the default proc mount", everywhere("securityContext/procMount", json!("Default"))),
        ("AppArmor", everywhere("securityContext/appArmorProfile", json!({ "type": "RuntimeDefault" }))),
    ];
    for (what, changes) in rows {
        let changes: Vec<(&str, Value)> =
            changes.iter().map(|(path, value)| (path.as_str(), value.clone())).collect();
        assert_eq!(violated(Level::Restricted, &changes), Vec::<&str>::new(), "{what}");
    }
}

/// What containers require of themselves does not excuse a pod that says the opposite, nor one container
/// that says nothing.
#[test]
fn every_container_counts() {
    for silent in CONTAINERS {
        let mut changes: Vec<(String, Value)> = CONTAINERS
            .iter()
            .filter(|container| **container != silent)
            .map(|container| (format!("{container}/securityContext/runAsNonRoot"), json!(true)))
            .collect();
        changes.push(("spec/securityContext/runAsNonRoot".to_owned(), Value::Null));
        let changes: Vec<(&str, Value)> =
            changes.iter().map(|(path, value)| (path.as_str(), value.clone())).collect();
        assert_eq!(violated(Level::Restricted, &changes), ["runAsNonRoot"], "{silent} is silent");
    }
    let mut contradicted: Vec<(String, Value)> = CONTAINERS
        .iter()
        .map(|container| (format!("{container}/securityContext/runAsNonRoot"), json!(true)))
        .collect();
    contradicted.push(("spec/securityContext/runAsNonRoot".to_owned(), json!(false)));
    let changes: Vec<(&str, Value)> =
        contradicted.iter().map(|(path, value)| (path.as_str(), value.clone())).collect();
    assert_eq!(violated(Level::Restricted, &changes), ["runAsNonRoot"]);
}

#[test]
fn what_is_no_pod_template_does_not_pass() {
    let containers = json!([{ "name": "app" }]);
    for template in [
        Value::Null,
        json!([]),
        json!({}),
        json!({ "spec": null }),
        json!({ "spec": {} }),
        json!({ "spec": { "containers": [] } }),
        json!({ "spec": { "containers": ["app"] } }),
        json!({ "spec": { "containers": containers, "volumes": {} } }),
        json!({ "spec": { "containers": containers, "initContainers": true } }),
    ] {
        assert_eq!(violations(Level::Baseline, &template), ["podTemplate"], "{template}");
    }
}
