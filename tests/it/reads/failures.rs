//! Failed reads as a client sees them: a code, a sentence, what to do, and nothing of the rest.

use serde_json::json;

use super::{Stage, text};
use crate::session::{audit_records, kubepermit};

#[test]
fn a_failed_read_is_an_error_result_with_a_code_and_a_hint() {
    let stage = Stage::new(
        r#"echo 'E1130 21:00:32.1 4242 memcache.go:265] "Unhandled Error" err="token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"' >&2
case "$*" in
*=forbidden*) echo 'Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods" in API group "" in the namespace "forbidden"' >&2;;
*=absent*) echo 'Error from server (NotFound): namespaces "absent" not found' >&2;;
*=down*) echo 'The connection to the server 10.1.2.3:6443 was refused - did you specify the right host or port?' >&2;;
*=hostile*) printf 'Error from server (NotFound): pods "a\033]52;c;aGk=\007\342\200\256" not found\n' >&2;;
*=killed*) kill -9 $$;;
esac
exit 1"#,
    );
    let mut session = stage.session(&["--allow-namespaces", "*"]);
    for (namespace, code, part) in [
        ("forbidden", "kubectl.forbidden", "cannot list resource \"pods\""),
        ("absent", "kubectl.not_found", "namespaces \"absent\" not found"),
        ("down", "kubectl.unreachable", "the connection is refused"),
        ("hostile", "kubectl.not_found", "\\u{202e}"),
        ("killed", "kubectl.killed", "signal 9"),
    ] {
        let result = session.call("list_pods", json!({ "namespace": namespace }));
        let (is_error, message) = text(&result);
        assert!(is_error, "{message}");
        assert!(message.contains(&format!("[{code}]")) && message.contains(part), "{message}");
        for secret in ["eyJ", "10.1.2.3", "memcache", "\u{1b}", "\u{202e}", "\u{7}"] {
            assert!(!message.contains(secret), "{message:?}");
        }
        assert!(result.get("structuredContent").is_none());
        let document = &result["_meta"]["kubepermit/error"];
        assert_eq!(document["error"]["stage"], json!("executor"));
        assert_eq!(document["error"]["reasons"][0]["code"], json!(code));
        let id = document["decision_id"].clone();
        let records = audit_records(&stage.audit());
        let outcome =
            records.iter().find(|record| record["kind"] == json!("outcome") && record["decision_id"] == id);
        assert_eq!(outcome.unwrap()["outcome"]["reason"], json!(code));
    }
}

#[test]
fn a_kubeconfig_that_had_better_not_be_used_is_refused_with_its_reason() {
    let stage = Stage::new("echo started >>\"$LOG\"");
    let path = stage.home.path().join("kubeconfig");
    let config = |cluster: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {{token: s3cret}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
    };
    let ask = |more: &[&str]| {
        let mut arguments = vec!["--allow-namespaces", "dev", "--read-kubeconfig", path.to_str().unwrap()];
        arguments.extend(more);
        let mut session = stage.session(&arguments);
        text(&session.call("list_pods", json!({ "namespace": "dev" })))
    };
    config("{server: 'https://a.example', insecure-skip-tls-verify: true}");
    let (is_error, message) = ask(&[]);
    assert!(is_error && message.contains("[kubectl.kubeconfig]"), "{message}");
    assert!(message.contains("insecure-skip-tls-verify") && !message.contains("s3cret"), "{message}");
    config("{server: 'https://a.example'}");
    let (is_error, message) = ask(&["--context", "b"]);
    assert!(
        is_error && message.contains("[kubectl.context]") && message.contains("there are: a"),
        "{message}"
    );
    assert_eq!(stage.log(), "");
    assert!(!ask(&[]).0);
    assert_eq!(stage.log(), "started\n");
}

#[test]
fn at_the_command_line_a_failed_read_is_exit_code_1() {
    let stage =
        Stage::new("case \"$*\" in *=good*) echo fine;; *) echo 'error: something' >&2; exit 1;; esac");
    let call = |namespace: &str| {
        let output = kubepermit(stage.home.path())
            .env("PATH", stage.bin())
            .args([
                "call",
                "list_pods",
                &format!("{{\"namespace\":\"{namespace}\"}}"),
                "--allow-namespaces",
                "good,bad",
            ])
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    let (code, document) = call("good");
    assert_eq!((code, &document["output"]), (Some(0), &json!("fine\n")));
    let (code, document) = call("bad");
    assert_eq!((code, &document["error"]["reasons"][0]["code"]), (Some(1), &json!("kubectl.failed")));
    assert_eq!(call("ugly").0, Some(2));
}
