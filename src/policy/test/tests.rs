//! The runner: what passes, and what must not.

use super::*;

const DATA: &[u8] = include_bytes!("../../../policies/data.yaml");
const MAIN: &[u8] = b"package kubepermit\n\nx := 1\ndecision := 1\n";

fn run_files(tests: &[(&str, &str)]) -> TestReport {
    let tests = tests.iter().map(|(path, text)| (*path, text.as_bytes()));
    let bundle = Bundle::from_files(tests.chain([("main.rego", MAIN), ("data.yaml", DATA)])).unwrap();
    run_bundle(&bundle).unwrap()
}

/// The outcome of the only test in a file of these rules.
fn outcome_of(rules: &str) -> TestOutcome {
    let report = run_files(&[("tests/a_test.rego", &format!("package a_test\n{rules}\n"))]);
    assert_eq!(report.tests.len(), 1, "{report:?}");
    let outcome = report.tests[0].outcome.clone();
    assert_eq!(report.passed(), outcome == TestOutcome::Pass, "{report:?}");
    outcome
}

#[test]
fn the_shipped_bundles_tests_pass() {
    let report = run(&BundleSource::BuiltIn).unwrap();
    let bad: Vec<_> = report.tests.iter().filter(|test| test.outcome != TestOutcome::Pass).collect();
    assert!(report.passed(), "{bad:#?}\n{:#?}", report.problems);
}

#[test]
fn a_test_passes_when_it_is_true() {
    for rules in [
        "test_a if data.kubepermit.x == 1",
        "test_a := true",
        "test_a if data.kubepermit.x == 2 with data.kubepermit.x as 2",
        "test_a if data.config.timeouts.max_s == 600",
        "test_a[case] := ok if { some case, n in {\"one\": 1, \"two\": 2}; ok := n > 0 }",
        "test_a[case] if { some case in [\"one\", \"two\"] }",
    ] {
        assert_eq!(outcome_of(rules), TestOutcome::Pass, "{rules}");
    }
}

#[test]
fn everything_else_fails() {
    for (rules, says) in [
        ("test_a if data.kubepermit.x == 2", "undefined"),
        ("test_a if input.tool", "undefined"),
        ("test_a := false", "its value is false"),
        ("test_a := 1", "its value is 1"),
        ("test_a := null", "its value is null"),
        ("test_a := []", "its value is []"),
        ("test_a := \"true\"", "its value is \"true\""),
        ("test_a := {}", "no case passed"),
        ("test_a contains 1", "its value is"),
        ("test_a[case] if { some case in [] }", "no case passed"),
        (
            "test_a[case] := ok if { some case, n in {\"one\": 1, \"two\": 2}; ok := n > 1 }",
            "not true: \"one\"",
        ),
    ] {
        let TestOutcome::Fail(reason) = outcome_of(rules) else { panic!("{rules}") };
        assert!(reason.contains(says), "{rules}: {reason}");
    }
    let TestOutcome::Error(error) = outcome_of("test_a if regex.match(\"[\", \"a\")") else { panic!() };
    assert!(error.starts_with("tests/a_test.rego:2: "), "{error}");
}

#[test]
fn a_suite_cannot_pass_emptily() {
    let good = ("tests/good_test.rego", "package good_test\ntest_a := true\n");
    assert!(run_files(&[good]).passed());
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "the bundle has no tests"),
        (&[("tests/a_test.rego", "package a_test\ntodo_test_a := true\n")], "every test is skipped"),
        (&[good, ("tests/a_test.rego", "package a_test\n")], "tests/a_test.rego defines no test"),
        (
            &[good, ("tests/b_test.rego", "package b_test\ntest_a := true\ntests_b := false\n")],
            "tests/b_test.rego:3: `tests_b` is neither a test nor used by one",
        ),
        (
            &[good, ("tests/b_test.rego", "package b_test\ntest_a := true\nx.test_b := false\n")],
            "tests/b_test.rego:3: `x.test_b` is neither a test nor used by one",
        ),
        (
            &[("tests/a_test.rego", "package a_test\ntest_a if false\ntest_a if true\n")],
            "tests/a_test.rego:3: test `test_a` is already defined at tests/a_test.rego:2",
        ),
        (
            &[("tests/a_test.rego", "package a_test\ntest_b := true\ntest_a.b := true\n")],
            "tests/a_test.rego:3: test `test_a` has a dotted name and would not be run",
        ),
    ];
    for (files, problem) in cases {
        let report = run_files(files);
        assert!(!report.passed(), "{problem}");
        assert_eq!(report.problems, [*problem], "{report:?}");
    }
}

#[test]
fn a_helper_is_used() {
    let helper = ("tests/helpers.rego", "package good_test\nyes := true\nwith_yes(x) := [x, yes]\n");
    let test = "package good_test\ntest_a if with_yes(1)[1]\n";
    assert!(run_files(&[helper, ("tests/good_test.rego", test)]).passed());
}

#[test]
fn each_test_is_reported_with_its_place_and_its_prints() {
    let report = run_files(&[(
        "tests/a_test.rego",
        "package sub.a_test\n\ntodo_test_b := true\n\ntest_c if {\n\tprint(\"seen\", data.kubepermit.x)\n\tfalse\n}\n",
    )]);
    let [b, c] = report.tests.as_slice() else { panic!("{report:?}") };
    let (b, c) = if b.name == "test_c" { (c, b) } else { (b, c) };
    assert_eq!((b.name.as_str(), &b.outcome), ("todo_test_b", &TestOutcome::Skip));
    assert_eq!((c.package.as_str(), c.at.to_string()), ("sub.a_test", "tests/a_test.rego:5".to_owned()));
    assert_eq!(c.prints, ["tests/a_test.rego:6: seen 1"]);
}
