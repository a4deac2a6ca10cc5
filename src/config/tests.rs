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
    assert_eq!(config.max_concurrent, 10);
    assert_eq!(config.clone, CloneConfig::default());
    assert_eq!(config.cache, None);
    assert!(config.job_extra_env.is_empty());
    assert_eq!(config.addr, ":8080");
    assert_eq!(config.auth_token, None);
    assert!(config.notices.is_empty());
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
    assert_eq!(config.clone.hosts, Some(vec![]), "set but empty lists nothing");
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
            (Setting::MaxConcurrent, "0"),
            (Setting::CloneImage, "a b"),
            (Setting::CloneSecret, "No_Secret"),
            (Setting::CloneHosts, "github.com,https://gitlab.com"),
            (Setting::CachePvc, "a/b"),
            (Setting::CacheMountPath, "go/pkg"),
            (Setting::JobExtraEnv, "{"),
            (Setting::Addr, "8080"),
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
        "MCP_K8S_MAX_CONCURRENT",
        "MCP_K8S_CLONE_IMAGE",
        "MCP_K8S_CLONE_SECRET",
        "KUBEPERMIT_CLONE_HOSTS",
        "MCP_K8S_CACHE_PVC",
        "MCP_K8S_CACHE_MOUNT_PATH",
        "MCP_K8S_JOB_EXTRA_ENV",
        "MCP_K8S_ADDR",
        "--namespace",
    ] {
        assert!(text.contains(name), "{name} is not in: {text}");
    }
    assert_eq!(faults.0.len(), 19, "{text}");
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

/// One setting, and the fault that it has; `None` where it is good.
fn fault_of(set: &[(Setting, &str)]) -> Option<String> {
    Config::read(&typed(set), &home()).err().map(|faults| faults.to_string())
}

#[test]
fn a_cache_needs_its_claim_and_its_place() {
    let claim = (Setting::CachePvc, "go-modules");
    let both = Config::read(&typed(&[claim, (Setting::CacheMountPath, "/go/pkg/mod/")]), &home()).unwrap();
    assert_eq!(
        both.cache,
        Some(CacheConfig { claim: "go-modules".to_owned(), mount_path: "/go/pkg/mod".to_owned() })
    );
    let alone = fault_of(&[claim]).unwrap();
    assert!(alone.contains("MCP_K8S_CACHE_MOUNT_PATH (--cache-mount-path)"), "{alone}");
    let alone = fault_of(&[(Setting::CacheMountPath, "/cache")]).unwrap();
    assert!(alone.contains("MCP_K8S_CACHE_PVC (--cache-pvc)"), "{alone}");
    for place in ["/", "/tmp", "/work", "/work/cache", "/proc/x", "/kubepermit", "/usr/lib", "/a/../b", "a"] {
        let fault = fault_of(&[claim, (Setting::CacheMountPath, place)]);
        assert!(fault.is_some_and(|fault| fault.contains("MCP_K8S_CACHE_MOUNT_PATH")), "{place}");
    }
}

#[test]
fn half_a_cloner_is_said_and_is_no_fault() {
    let with = |set| Config::read(&typed(&[set]), &home()).unwrap().notices.join(" ");
    let image = with((Setting::CloneImage, "alpine/git:2.49"));
    assert!(image.contains("MCP_K8S_CLONE_IMAGE is set without MCP_K8S_CLONE_SECRET"), "{image}");
    let secret = with((Setting::CloneSecret, "git-tokens"));
    assert!(secret.contains("MCP_K8S_CLONE_SECRET is set without MCP_K8S_CLONE_IMAGE"), "{secret}");
}

#[test]
fn an_environment_is_a_json_object_of_texts_and_its_faults_quote_no_value() {
    let of = |text| Config::read(&typed(&[(Setting::JobExtraEnv, text)]), &home()).unwrap().job_extra_env;
    assert_eq!(of(r#"{"GOPROXY":"https://proxy","EMPTY":""}"#)["GOPROXY"], "https://proxy");
    for bad in [
        r#"["s3cret"]"#,
        r#"{"A":{"b":"s3cret"}}"#,
        r#"{"A":"s3cret","A":"s3cret"}"#,
        r#"{"1A":"s3cret"}"#,
        r#"{"KUBERNETES_PORT":"s3cret"}"#,
        r#"{"A":"s3cret\u0000"}"#,
        r#"{"A":1}"#,
        "A=s3cret",
    ] {
        let fault = fault_of(&[(Setting::JobExtraEnv, bad)]).unwrap();
        assert!(fault.contains("MCP_K8S_JOB_EXTRA_ENV"), "{bad}: {fault}");
        assert!(!fault.contains("s3cret"), "{bad}: {fault}");
    }
}

#[test]
fn an_environment_in_the_file_is_a_map() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubepermit.yaml");
    std::fs::write(&file, "job_extra_env: {GOPROXY: off}\nclone_hosts: [github.com, git.example.com]\n")
        .unwrap();
    let typed = Typed { file: Some(file), ..Typed::default() };
    let config = Config::read(&typed, &home()).unwrap();
    assert_eq!(config.job_extra_env["GOPROXY"], "off");
    assert_eq!(config.clone.hosts, Some(vec!["github.com".to_owned(), "git.example.com".to_owned()]));
}

#[test]
fn what_only_http_uses_is_said_and_never_shown() {
    let set = [(Setting::Addr, "127.0.0.1:9000"), (Setting::AuthToken, "s3cret")];
    let typed = typed(&set);
    let config = Config::read(&typed, &home()).unwrap();
    assert_eq!(config.addr, "127.0.0.1:9000");
    assert_eq!(config.notices.len(), 2, "{:?}", config.notices);
    assert!(config.notices.iter().all(|notice| notice.contains("no effect with stdio")));
    assert!(!format!("{config:?}{typed:?}").contains("s3cret"));
    for address in ["localhost:1", "[::1]:65535", ":0"] {
        assert_eq!(fault_of(&[(Setting::Addr, address)]), None, "{address}");
    }
    for address in ["localhost", ":", "::1:80", ":65536", "a b:1", "[x]:1", ":+1"] {
        assert!(fault_of(&[(Setting::Addr, address)]).is_some(), "{address}");
    }
}
