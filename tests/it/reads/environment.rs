//! What kubectl is given, and what no environment of this program can change.

use serde_json::json;

use super::{Stage, text};
use crate::session::Session;

/// Prints everything about itself that a parent decides.
const MIRROR: &str = r#"
echo "ENV"; /usr/bin/env | /usr/bin/sort | /usr/bin/grep -v -e '^_=' -e '^PWD=' -e '^SHLVL=' -e '^OLDPWD='
echo "CWD $(/bin/pwd)"; echo "CWD FILES $(/bin/ls -A . | /usr/bin/wc -l)"
echo "HOME FILES $(/bin/ls -A "$HOME" | /usr/bin/wc -l)"; echo "HOME MODE $(/usr/bin/stat -c %a "$HOME")"
echo "STDIN $(/usr/bin/wc -c)"; echo "STDIN IS $(/usr/bin/readlink /proc/$$/fd/0)"
echo "GROUP $(/usr/bin/cut -d' ' -f5 /proc/$$/stat) OWN $$"
echo "CONFIG MODE $(/usr/bin/stat -c %a "$KUBECONFIG")"; /bin/cat "$KUBECONFIG"; echo
echo "ARGV $*"
echo "DESCRIPTORS"; exec /bin/ls /proc/self/fd
"#;

/// Descriptors that whoever started the tests left open for every program. Nobody could close them here without
/// unsafe code, and the tests are no fault of theirs.
fn left_open() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap() {
        let entry = entry.unwrap();
        let about = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
        // O_CLOEXEC
        if flags.is_some_and(|flags| flags & 0o2_000_000 == 0) {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

fn value<'a>(output: &'a str, name: &str) -> &'a str {
    let line = output.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name} is not in: {output}")).trim()
}

#[test]
fn kubectl_is_given_exactly_what_the_contract_says() {
    let stage = Stage::new(MIRROR);
    let mut command = stage.server(&["--allow-namespaces", "dev"]);
    let hostile = [
        ("KUBERC", "/tmp/evil"),
        ("KUBERNETES_MASTER", "http://127.0.0.1:9"),
        ("HTTPS_PROXY", "http://127.0.0.1:9"),
        ("KUBECTL_EXTERNAL_DIFF", "/bin/false"),
        ("KUBECTL_KUBERC", "true"),
        ("LD_PRELOAD", "/nonexistent/evil.so"),
        ("SECRET_OF_THE_SERVER", "hunter2"),
        ("TMPDIR", "/tmp"),
    ];
    command.envs(hostile);
    let mut session = Session::spawn(command);
    session.initialize("2025-11-25");
    let (is_error, output) = text(&session.call("list_pods", json!({ "namespace": "dev" })));
    assert!(!is_error, "{output}");

    let (environment, _) = output.split_once("CWD ").unwrap();
    let names: Vec<&str> = environment.lines().skip(1).map(|line| line.split('=').next().unwrap()).collect();
    assert_eq!(names, ["HOME", "KUBECONFIG", "KUBECTL_KUBERC", "LC_ALL", "PATH", "TMPDIR"], "{environment}");
    assert_eq!(value(&output, "PATH="), "/nonexistent");
    assert_eq!(value(&output, "KUBECTL_KUBERC="), "false");
    assert_eq!(value(&output, "LC_ALL="), "C");
    let home = value(&output, "HOME=");
    let root = home.strip_suffix("/home").unwrap();
    assert_ne!(home, stage.home.path().to_str().unwrap());
    assert_eq!(value(&output, "TMPDIR="), format!("{root}/tmp"));
    assert_eq!(
        value(&output, "CWD /").trim_start_matches('/'),
        format!("{root}/work").trim_start_matches('/')
    );
    assert_eq!((value(&output, "CWD FILES"), value(&output, "HOME FILES")), ("0", "0"));
    assert_eq!((value(&output, "HOME MODE"), value(&output, "CONFIG MODE")), ("700", "600"));
    assert_eq!((value(&output, "STDIN "), value(&output, "STDIN IS")), ("0", "/dev/null"));
    // `ls` itself holds the folder open, as the first that is free.
    let (_, descriptors) = output.split_once("DESCRIPTORS\n").unwrap();
    let left_open = left_open();
    let more: Vec<&str> = descriptors.lines().filter(|fd| !left_open.iter().any(|left| left == fd)).collect();
    assert_eq!(more.len(), 1, "{descriptors}");
    let (group, own) = value(&output, "GROUP").split_once(" OWN ").unwrap();
    assert_eq!(group, own, "it is not in a group of its own");
    assert!(output.contains("https://kubepermit.invalid"), "{output}");
    let argv = value(&output, "ARGV");
    assert!(argv.starts_with("get --context=") && argv.ends_with("-- pods"), "{argv}");
    assert!(argv.contains(&format!("--cache-dir={root}/cache")), "{argv}");
    assert!(!output.contains("hunter2"));
    let root = root.to_owned();
    drop(session);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!std::path::Path::new(&root).exists(), "the private folder is left behind");
}

