//! Defaults, precedence, and every fault at once.

use super::*;

fn typed(values: &[(Setting, &str)]) -> Typed {
    Typed {
        values: values.iter().map(|(setting, value)| (*setting, (*value).to_owned())).collect(),
        ..Typed::default()
    }
}

fn home() -> Environment {
    Environment { home: Some("/home/somebody".into()), ..Environment::default() }
}

#[test]
fn the_defaults_are_the_reference_servers() {
    let config = Config::read(&typed(&[]), &home()).unwrap();
    assert_eq!(config.namespace, "mcp-ephemeral");
    assert_eq!(config.default_timeout_s, 60);
    assert_eq!(config.max_timeout_s, 600);
    assert_eq!(config.max_output_bytes, 1_048_576);
    assert_eq!(config.max_artifact_bytes, 10_485_760);
    assert_eq!(config.default_cpu_millis, 1000);
    assert_eq!(config.default_memory_bytes, 512 * 1024 * 1024);
    assert_eq!(config.allowed_images, None);
    assert_eq!(config.sidecar_image, "busybox:1.36");
    assert_eq!(config.cluster, ClusterChoice::InCluster);
    assert_eq!(
        config.audit,
        AuditChoice::StateDirectory("/home/somebody/.local/state/kubepermit/audit".into())
    );
}

#[test]
fn empty_is_unset_except_for_lists() {
    let all: Vec<(Setting, &str)> = Setting::ALL.into_iter().map(|setting| (setting, "")).collect();
    let config = Config::read(&typed(&all), &home()).unwrap();
    assert_eq!(config.namespace, "mcp-ephemeral");
    assert!(!config.namespace_is_set);
    assert_eq!(config.cluster, ClusterChoice::InCluster);
    assert_eq!(config.allowed_images, Some(vec![]), "set but empty lists nothing");
    assert_eq!(config.reads.allow_namespaces, Some(vec![]), "set but empty lists nothing");
}

#[test]
fn every_fault_is_reported_at_once_and_named() {
    let faults = Config::read(
        &typed(&[
            (Setting::Namespace, "Prod_1"),
            (Setting::DefaultTimeoutS, "sixty"),
            (Setting::MaxOutputBytes, "-1"),
            (Setting::DefaultCpu, "1K"),
            (Setting::DefaultMemory, "lots"),
            (Setting::AllowedImages, "busybox:1.36,UPPER case"),
            (Setting::SidecarImage, "a b"),
            (Setting::Kubectl, "bin/kubectl"),
            (Setting::MaxOutput, "0"),
            (Setting::Transport, "http"),
        ]),
        &Environment::default(),
    )
    .unwrap_err();
    let text = faults.to_string();
    for name in [
        "MCP_K8S_NAMESPACE",
        "MCP_K8S_DEFAULT_TIMEOUT_S",
        "MCP_K8S_MAX_OUTPUT_BYTES",
        "MCP_K8S_DEFAULT_CPU",
        "MCP_K8S_DEFAULT_MEMORY",
        "MCP_K8S_ALLOWED_IMAGES",
        "MCP_K8S_SIDECAR_IMAGE",
        "KUBEPERMIT_KUBECTL",
        "KUBEPERMIT_MAX_OUTPUT",
        "MCP_K8S_TRANSPORT",
        "KUBEPERMIT_AUDIT",
        "--namespace",
    ] {
        assert!(text.contains(name), "{name} is not in: {text}");
    }
    assert_eq!(faults.0.len(), 11, "{text}");
}

#[test]
fn a_default_above_the_ceiling_is_a_fault_of_whoever_set_it() {
    let set = [(Setting::MaxTimeoutS, "30"), (Setting::DefaultTimeoutS, "31")];
    let faults = Config::read(&typed(&set), &home()).unwrap_err();
    assert_eq!(faults.0.len(), 1);
    assert!(faults.0[0].contains("MCP_K8S_DEFAULT_TIMEOUT_S"), "{faults}");
    // Nobody asked for the default of 60.
    let config = Config::read(&typed(&[(Setting::MaxTimeoutS, "30")]), &home()).unwrap();
    assert_eq!(config.default_timeout_s, 30);
}

#[test]
fn a_file_is_below_what_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubepermit.yaml");
    std::fs::write(&file, "namespace: from-file\nmax_output_bytes: 7\n").unwrap();
    let mut flags = typed(&[(Setting::Namespace, "from-flag")]);
    flags.file = Some(file.clone());
    let config = Config::read(&flags, &home()).unwrap();
    assert_eq!(config.namespace, "from-flag");
    assert_eq!(config.max_output_bytes, 7);

    std::fs::write(&file, "namespaces: [x]\n").unwrap();
    let faults = Config::read(&flags, &home()).unwrap_err().to_string();
    assert!(faults.contains("kubepermit.yaml") && faults.contains("`namespaces`"), "{faults}");
}

#[test]
fn relative_state_directories_are_not_followed() {
    let environment =
        Environment { state_home: Some("state".into()), home: Some("home".into()), ..Environment::default() };
    let faults = Config::read(&typed(&[]), &environment).unwrap_err();
    assert!(faults.0[0].contains("KUBEPERMIT_AUDIT"), "{faults}");
}

#[test]
fn hosts_without_a_proxy_come_from_the_environment() {
    let environment = Environment { no_proxy: Some("10.0.0.1,.svc".to_owned()), ..home() };
    assert_eq!(Config::read(&typed(&[]), &environment).unwrap().no_proxy, "10.0.0.1,.svc");
}
