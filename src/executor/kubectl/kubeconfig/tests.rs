//! Kubeconfigs and what becomes of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Access, AccessError, ReadSource};
use crate::executor::kubectl::home::PrivateHome;

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn config(current: &str, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {current}\n\
         contexts: [{{name: a, context: {{cluster: c, user: u}}}}, {{name: b, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
    )
}

fn named(text: &str, context: Option<&str>) -> Result<Access, AccessError> {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "config", text);
    Access::resolve(&ReadSource::Named(path), context, &PrivateHome::new().unwrap())
}

const SERVER: &str = "{server: 'https://a.example'}";

#[test]
fn the_context_is_the_operators_or_the_current_one() {
    let text = config("a", SERVER, "{}");
    assert_eq!(named(&text, None).unwrap().context, "a");
    assert_eq!(named(&text, Some("b")).unwrap().context, "b");
    let error = named(&text, Some("z")).unwrap_err().to_string();
    assert!(error.contains("no context `z`; there are: a, b"), "{error}");
    let error = named(&config("''", SERVER, "{}"), None).unwrap_err();
    assert!(matches!(error, AccessError::NoContext { .. }), "{error}");
    let error = named(&config("a", SERVER, "{}").replace("name: c,", "name: d,"), None).unwrap_err();
    assert!(matches!(error, AccessError::Missing { what: "cluster", .. }), "{error}");
}

#[test]
fn a_server_that_is_not_authenticated_is_refused() {
    let insecure = "{server: 'https://a.example', insecure-skip-tls-verify: true}";
    let error = named(&config("a", insecure, "{}"), None).unwrap_err();
    assert!(matches!(error, AccessError::Insecure { .. }), "{error}");
}

#[test]
fn credentials_that_cannot_be_had_are_told() {
    let notices = |user: &str| named(&config("a", SERVER, user), None).unwrap().notices;
    assert!(notices("{token: t}").is_empty());
    assert!(notices("{exec: {command: /usr/bin/aws}}").is_empty());
    assert!(notices("{exec: {command: aws, apiVersion: x}}")[0].contains("`aws`"));
    assert!(notices("{auth-provider: {name: gcp}}")[0].contains("auth-provider"));
}

#[test]
fn a_file_that_others_may_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "config", &config("a", SERVER, "{}"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let access = Access::resolve(&ReadSource::Named(path), None, &PrivateHome::new().unwrap()).unwrap();
    assert!(access.notices[0].contains("mode 644"), "{:?}", access.notices);
}

#[test]
fn a_file_that_is_none_is_an_error_that_does_not_quote_it() {
    for text in ["a: [", "users: s3cret\n", "- s3cret", "current-context: a\ncurrent-context: s3cret\n"] {
        let error = named(text, None).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let home = PrivateHome::new().unwrap();
    let absent = ReadSource::Named(folder.path().join("absent"));
    assert!(matches!(Access::resolve(&absent, None, &home), Err(AccessError::File { .. })));
    let colon = ReadSource::Named(write(folder.path(), "a:b", &config("a", SERVER, "{}")));
    assert!(matches!(Access::resolve(&colon, None, &home), Err(AccessError::Colon { .. })));
}

#[test]
fn several_files_merge_and_absent_ones_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path(), "1", "contexts: [{name: x, context: {cluster: c, user: u}}]\n");
    let second = write(folder.path(), "2", &config("x", SERVER, "{}"));
    let files = vec![first.clone(), folder.path().join("absent"), second.clone()];
    let source = ReadSource::Ambient { service: None, files };
    let access = Access::resolve(&source, None, &PrivateHome::new().unwrap()).unwrap();
    assert_eq!(access.context, "x");
    assert_eq!(access.kubeconfig.to_str().unwrap(), format!("{}:{}", first.display(), second.display()));
}

#[test]
fn without_any_the_kubeconfig_leads_nowhere() {
    let source = ReadSource::Ambient { service: None, files: vec!["/nonexistent/config".into()] };
    for (context, wanted) in [(None, "kubepermit"), (Some("kind-lab"), "kind-lab")] {
        let home = PrivateHome::new().unwrap();
        let access = Access::resolve(&source, context, &home).unwrap();
        assert!(access.is_nothing);
        assert_eq!(access.context, wanted);
        let path = Path::new(&access.kubeconfig);
        assert!(path.starts_with(home.path()));
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("https://kubepermit.invalid"), "{text}");
        assert_eq!(
            Access::resolve(&ReadSource::Named(path.to_owned()), None, &home).unwrap().context,
            wanted
        );
    }
}

#[test]
fn in_a_pod_the_token_stays_in_its_file() {
    let home = PrivateHome::new().unwrap();
    let access = Access::in_cluster("[fd00::1]:443", None, &home).unwrap();
    let path = Path::new(&access.kubeconfig);
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["current-context"], access.context);
    // The places that the Kubernetes documentation names.
    let folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    let cluster = serde_json::json!({
        "server": "https://[fd00::1]:443", "certificate-authority": format!("{folder}/ca.crt"),
    });
    assert_eq!(document["clusters"][0]["cluster"], cluster);
    let user = serde_json::json!({ "tokenFile": format!("{folder}/token") });
    assert_eq!(document["users"][0]["user"], user);
}
