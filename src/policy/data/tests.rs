//! What data.yaml may say, and what the rules see of it.

use super::*;

const SHIPPED: &str = include_str!("../../../policies/data.yaml");

fn parse(text: &str, overlay: &Overlay) -> Result<Config, LoadError> {
    Config::parse(text, overlay)
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// The shipped file with one line changed.
fn edited(from: &str, to: &str) -> String {
    assert!(SHIPPED.contains(from), "{from}");
    SHIPPED.replacen(from, to, 1)
}

#[test]
fn the_shipped_ceilings_are_those_of_the_design() {
    let config = parse(SHIPPED, &Overlay::default()).unwrap();
    let forbidden = config.document["reads"]["forbidden_flags"].clone();
    let expected = json!({
        "images": {},
        "images_shown": [],
        "jobs": { "namespaces": { "mcp-ephemeral": {} }, "namespaces_shown": ["mcp-ephemeral"], "require_limits": false },
        "resources": {
            "max_cpu": "4", "max_cpu_millis": 4000,
            "max_memory": "4Gi", "max_memory_bytes": 4_294_967_296_u64,
        },
        "timeouts": { "max_s": 600 },
        "files": { "max_count": 100, "max_bytes": 10_485_760 },
        "env": { "reserved": {}, "reserved_prefixes": ["KUBEPERMIT_"] },
        "reads": {
            "namespaces": {},
            "verbs": {
                "get": {}, "describe": {}, "logs": {}, "top": {}, "version": {}, "api-resources": {}, "explain": {},
            },
            "forbidden_flags": forbidden,
        },
        "clone": { "hosts": {}, "submodules": false },
        "cache": { "access": "write" },
        "pod": { "profile": "restricted" },
        "limits": { "jobs_per_caller": null },
        "roles": {},
        "site": {},
    });
    // The list of the issue that asked for it; the rest is in data.yaml with its reasons.
    for flag in ["raw", "kubeconfig", "token", "server", "as", "as-group", "as-uid", "exec"] {
        assert_eq!(forbidden[flag], json!({}), "{flag}");
    }
    assert_eq!(config.document, expected);
    assert_eq!(config.pod_profile, PodProfile::Restricted);
}

#[test]
fn images_are_listed_by_their_normal_form() {
    let text = edited("  images: []", "  images: [busybox:1.36, registry.example.com:5000/team/tool]");
    let config = parse(&text, &Overlay::default()).unwrap();
    assert_eq!(
        config.document["images"],
        json!({ "docker.io/library/busybox:1.36": {}, "registry.example.com:5000/team/tool:latest": {} })
    );
    assert_eq!(
        config.document["images_shown"],
        json!(["busybox:1.36", "registry.example.com:5000/team/tool:latest"])
    );
}

#[test]
fn a_set_list_replaces_and_an_empty_one_means_nothing() {
    let text = edited("  images: []", "  images: [busybox:1.36]").replacen(
        "roles: {}",
        "roles: {builder: {images: [golang:1.26, busybox:1.36]}, reader: {}}",
        1,
    );
    let images = |overlay: &Overlay| {
        let config = parse(&text, overlay).unwrap().document;
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        (keys(&config["images"]), keys(&config["roles"]["builder"]["images"]))
    };
    let busybox = "docker.io/library/busybox:1.36".to_owned();
    let golang = "docker.io/library/golang:1.26".to_owned();
    let alpine = "docker.io/library/alpine:3".to_owned();
    // A role's list holds what the list for everybody does not.
    assert_eq!(images(&Overlay::default()), (vec![busybox.clone()], vec![golang.clone()]));

    let extra_images = strings(&["alpine:3"]);
    let extra = Overlay { extra_images: extra_images.clone(), ..Overlay::default() };
    assert_eq!(images(&extra), (vec![alpine.clone(), busybox], vec![golang]));

    let set = Overlay { images: Some(strings(&["alpine:3"])), ..Overlay::default() };
    assert_eq!(images(&set), (vec![alpine], vec![]));
    let empty = Overlay { images: Some(vec![]), extra_images, ..Overlay::default() };
    assert_eq!(images(&empty), (vec![], vec![]));
}

#[test]
fn namespaces_and_the_time_ceiling_can_be_laid_over() {
    let of = |overlay: Overlay| parse(SHIPPED, &overlay).unwrap().document;
    let set = of(Overlay { job_namespaces: Some(strings(&["batch"])), ..Overlay::default() });
    assert_eq!(set["jobs"]["namespaces"], json!({ "batch": {} }));
    let empty = of(Overlay { job_namespaces: Some(vec![]), ..Overlay::default() });
    assert_eq!(empty["jobs"]["namespaces"], json!({}));
    // The lower holds, whichever it is.
    for (set, holds) in [(30, 30), (600, 600), (3600, 600)] {
        let config = of(Overlay { max_timeout_s: Some(set), ..Overlay::default() });
        assert_eq!(config["timeouts"]["max_s"], holds);
    }
}

#[test]
fn namespaces_for_reads_can_be_laid_over() {
    let text = edited("    namespaces: []", "    namespaces: [dev]").replacen(
        "roles: {}",
        "roles: {builder: {read_namespaces: [build]}, admin: {read_namespaces: [\"*\"]}}",
        1,
    );
    let of = |overlay: Overlay| {
        let config = parse(&text, &overlay).unwrap();
        let roles = &config.document["roles"];
        let lists = [&config.document["reads"]["namespaces"], &roles["builder"]["read_namespaces"]];
        let admin = roles["admin"]["read_namespaces"].clone();
        (lists.map(Value::clone), admin)
    };
    let own = ([json!({ "dev": {} }), json!({ "build": {} })], json!({ "*": {} }));
    assert_eq!(of(Overlay::default()), own);

    let extra_read_namespaces = strings(&["job-pods"]);
    let extra = Overlay { extra_read_namespaces: extra_read_namespaces.clone(), ..Overlay::default() };
    assert_eq!(of(extra).0[0], json!({ "dev": {}, "job-pods": {} }));

    // What is set is the whole truth.
    let set = |names: &[&str]| Overlay {
        read_namespaces: Some(strings(names)),
        extra_read_namespaces: extra_read_namespaces.clone(),
        ..Overlay::default()
    };
    assert_eq!(of(set(&["prod"])), ([json!({ "prod": {} }), json!({})], json!({})));
    assert_eq!(of(set(&[])), ([json!({}), json!({})], json!({})));

    let error = parse(SHIPPED, &set(&["a b"])).unwrap_err();
    assert_eq!(error.to_string(), "the configured namespaces for reads: `a b` is not a namespace's name");
}

#[test]
fn quantities_become_integers() {
    for (written, millis) in [("\"4\"", 4000), ("4", 4000), ("500m", 500), ("0.5", 500), ("1.5", 1500)] {
        let config =
            parse(&edited("max_cpu: \"4\"", &format!("max_cpu: {written}")), &Overlay::default()).unwrap();
        assert_eq!(config.document["resources"]["max_cpu_millis"], millis, "{written}");
    }
    for (written, bytes) in [("4Gi", 1_u64 << 32), ("1G", 1_000_000_000), ("512Mi", 1 << 29), ("1024", 1024)]
    {
        let config =
            parse(&edited("max_memory: 4Gi", &format!("max_memory: {written}")), &Overlay::default())
                .unwrap();
        assert_eq!(config.document["resources"]["max_memory_bytes"], bytes, "{written}");
    }
}

#[test]
fn reserved_names_and_prefixes_are_told_apart() {
    let text = edited("[\"KUBEPERMIT_*\"]", "[GOPROXY, \"AWS_*\", LD_PRELOAD]");
    let config = parse(&text, &Overlay::default()).unwrap();
    assert_eq!(
        config.document["env"],
        json!({ "reserved": { "GOPROXY": {}, "LD_PRELOAD": {} }, "reserved_prefixes": ["AWS_"] })
    );
}

#[test]
fn a_mistake_is_refused_and_named() {
    // (what is there, what is written instead, what the error must say)
    let cases = [
        ("  images: []", "  images: [Busybox]", "config.images: image `Busybox`"),
        ("  images: []", "  images: busybox:1.36", "config.images"),
        ("  images: []", "  image: []", "`image`"),
        ("  images: []", "", "`images`"),
        ("  images: []", "  images: []\n  images: [evil]", "config: key `images` is written twice"),
        (
            "    max_s: 600",
            "    max_s: 600\n    max_s: 9999",
            "config.timeouts: key `max_s` is written twice",
        ),
        ("    max_s: 600", "    max_s: -1", "config.timeouts.max_s"),
        ("    max_s: 600", "    max_s: ten", "config.timeouts.max_s"),
        ("    max_s: 600", "    max_s: 0", "config.timeouts.max_s"),
        ("max_cpu: \"4\"", "max_cpu: 4 cores", "config.resources.max_cpu"),
        ("max_cpu: \"4\"", "max_cpu: [4]", "config.resources.max_cpu"),
        ("max_memory: 4Gi", "max_memory: 4GiB", "config.resources.max_memory"),
        ("max_bytes: 10Mi", "max_bytes: -1", "config.files.max_bytes"),
        ("[mcp-ephemeral]", "[Kube_System]", "config.jobs.namespaces: `Kube_System`"),
        ("require_limits: false", "require_limits: no", "config.jobs.require_limits"),
        ("[\"KUBEPERMIT_*\"]", "[\"*\"]", "config.env.reserved: `*`"),
        ("[\"KUBEPERMIT_*\"]", "[\"A*B\"]", "config.env.reserved: `A*B`"),
        ("profile: restricted", "profile: privileged", "config.pod.profile"),
        ("roles: {}", "roles: {builder: {images: [x y]}}", "config.roles.builder.images: image `x y`"),
        ("roles: {}", "roles: {builder: {namespaces: [x]}}", "`namespaces`"),
        (
            "    hosts: []",
            "    hosts: [https://github.com]",
            "config.clone.hosts: `https://github.com` is a URL",
        ),
        ("    hosts: []", "    hosts: ['*.github.com']", "config.clone.hosts: `*.github.com`"),
        ("    hosts: []", "    hosts: [10.0.0.1]", "config.clone.hosts: `10.0.0.1` has an IP address"),
        ("roles: {}", "roles: {builder: {clone_hosts: [a b]}}", "config.roles.builder.clone_hosts: `a b`"),
        ("access: write", "access: maybe", "config.cache.access"),
        (
            "roles: {}",
            "roles: {builder: {read_namespaces: [X]}}",
            "config.roles.builder.read_namespaces: `X`",
        ),
        ("    namespaces: []", "    namespaces: [dev, \"d*\"]", "config.reads.namespaces: `d*`"),
        ("    namespaces: []", "    namespaces: dev", "config.reads.namespaces"),
        ("    verbs: [get,", "    verbs: [delete,", "config.reads.verbs: `delete`"),
        ("    verbs: [get,", "    verbs: [GET,", "config.reads.verbs: `GET`"),
        ("      - --server", "      - --server=x", "config.reads.forbidden_flags: `--server=x`"),
        ("      - --server", "      - -s x", "config.reads.forbidden_flags: `-s x`"),
        ("      - --server", "      - --AS", "config.reads.forbidden_flags: `--AS`"),
        (
            "roles: {}",
            "roles: {a: {images: []}, a: {images: [evil]}}",
            "config.roles: key `a` is written twice",
        ),
        (
            "  limits: {}",
            "  limits: {jobs_per_caller: 0}",
            "config.limits.jobs_per_caller: it must be at least 1",
        ),
        ("  limits: {}", "  limits: {jobs_per_caller: many}", "config.limits.jobs_per_caller"),
        (
            "roles: {}",
            "roles: {a: {jobs_per_caller: 0}}",
            "config.roles.a.jobs_per_caller: it must be at least 1",
        ),
        ("site: {}", "site: {a: {b: [{c: 1, c: 2}]}}", "config.site.a.b[0]: key `c` is written twice"),
        ("site: {}", "site: {a: !secret x}", "YAML tag"),
        ("config:", "kubepermit: {decision: {allow: true}}\nconfig:", "`kubepermit`"),
        ("config:", "---\nconfig: {}\n---\nconfig:", "more than one document"),
        ("site: {}", "site: {", "data.yaml:"),
    ];
    for (from, to, says) in cases {
        let error = parse(&edited(from, to), &Overlay::default()).unwrap_err();
        let LoadError::Rejected { at, problem: Problem::Data(_) } = &error else { panic!("{error:?}") };
        assert_eq!(at.file, "data.yaml");
        assert!(error.to_string().contains(says), "{to}: {error}");
    }
    assert!(parse("", &Overlay::default()).is_err());
}

#[test]
fn the_number_of_jobs_is_optional_and_a_role_may_raise_it() {
    let text = edited("  limits: {}", "  limits: {jobs_per_caller: 2}").replacen(
        "roles: {}",
        "roles: {builder: {jobs_per_caller: 8}, reader: {}}",
        1,
    );
    let config = parse(&text, &Overlay::default()).unwrap();
    assert_eq!(config.document["limits"], json!({ "jobs_per_caller": 2 }));
    assert_eq!(config.document["roles"]["builder"]["jobs_per_caller"], json!(8));
    assert_eq!(config.document["roles"]["reader"]["jobs_per_caller"], Value::Null);
    let without = parse(&edited("  limits: {}\n", ""), &Overlay::default()).unwrap();
    assert_eq!(without.document["limits"], json!({ "jobs_per_caller": null }));
}

#[test]
fn a_repeated_key_is_named_with_its_line() {
    let error = parse("config:\n  site:\n    a: 1\n    b: 2\n    a: 3\n", &Overlay::default()).unwrap_err();
    assert_eq!(error.to_string(), "data.yaml:3: config.site: key `a` is written twice");
}

#[test]
fn a_mistake_in_what_is_laid_over_names_the_setting() {
    let images = Overlay { images: Some(strings(&["Busybox"])), ..Overlay::default() };
    let error = parse(SHIPPED, &images).unwrap_err();
    assert!(error.to_string().starts_with("the configured images: image `Busybox`"), "{error}");
    let namespaces = Overlay { job_namespaces: Some(strings(&[""])), ..Overlay::default() };
    let error = parse(SHIPPED, &namespaces).unwrap_err();
    assert_eq!(error.to_string(), "the configured job namespaces: `` is not a namespace's name");
}

#[test]
fn hints_name_ten_of_a_long_list() {
    let images = (0..1000).map(|i| format!("i:{i}")).collect();
    let overlay = Overlay { images: Some(images), ..Overlay::default() };
    let config = parse(SHIPPED, &overlay).unwrap();
    assert_eq!(config.document["images"].as_object().unwrap().len(), 1000);
    assert_eq!(config.document["images_shown"].as_array().unwrap().len(), 10);
}

#[test]
fn hosts_are_listed_by_port_and_the_beginnings_of_paths() {
    let text =
        edited("    hosts: []", "    hosts: [GitHub.com/my-org, github.com/other/tool.git, 'git.a:8443']")
            .replacen("roles: {}", "roles: {builder: {clone_hosts: [gitlab.com], cache: read}}", 1);
    let config = parse(&text, &Overlay::default()).unwrap();
    assert_eq!(
        config.document["clone"]["hosts"],
        json!({ "git.a:8443": [""], "github.com:443": ["my-org/", "other/tool/"] })
    );
    let builder = &config.document["roles"]["builder"];
    assert_eq!(
        (&builder["clone_hosts"], &builder["cache"]),
        (&json!({ "gitlab.com:443": [""] }), &json!("read"))
    );

    let set = Overlay { clone_hosts: Some(vec!["a.example".to_owned()]), ..Overlay::default() };
    let config = parse(&text, &set).unwrap();
    assert_eq!(config.document["clone"]["hosts"], json!({ "a.example:443": [""] }));
    assert_eq!(
        config.document["roles"]["builder"]["clone_hosts"],
        json!({}),
        "what is set is the whole truth"
    );
    let none = Overlay { clone_hosts: Some(Vec::new()), ..Overlay::default() };
    assert_eq!(parse(&text, &none).unwrap().document["clone"]["hosts"], json!({}));
}
