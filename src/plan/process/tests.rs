//! Argv, environment and wall clock; and that the kubelet's expansion gives the process what was judged.

use proptest::prelude::*;

use super::*;
use crate::plan::properties;

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn fields(result: Result<(), Vec<Reason>>) -> Vec<(String, String)> {
    match result {
        Ok(()) => Vec::new(),
        Err(reasons) => reasons.into_iter().map(|reason| (reason.code, reason.field)).collect(),
    }
}

fn pair(code: &str, field: &str) -> (String, String) {
    (code.to_owned(), field.to_owned())
}

#[test]
fn a_command_is_a_program_and_strings_that_exec_takes() {
    let longest = "a".repeat(131_071);
    for good in [vec!["sh"], vec!["sh", "-c", "echo \"$(date)\"\n"], vec!["sh", ""], vec!["echo", &longest]] {
        assert_eq!(fields(command(&strings(&good))), []);
    }
    let too_long = "a".repeat(131_072);
    let rows: [(&[&str], &[&str]); 5] = [
        (&[], &["/command"]),
        (&[""], &["/command/0"]),
        (&["", "a"], &["/command/0"]),
        (&["sh", "a\0b", "c\0"], &["/command/1", "/command/2"]),
        (&["sh", &too_long], &["/command/1"]),
    ];
    for (bad, expected) in rows {
        let expected: Vec<_> = expected.iter().map(|field| pair("command.invalid", field)).collect();
        assert_eq!(fields(command(&strings(bad))), expected);
    }
}

#[test]
fn environment_names_are_c_identifiers_outside_of_kubernetes_own() {
    let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    for name in ["A", "_", "a1", "PATH", "LD_PRELOAD", "KUBERNETES", "kubernetes_x", "MY_KUBERNETES_HOST"] {
        assert_eq!(fields(env(&one(name, "v=1\n"))), [], "{name}");
    }
    for (name, field) in [
        ("", "/env/"),
        ("1A", "/env/1A"),
        ("A-B", "/env/A-B"),
        ("A.B", "/env/A.B"),
        ("A B", "/env/A B"),
        ("A=B", "/env/A=B"),
        ("A/~B", "/env/A~1~0B"),
        ("\u{c4}", "/env/\u{c4}"),
        ("A\0", "/env/A\0"),
        ("KUBERNETES_SERVICE_HOST", "/env/KUBERNETES_SERVICE_HOST"),
        ("KUBERNETES_", "/env/KUBERNETES_"),
    ] {
        assert_eq!(fields(env(&one(name, ""))), [pair("env.name", field)], "{name:?}");
    }
    assert_eq!(fields(env(&one("A", "x\0"))), [pair("env.value", "/env/A")]);
    assert_eq!(fields(env(&one("A", &"x".repeat(131_069)))), []);
    assert_eq!(fields(env(&one("A", &"x".repeat(131_070)))), [pair("env.value", "/env/A")]);
}

#[test]
fn an_absent_timeout_and_zero_mean_the_default() {
    for (requested, seconds) in [(None, 60), (Some(0), 60), (Some(1), 1), (Some(86_400), 86_400)] {
        assert_eq!(timeout(requested, 60), Ok(Duration::from_secs(seconds)));
    }
    // The pod's deadline is the command's time and 420 s for the rest.
    assert!(timeout(Some(2_147_483_647 - 420), 60).is_ok());
    for requested in [2_147_483_647 - 419, u64::MAX] {
        let reason = timeout(Some(requested), 60).unwrap_err();
        assert_eq!((reason.code.as_str(), reason.field.as_str()), ("timeout.invalid", "/timeout_s"));
    }
}

#[test]
fn only_dollar_signs_that_the_kubelet_reads_are_doubled() {
    for (text, escaped) in [
        ("", ""),
        ("echo $HOME ${HOME} $", "echo $HOME ${HOME} $"),
        ("echo $(date)", "echo $$(date)"),
        ("echo $$", "echo $$$"),
        ("$$(A)", "$$$$(A)"),
        ("$($", "$$($"),
    ] {
        assert_eq!(literal(text), escaped, "{text}");
    }
}

/// The expansion as the Kubernetes API reference describes it, every variable being defined as `EXPANDED`.
pub(in crate::plan) fn expand(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        rest = if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            after
        } else if let Some((_, after)) = after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            out += "EXPANDED";
            after
        } else {
            out.push('$');
            after
        };
    }
    out + rest
}

proptest! {
    #![proptest_config(properties(1000))]

    #[test]
    fn the_kubelet_gives_the_process_what_was_written(text in "[$()A ]{0,12}|.{0,20}") {
        prop_assert_eq!(expand(&literal(&text)), text);
    }
}
