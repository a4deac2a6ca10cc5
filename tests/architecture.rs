//! The shape of the tree, held by tests: which module may name which, which outside crate may appear where,
//! how long a file may be, and what is deliberately absent. ARCHITECTURE.md tells why.
#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A top-level module and the modules of this crate that it may name. A row that is not used fails too.
const MAY_NAME: [(&str, &[&str]); 20] = [
    ("ids", &[]),
    ("strict", &[]),
    ("output", &[]),
    ("caller", &["ids"]),
    ("finding", &[]),
    ("refusal", &[]),
    ("schema", &["ids", "refusal"]),
    ("plan", &["ids", "refusal", "schema"]),
    ("policy", &["caller", "plan", "refusal", "schema", "strict"]),
    ("audit", &["caller", "ids", "refusal"]),
    ("executor", &["audit", "finding", "ids", "output", "plan", "policy", "strict"]),
    ("reply", &["executor", "ids", "refusal"]),
    ("pipeline", &["audit", "caller", "executor", "ids", "plan", "policy", "refusal", "reply", "schema"]),
    ("transport", &["audit", "caller", "executor", "pipeline", "refusal", "reply", "schema", "strict"]),
    ("embedded", &[]),
    ("config", &["plan", "strict"]),
    (
        "app",
        &[
            "audit", "caller", "config", "embedded", "executor", "finding", "pipeline", "plan", "policy",
            "schema",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "caller",
            "config",
            "executor",
            "finding",
            "output",
            "pipeline",
            "plan",
            "policy",
            "refusal",
            "reply",
            "shutdown",
            "strict",
            "telemetry",
            "transport",
        ],
    ),
    ("shutdown", &[]),
    ("telemetry", &[]),
];

/// Words that may appear only in some places: outside crates, and doors that only some may open.
const ONLY_IN: [(&str, &[&str]); 19] = [
    ("kube::", &["executor", "app"]),
    ("k8s_openapi::", &["plan", "executor", "embedded"]),
    ("axum::", &["embedded", "transport"]),
    ("hyper::", &["embedded", "transport"]),
    ("hyper_util::", &["embedded", "transport"]),
    ("tokio_tungstenite::", &["embedded"]),
    ("landlock::", &["embedded"]),
    ("seccompiler::", &["embedded"]),
    ("rmcp::", &["transport"]),
    ("regorus::", &["policy"]),
    ("jsonschema::", &["schema"]),
    ("clap::", &["cli", "main"]),
    ("anyhow::", &["app", "cli", "main"]),
    ("std::env::var", &["config"]),
    ("async fn", &["audit", "executor", "pipeline", "transport", "app", "cli", "embedded", "shutdown"]),
    ("Caller::over_stdio", &["transport"]),
    ("Caller::at_command_line", &["cli"]),
    ("ToolCall::new", &["schema"]),
    ("Verdict::new", &["policy"]),
];

/// Longest file without its tests, in lines.
const MOST_LINES: usize = 500;

struct Source {
    path: PathBuf,
    /// The top-level module that the file belongs to.
    module: String,
    /// The whole text.
    text: String,
    /// Without comments and without tests.
    code: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

/// Every file of src/ that is not test code.
fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut paths = Vec::new();
    files_below(&src, &mut paths);
    paths.retain(|path| !is_test_file(path.strip_prefix(&src).unwrap()));
    assert!(paths.len() > 30, "the tree was not found");
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(&src).unwrap();
            let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
            let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
            let code = without_tests(&text)
                .lines()
                .map(|line| line.split("//").next().unwrap_or_default())
                .collect::<Vec<_>>()
                .join("\n");
            Source { path, module, text, code }
        })
        .collect()
}

/// The text up to a `#[cfg(test)]` that stands at the start of a line: tests come last in a file.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]").map_or(text, |end| &text[..end])
}

