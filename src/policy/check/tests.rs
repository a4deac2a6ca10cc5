//! A bad twin for each hole, next to a good one that differs in that alone.

use crate::policy::bundle::Bundle;
use crate::policy::error::{LoadError, Problem};
use crate::policy::{Overlay, Policy};

const DATA: &[u8] = include_bytes!("../../../policies/data.yaml");
const MAIN: (&str, &str) = ("main.rego", "package kubepermit\n\ndecision := 1\n");

/// Loads `files` beside a decision and the shipped data.
fn load(files: &[(&str, &str)]) -> Result<(), LoadError> {
    let files = files.iter().chain([&MAIN]).map(|(path, text)| (*path, text.as_bytes()));
    let bundle = Bundle::from_files(files.chain([("data.yaml", DATA)]))?;
    Policy::from_bundle(&bundle, &Overlay::default())?;
    crate::policy::test::run_bundle(&bundle).map(drop)
}

#[track_caller]
fn good(files: &[(&str, &str)]) {
    if let Err(error) = load(files) {
        panic!("{error}");
    }
}

#[track_caller]
fn bad(files: &[(&str, &str)], at: &str, expected: impl Fn(&Problem) -> bool) {
    match load(files) {
        Err(LoadError::Rejected { at: found, problem }) => {
            assert!(expected(&problem), "{problem:?}");
            assert_eq!(found.to_string(), at, "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn recursive(rules: &str, at: &str, way: &str) {
    let rules = format!("package kubepermit\n{rules}");
    bad(&[("a.rego", &rules)], at, |problem| {
        assert_eq!(*problem, Problem::Recursion { path: way.to_owned() });
        true
    });
}

#[test]
fn a_rule_may_not_reach_itself() {
    recursive("a if a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a if b\nb if a\n", "a.rego:2", "kubepermit.a -> kubepermit.b -> kubepermit.a");
    recursive(
        "a if b\nb if c\nc if data.kubepermit.b\n",
        "a.rego:3",
        "kubepermit.b -> kubepermit.c -> kubepermit.b",
    );
    // Through each kind of expression that can hold a reference.
    for body in [
        "not a",
        "count([1 | a]) > 0",
        "count({1 | a}) > 0",
        "count({1: 1 | a}) > 0",
        "every x in [1] { x == 1; a }",
        "every x in a { x == 1 }",
        "some x in a",
        "1 in a",
        "1, 2 in a",
        "{\"k\": a}",
        "[[a]]",
        "{a}",
        "x := a",
        "a == 1",
        "1 + a > 1",
        "a | {1}",
        "-a < 1",
        "count(a) > 1",
        "input.list[a]",
        "input[a].x",
        "data.kubepermit.a",
        "data[\"kubepermit\"].a",
        "data.kubepermit[\"a\"]",
        "data.kubepermit[input.name]",
        "data[input.package].a",
        "data.kubepermit",
        "data",
        "a.b.c",
        "x := 1 with input as a",
        "[a | true][0]",
    ] {
        recursive(&format!("a if {{ {body} }}\n"), "a.rego:2", "kubepermit.a -> kubepermit.a");
    }
    // In a head, a default branch and a partial rule.
    recursive("a := a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a contains x if some x in a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a[x] := 1 if some x in a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a := 1 if input.x else := a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a := 1 if input.x else := 2 if a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive(
        "a.b := 1 if data.kubepermit.a.c\na.c := 1 if a\n",
        "a.rego:2",
        "kubepermit.a.b -> kubepermit.a.c -> kubepermit.a.b",
    );
}

#[test]
fn a_function_may_not_reach_itself() {
    recursive("f(x) := f(x - 1) if x > 0\n", "a.rego:2", "kubepermit.f -> kubepermit.f");
    recursive("f(x) := g(x)\ng(x) := f(x)\n", "a.rego:2", "kubepermit.f -> kubepermit.g -> kubepermit.f");
    recursive("f(x) := data.kubepermit.f(x)\n", "a.rego:2", "kubepermit.f -> kubepermit.f");
    recursive("default f(_) := 1\nf(x) := y if y := f(x)\n", "a.rego:2", "kubepermit.f -> kubepermit.f");
}

/// A local variable hides a rule of its name, in the engine as in the check.
#[test]
fn a_local_variable_is_not_a_rule() {
    let rules = "package kubepermit
        decision := {\"a\": x, \"b\": y, \"c\": z, \"d\": v, \"e\": w}
        x := f(5)
        f(x) := x
        y := g(6)
        g([y, _]) := y
        g(q) := r if { y := q; r := y }
        z := [t | some t in h(7)]
        h(n) := r if { z := n; r := [z] }
        v := 8 if { every v in [k(8)] { v == 8 } }
        k(n) := r if { [v] := [n]; r := v }
        w := m(9)
        m(n) := r if { r := [w | w := n][0] }
    ";
    let bundle = Bundle::from_files([("main.rego", rules.as_bytes()), ("data.yaml", DATA)]).unwrap();
    let policy = Policy::from_bundle(&bundle, &Overlay::default()).unwrap();
    let value = policy.engine.clone().eval_rule("data.kubepermit.decision".to_owned()).unwrap();
    assert_eq!(value.to_json_str().unwrap().replace([' ', '\n'], ""), r#"{"a":5,"b":6,"c":[7],"d":8,"e":9}"#);
    // Before its declaration it is the rule.
    recursive("a if { a; a := 1 }\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a if { a := a }\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a if { count([a | a := 1]) > 0; a }\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    // Unification declares nothing.
    recursive("a if { a = 1 }\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
}

#[test]
fn recursion_is_found_across_packages_and_imports() {
    let site = "package site\nimport data.kubepermit.lib as l\nhelper if l.x\n";
    let lib = "package kubepermit.lib\nimport data.site\nx if site.helper\n";
    bad(&[("site.rego", site), ("lib.rego", lib)], "lib.rego:3", |problem| {
        problem.to_string() == "rule recursion: kubepermit.lib.x -> site.helper -> kubepermit.lib.x"
    });
    good(&[("site.rego", site), ("lib.rego", "package kubepermit.lib\nx if input.helper\n")]);
}

#[test]
fn recursion_in_the_tests_is_found_too() {
    let test = "package a_test\ntest_a if test_a\n";
    bad(&[("tests/a_test.rego", test)], "tests/a_test.rego:2", |p| matches!(p, Problem::Recursion { .. }));
}

#[test]
fn a_long_chain_is_not_a_cycle() {
    let mut rules = "package kubepermit\nr0 := 1\n".to_owned();
    for i in 1..3000 {
        rules.push_str(&format!("r{i} := r{}\n", i - 1));
    }
    good(&[("a.rego", &rules)]);
}

#[test]
fn a_rule_has_one_default() {
    good(&[("a.rego", "package kubepermit\ndefault a := 1\ndefault b := 2\n")]);
    let second = "package kubepermit\ndefault a := 1\n\ndefault a := 2\n";
    bad(&[("a.rego", second)], "a.rego:4", |problem| {
        problem.to_string() == "second `default` for `kubepermit.a`; the first is at a.rego:2"
    });
    // Also in another file of the package.
    let one = "package kubepermit\ndefault a := 1\n";
    bad(&[("a.rego", one), ("b.rego", one)], "b.rego:2", |p| matches!(p, Problem::SecondDefault { .. }));
}

#[test]
fn packages_have_their_places() {
    for package in ["kubepermit", "kubepermit.lib", "site", "site.team.lib"] {
        good(&[("a.rego", &format!("package {package}\nx := 1\n"))]);
    }
    for package in [
        "config",
        "data",
        "system",
        "kubepermitx",
        "sites",
        "other.kubepermit",
        "kubepermit.deny",
        "site[\"deny\"]",
        "site.allow",
        "kubepermit_test",
        "kubepermit.lib_test",
    ] {
        bad(&[("a.rego", &format!("package {package}\nx := 1\n"))], "a.rego:1", |p| {
            matches!(p, Problem::Package { .. })
        });
    }
    good(&[("tests/a_test.rego", "package any_test\ntest_a := true\n")]);
    // A test's package must not be able to add to what it tests.
    bad(&[("tests/a_test.rego", "package kubepermit\ntest_a := true\n")], "tests/a_test.rego:1", |p| {
        matches!(p, Problem::Package { .. })
    });
}

#[test]
fn what_denies_is_where_it_is_asked_for() {
    let object = "contains {\"code\": \"site.a\", \"msg\": \"b\"}";
    good(&[("site.rego", &format!("package site\ndeny {object} if input.x\nwarn {object}\n"))]);
    for (package, rule) in [
        ("site.team", format!("deny {object}")),
        ("site.team", format!("warn {object}")),
        ("kubepermit.lib", format!("deny {object}")),
        ("site.team", "allow := true".to_owned()),
        ("site", "allow := true".to_owned()),
        ("site", "default allow := true".to_owned()),
        ("site", "allow if input.x".to_owned()),
        ("site", "allow contains 1".to_owned()),
        ("site", "allow.x := true".to_owned()),
        ("site", "decision := {\"allow\": true, \"deny\": [], \"warn\": []}".to_owned()),
        ("site", "deny := true".to_owned()),
        ("site", "deny if input.x".to_owned()),
        ("site", "default deny := false".to_owned()),
        ("site", "deny[\"text\"] if input.x".to_owned()),
        ("site", "deny.x := 1".to_owned()),
        ("site", "deny(x) := x".to_owned()),
        ("kubepermit", "warn := true".to_owned()),
    ] {
        let rules = format!("package {package}\n{rule}\n");
        bad(&[("a.rego", &rules)], "a.rego:2", |problem| matches!(problem, Problem::Rule(_)));
    }
}

#[test]
fn a_decision_follows_from_its_input_alone() {
    good(&[("a.rego", "package kubepermit\nx := startswith(input.a, \"b\")\ny := print(\"z\")\n")]);
    for call in [
        "http.send({\"method\": \"get\", \"url\": \"http://x\"})",
        "time.now_ns()",
        "rand.intn(\"x\", 2)",
        "opa.runtime()",
        "net.lookup_ip_addr(\"x\")",
        "uuid.rfc4122(\"x\")",
        "[1 | http.send({})]",
        "1 + time.now_ns()",
    ] {
        bad(&[("a.rego", &format!("package kubepermit\nx := {call}\n"))], "a.rego:2", |p| {
            matches!(p, Problem::Impure(_))
        });
    }
    let replaced = "package a_test\ntest_a if startswith(\"a\", \"b\") with startswith as http.send\n";
    bad(&[("tests/a_test.rego", replaced)], "tests/a_test.rego:2", |p| matches!(p, Problem::Impure(_)));
}

#[test]
fn a_function_exists() {
    let lib = ("lib.rego", "package kubepermit.lib\nf(x) := x\n");
    good(&[
        lib,
        (
            "a.rego",
            "package kubepermit\nimport data.kubepermit.lib\nx := lib.f(data.kubepermit.lib.f(g(1)))\ng(x) := x\n",
        ),
    ]);
    for call in
        ["startwith(\"a\", \"b\")", "lib.g(1)", "crypto.sha256(\"x\")", "input.f(1)", "data.kubepermit.f(1)"]
    {
        let rules = format!("package kubepermit\nimport data.kubepermit.lib\nx := {call}\n");
        bad(&[lib, ("a.rego", &rules)], "a.rego:3", |problem| matches!(problem, Problem::UnknownFunction(_)));
    }
}

#[test]
fn brackets_are_not_nested_deep() {
    let nested = |depth: usize| {
        format!("package kubepermit\n\nx := {}1{}\n", "[{1: ".repeat(depth / 2), "}]".repeat(depth / 2))
    };
    good(&[("a.rego", &nested(6))]);
    bad(&[("a.rego", &nested(12))], "a.rego:3", |problem| matches!(problem, Problem::TooDeep { .. }));
    // What would take the parser minutes is refused at once.
    let start = std::time::Instant::now();
    bad(&[("a.rego", &nested(40))], "a.rego:3", |problem| matches!(problem, Problem::TooDeep { .. }));
    let many = format!("{}\n", nested(10)).repeat(1000);
    assert!(super::text("a.rego", &many).is_err());
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    // Brackets in strings and comments are none.
    let text = "[".repeat(20);
    good(&[("a.rego", &format!("package kubepermit\n# {text}\nx := \"\\\"{text}\"\ny := `{text}`\n"))]);
    bad(&[("a.rego", &format!("package kubepermit\nx := \"\\\\\"\ny := {text}"))], "a.rego:3", |problem| {
        matches!(problem, Problem::TooDeep { .. })
    });
}

#[test]
fn a_bundle_has_a_decision() {
    let files = [("a.rego", b"package kubepermit\nx := 1\n".as_slice()), ("data.yaml", DATA)];
    let bundle = Bundle::from_files(files).unwrap();
    let error = Policy::from_bundle(&bundle, &Overlay::default()).unwrap_err();
    assert_eq!(error.to_string(), "the policy bundle defines no rule `data.kubepermit.decision`");
}

#[test]
fn what_is_not_rego_is_refused_with_its_line() {
    bad(&[("a.rego", "package kubepermit\n\nx := \n")], "a.rego:4", |p| matches!(p, Problem::Rego(_)));
    // Found when the engine prepares the modules, not when it parses them.
    bad(&[("a.rego", "package kubepermit\n\nx if y == 1\n")], "a.rego:3", |p| matches!(p, Problem::Rego(_)));
}
