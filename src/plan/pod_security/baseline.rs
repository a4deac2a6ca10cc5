//! The controls of level "baseline".

use serde_json::Value;

use crate::plan::pod_security::{Control, Pod, absent_or, all_of, objects, one_of, unnamed, unset};

pub(super) const CONTROLS: [Control; 12] = [
    Control {
        name: "windowsHostProcess",
        complies: |pod| pod.every_context(|context| unset(context.pointer("/windowsOptions/hostProcess"))),
    },
    Control {
        name: "hostNamespaces",
        complies: |pod| ["hostNetwork", "hostPID", "hostIPC"].iter().all(|field| unset(pod.spec.get(field))),
    },
    Control {
        name: "privileged",
        complies: |pod| pod.every_context(|context| unset(context.get("privileged"))),
    },
    Control {
        name: "capabilities_baseline",
        complies: |pod| {
            pod.every_context(|context| all_of(context.pointer("/capabilities/add"), &DEFAULT_CAPABILITIES))
        },
    },
    Control {
        name: "hostPathVolumes",
        complies: |pod| pod.volumes.iter().all(|volume| absent_or(volume.get("hostPath"), |_| false)),
    },
    Control { name: "hostPorts", complies: |pod| pod.every_container(has_no_host_port) },
    Control { name: "hostProbesAndHostLifecycle", complies: |pod| pod.every_container(has_no_handler_host) },
    Control { name: "appArmorProfile", complies: app_armor },
    Control {
        name: "seLinuxOptions",
        complies: |pod| pod.every_context(|context| absent_or(context.get("seLinuxOptions"), se_linux)),
    },
    Control {
        name: "procMount",
        complies: |pod| {
            pod.every_context(|context| absent_or(context.get("procMount"), |mount| mount == "Default"))
        },
    },
    Control {
        name: "seccompProfile_baseline",
        complies: |pod| pod.every_context(|context| absent_or(context.get("seccompProfile"), is_confined)),
    },
    Control {
        name: "sysctls",
        complies: |pod| match objects(context_of(pod.spec), "sysctls") {
            Some(sysctls) => sysctls
                .iter()
                .all(|sysctl| sysctl.get("name").is_some_and(|name| one_of(name, &SAFE_SYSCTLS))),
            None => false,
        },
    },
];

/// The capabilities that container runtimes give by default.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that are namespaced and safe, as of Kubernetes 1.32.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Kubernetes before 1.30 takes AppArmor profiles from annotations with this prefix.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A seccomp or AppArmor profile that confines.
pub(super) fn is_confined(profile: &Value) -> bool {
    profile.get("type").is_some_and(|kind| one_of(kind, &["RuntimeDefault", "Localhost"]))
}

fn context_of(holder: &Value) -> &Value {
    holder.get("securityContext").unwrap_or(&Value::Null)
}

fn has_no_host_port(container: &Value) -> bool {
    objects(container, "ports").is_some_and(|ports| {
        ports.iter().all(|port| absent_or(port.get("hostPort"), |port| port.as_u64() == Some(0)))
    })
}

/// A probe or hook with a host reaches from the node to any address that the pod's author names.
fn has_no_handler_host(container: &Value) -> bool {
    const HANDLERS: [&str; 5] =
        ["/livenessProbe", "/readinessProbe", "/startupProbe", "/lifecycle/postStart", "/lifecycle/preStop"];
    HANDLERS.iter().filter_map(|handler| container.pointer(handler)).all(|handler| {
        unnamed(handler.pointer("/httpGet/host")) && unnamed(handler.pointer("/tcpSocket/host"))
    })
}

fn app_armor(pod: &Pod<'_>) -> bool {
    let annotated = match pod.template.pointer("/metadata/annotations") {
        None | Some(Value::Null) => true,
        Some(Value::Object(annotations)) => annotations
            .iter()
            .filter(|(name, _)| name.starts_with(APP_ARMOR_ANNOTATION))
            .all(|(_, profile)| {
                profile.as_str().is_some_and(|profile| {
                    profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/")
                })
            }),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => false,
    };
    annotated && pod.every_context(|context| absent_or(context.get("appArmorProfile"), is_confined))
}

fn se_linux(options: &Value) -> bool {
    absent_or(options.get("type"), |kind| one_of(kind, &SE_LINUX_TYPES))
        && unnamed(options.get("user"))
        && unnamed(options.get("role"))
}