/// The modules that a text names by `crate::name` or `crate::{name, …}`.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => {
                names.insert(word(rest));
            }
            Some(group) => {
                let mut depth = 0;
                let mut start = true;
                for (index, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && !c.is_whitespace() => {
                            names.insert(word(&group[index..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

#[test]
fn modules_name_only_what_the_table_allows() {
    let table: BTreeMap<&str, BTreeSet<&str>> =
        MAY_NAME.into_iter().map(|(module, names)| (module, names.iter().copied().collect())).collect();
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for source in sources() {
        if ["lib", "main"].contains(&source.module.as_str()) {
            continue;
        }
        let Some((module, allowed)) = table.get_key_value(source.module.as_str()) else {
            wrong.push(format!("`{}` has no row in MAY_NAME", source.module));
            continue;
        };
        for name in named(&source.code) {
            if name == *module {
                continue;
            }
            if allowed.contains(name.as_str()) {
                used.entry(module).or_default().insert(name);
            } else {
                wrong.push(format!("{} names crate::{name}", source.path.display()));
            }
        }
    }
    for (module, names) in &table {
        for name in names {
            if !used.get(module).is_some_and(|used| used.contains(*name)) {
                wrong.push(format!("MAY_NAME lets `{module}` name `{name}`, and it never does: remove it"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_cycle() {
    fn visit(module: &str, table: &BTreeMap<&str, &[&str]>, path: &mut Vec<String>) {
        assert!(!path.iter().any(|part| part == module), "a cycle: {path:?} -> {module}");
        path.push(module.to_owned());
        for next in table.get(module).copied().unwrap_or_default() {
            visit(next, table, path);
        }
        path.pop();
    }
    let table: BTreeMap<&str, &[&str]> = MAY_NAME.into_iter().collect();
    for module in table.keys() {
        visit(module, &table, &mut Vec::new());
    }
}

#[test]
fn outside_crates_and_narrow_doors_stay_where_they_belong() {
    let sources = sources();
    let mut wrong = Vec::new();
    for (word, places) in ONLY_IN {
        let mut seen = false;
        for source in sources.iter().filter(|source| has_word(&source.code, word)) {
            seen = true;
            if !places.contains(&source.module.as_str()) {
                wrong.push(format!("{} holds `{word}`, which belongs in {places:?}", source.path.display()));
            }
        }
        if !seen {
            wrong.push(format!("ONLY_IN guards `{word}`, and nothing uses it: remove it"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Whether `word` occurs in `code` other than as the end of a longer name (`tokio_kube::`).
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        !code[..at]
            .chars()
            .next_back()
            .is_some_and(|before| before.is_alphanumeric() || "_:".contains(before))
    })
}

#[test]
fn every_file_says_what_it_is_for_and_stays_short() {
    let mut wrong = Vec::new();
    let mut paths = Vec::new();
    files_below(&root().join("src"), &mut paths);
    files_below(&root().join("tests"), &mut paths);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.starts_with("//! ") {
            wrong.push(format!("{} does not open with `//!`", path.display()));
        }
        if path.file_name().is_some_and(|name| name == "mod.rs") {
            wrong.push(format!("{}: name it after its folder", path.display()));
        }
    }
    for source in sources() {
        let lines = without_tests(&source.text).lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{} has {lines} lines; the limit is {MOST_LINES}", source.path.display()));
        }
        if source.module == "main" && lines > 60 {
            wrong.push(format!("main.rs has {lines} lines; it only parses, calls and maps one error"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn nothing_else_stands_at_the_top() {
    let expected = BTreeSet::from([
        ".ci",
        ".git",
        ".github",
        ".gitignore",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "clippy.toml",
        "deny.toml",
        "deploy",
        "policies",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "schemas",
        "src",
        "target",
        "tests",
    ]);
    for entry in std::fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(expected.contains(name.as_str()), "`{name}` stands at the top level");
    }
}

/// What is not there: no shell between the gateway and a command, no `unsafe`, no second way to configure.
#[test]
fn what_must_be_absent_is_absent() {
    for source in sources() {
        for word in
            ["unsafe {", "unsafe fn", "set_var(", "libc::system", "use crate::*", "Command::new(\"sh\")"]
        {
            assert!(!source.code.contains(word), "{} holds `{word}`", source.path.display());
        }
    }
}

#[test]
fn the_word_finder_finds_words() {
    assert!(has_word("use kube::Api;", "kube::"));
    assert!(!has_word("use tokio_kube::Api;", "kube::"));
    let names = named("use crate::a::B; use crate::{b, c::{D, E}, f}; crate::g::h()");
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "f", "g"]);
}