#[test]
fn a_plugin_or_another_kubectl_in_the_way_is_not_run() {
    let stage = Stage::new("echo real >>\"$LOG\"; echo real");
    let trap = format!("echo trap >>'{}'", stage.home.path().join("log").display());
    for name in ["kubectl-get", "kubectl-foo", "kubectl_complete-get", "aws", "less", "git"] {
        stage.program(name, &trap);
    }
    let mut session = stage.session(&["--allow-namespaces", "dev"]);
    for _ in 0..3 {
        session.call("list_pods", json!({ "namespace": "dev" }));
    }
    assert_eq!(stage.log(), "real\nreal\nreal\n");
}

#[test]
fn no_text_of_a_caller_becomes_a_flag_or_starts_a_process() {
    let stage = Stage::new("echo \"$*\" >>\"$LOG\"");
    let mut session = stage.session(&["--allow-namespaces", "*"]);
    let long = "a".repeat(1024 * 1024);
    let hostile = [
        "--server=http://127.0.0.1:1",
        "-shttp://127.0.0.1:1",
        "-AsX",
        "-oyaml",
        "-",
        "--",
        "a;id",
        "$(id)",
        "a\0b",
        "a\nb",
        "a\u{202e}b",
        "x--kuberc=/tmp/x y",
        "",
        " ",
        "..",
        "--raw=/api",
        long.as_str(),
    ];
    // Every text field of every read; fields of a fixed set of values are in it.
    let tools = session.request("tools/list", json!({}));
    let mut tried = 0;
    for tool in tools["result"]["tools"].as_array().unwrap() {
        if tool["annotations"]["readOnlyHint"] != json!(true) {
            continue;
        }
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let valid = |name: &str, schema: &serde_json::Value| match (name, schema.get("enum")) {
            (_, Some(values)) => values[0].clone(),
            ("selector", _) => json!("a=b"),
            ("field_selector", _) => json!("status.phase=Running"),
            _ => json!("web"),
        };
        for (field, schema) in properties.iter().filter(|(_, schema)| schema["type"] == json!("string")) {
            for value in hostile {
                let mut arguments = serde_json::Map::new();
                for name in tool["inputSchema"]["required"].as_array().unwrap() {
                    let name = name.as_str().unwrap();
                    arguments.insert(name.to_owned(), valid(name, &properties[name]));
                }
                arguments.insert(field.clone(), json!(value));
                let result = session.call(tool["name"].as_str().unwrap(), json!(arguments));
                assert!(text(&result).0, "{} took {field} = {value:.50}", tool["name"]);
                tried += 1;
                assert!(!schema.is_null());
            }
        }
    }
    assert!(tried >= 10 * hostile.len(), "{tried}");
    assert_eq!(stage.log(), "", "kubectl was started");
}
