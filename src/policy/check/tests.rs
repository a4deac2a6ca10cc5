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
        "count(a) > 1",
        "input.arguments.list[a]",
        "input[a].x",
        "data.kubepermit.a",
        "data[\"kubepermit\"].a",
        "data.kubepermit[\"a\"]",
        "data.kubepermit[input.tool]",
        "data[input.tool].a",
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
    recursive("a := 1 if input.tool else := a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
    recursive("a := 1 if input.tool else := 2 if a\n", "a.rego:2", "kubepermit.a -> kubepermit.a");
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
    good(&[("site.rego", site), ("lib.rego", "package kubepermit.lib\nx if input.tool\n")]);
}

#[test]
fn recursion_in_the_tests_is_found_too() {
    let test = "package a_test\ntest_a if test_a\n";
    bad(&[("tests/a_test.rego", test)], "tests/a_test.rego:2", |p| matches!(p, Problem::Recursion { .. }));
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
    good(&[("site.rego", &format!("package site\ndeny {object} if input.tool\nwarn {object}\n"))]);
    for (package, rule) in [
        ("site.team", format!("deny {object}")),
        ("site.team", format!("warn {object}")),
        ("kubepermit.lib", format!("deny {object}")),
        ("site.team", "allow := true".to_owned()),
        ("site", "allow := true".to_owned()),
        ("site", "default allow := true".to_owned()),
        ("site", "allow if input.tool".to_owned()),
        ("site", "allow contains 1".to_owned()),
        ("site", "allow.x := true".to_owned()),
        ("site", "decision := {\"allow\": true, \"deny\": [], \"warn\": []}".to_owned()),
        ("site", "deny := true".to_owned()),
        ("site", "deny if input.tool".to_owned()),
        ("site", "default deny := false".to_owned()),
        ("site", "deny[\"text\"] if input.tool".to_owned()),
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
    good(&[("a.rego", "package kubepermit\nx := startswith(input.tool, \"b\")\ny := print(\"z\")\n")]);
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
fn what_the_parser_passes_over_is_an_error() {
    let parsed = "package kubepermit\n\nimport data.site\n\nx := \"a\" if {\n\tsite.y\n}\n\ny contains `b`\nz := set()\n# end\n";
    let tokens = super::text("a.rego", parsed).unwrap();
    let module_of = |text: &str| {
        let mut engine = regorus::Engine::new();
        engine.add_policy("a.rego".to_owned(), text.to_owned()).unwrap();
        engine.get_modules()[0].clone()
    };
    super::whole(&module_of(parsed), &tokens).unwrap();
    // As if the parser had stopped early, or left a rule out of the middle.
    for (left_out, line, token) in
        [("z := set()\n", 10, "z"), ("y contains `b`\n", 9, "y"), ("import data.site\n", 3, "import")]
    {
        let blank = "\n"
            .repeat(left_out.lines().count())
            .replace('\n', &format!("{}\n", " ".repeat(left_out.len() - 1)));
        let error = super::whole(&module_of(&parsed.replace(left_out, &blank)), &tokens).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("a.rego:{line}: `{token}` is not part of any rule that was read")
        );
    }
    // The engine's own: Azure's targets, which mean nothing here.
    bad(&[("a.rego", "package kubepermit\n__target__ := \"x\"\n")], "a.rego:2", |p| {
        *p == Problem::Unread("__target__".to_owned())
    });
}

#[test]
fn the_engines_lexer_ends_where_the_file_does() {
    // `Bundle` refuses the NUL already.
    let error = super::text("a.rego", "package site\n\0\ndeny contains 1\n").map(drop).unwrap_err();
    assert_eq!(error.to_string(), "a.rego:2: `the rest of the file` is not part of any rule that was read");
}

/// Each of these ended the process, most of them while it loaded.
#[test]
fn text_that_overflows_the_parser_is_refused() {
    for (what, rule) in [
        ("has operators in one expression", format!("1{}", "\n + 1".repeat(15_000))),
        ("has operators in one expression", format!("1{}", "\n -1".repeat(15_000))),
        ("has operators in one expression", format!("{{1}}{}", "\n | {1}".repeat(15_000))),
        ("has operators in one expression", format!("{{1}}{}", "\n & {1}".repeat(15_000))),
        ("has operators in one expression", format!("1{}", "\n * 1".repeat(15_000))),
        ("has operators in one expression", format!("1{}", "\n == 1".repeat(15_000))),
        ("has operators in one expression", format!("1{}", "\n in [1]".repeat(15_000))),
        ("has operators in one expression", format!("1{}", "\n + contains(\"a\", \"b\")".repeat(15_000))),
        ("has operators in one expression", format!("[1{}]", "\n + (1 + 1)".repeat(15_000))),
        ("has parts in one reference", format!("input.arguments{}", "[\n1]".repeat(15_000))),
        ("has parts in one reference", format!("input.arguments{}", ".a".repeat(40))),
        ("nests parentheses", format!("{}1{}", "abs(\n".repeat(15_000), ")".repeat(15_000))),
        ("nests parentheses", format!("{}1{}", "(\n".repeat(15_000), ")".repeat(15_000))),
        ("nests brackets", format!("{}1{}", "[\n".repeat(15_000), "]".repeat(15_000))),
        ("nests brackets", format!("{}1{}", "[abs(\n".repeat(15_000), ")]".repeat(15_000))),
    ] {
        let rules = format!("package kubepermit\nx := {rule}\n");
        let error = load(&[("a.rego", &rules)]).unwrap_err();
        let LoadError::Rejected { at, problem: Problem::TooDeep { what: found, .. } } = &error else {
            panic!("{error}")
        };
        assert_eq!((at.file.as_str(), *found), ("a.rego", what), "{error}");
    }
    // Statements and rules begin anew, whatever they begin with.
    let statements = "a + 1 > 0\nnot a < 0\nsome b in [1]\nb == 1\nevery c in [1] { c == 1 }\n-1 < a\n[1][0] == a\n{1: 1}[1] == a\n";
    let statements = statements.replace("\n-1", "\n0 - 1");
    let body = |i: usize| {
        statements
            .replace('a', &format!("a{i}"))
            .replace("some b", &format!("some b{i}"))
            .replace("\nb ", &format!("\nb{i} "))
    };
    let rules: String = (0..40)
        .map(|i| format!("a{i} := 1\nx{i} if {{\n{}}}\n", body(i).replace(&format!("a{i}nd"), "and")))
        .collect();
    let rules = rules.replace("v0ry", "very");
    assert!(super::text("a.rego", &format!("package kubepermit\n{rules}")).is_ok());
}

/// The engine reads `-x + 1` as `-(x + 1)`, and a row of them by recursion.
#[test]
fn a_minus_stands_before_a_number() {
    good(&[(
        "a.rego",
        "package kubepermit\nx := -1\ny := x - 1\nz := [-1, x -1, (x) - 1, [1][0] - 1, input.job - 1 | false]\n",
    )]);
    let many = "-\n".repeat(15_000);
    for value in ["-x", "1 - -x", "[-x]", "f(-x)", "-(1)", "- - 1", &format!("{many}1"), "1 in -x"] {
        let rules = format!("package kubepermit\nx := {value}\n");
        let error = load(&[("a.rego", &rules)]).unwrap_err();
        assert!(matches!(error, LoadError::Rejected { problem: Problem::Minus, .. }), "{value}: {error}");
    }
}

#[track_caller]
fn too_high(rules: &str, what: &str) {
    let error = load(&[("a.rego", &format!("package kubepermit\n{rules}"))]).unwrap_err();
    match &error {
        LoadError::Rejected { at, problem: Problem::TooHigh { what: found, .. } } => {
            assert_eq!((at.file.as_str(), *found), ("a.rego", what), "{error}");
        }
        other => panic!("{other}"),
    }
}

/// What was let through is dropped on whatever thread lets go of it last.
#[test]
fn what_is_let_through_is_small_enough_for_any_thread() {
    let operators = "\n+ 1".repeat(80);
    let tree = (0..11).fold("1".to_owned(), |x, _| format!("({x}{operators})"));
    let rules = format!("package kubepermit\ndecision := 1\nr := {tree}\n");
    let bundle = Bundle::from_files([("main.rego", rules.as_bytes()), ("data.yaml", DATA)]).unwrap();
    let policy = Policy::from_bundle(&bundle, &Overlay::default()).unwrap();
    let small = std::thread::Builder::new().stack_size(1 << 20);
    small.spawn(move || drop(policy)).unwrap().join().unwrap();
}

/// Each shape as long as it may be. A stack that overflows ends the process and all tests with it.
#[test]
fn what_is_let_through_needs_a_quarter_of_the_stack() {
    struct Shape(&'static str, fn(usize) -> String);
    let shapes = [
        Shape("rules", |i| format!("r{i} if r{}", i + 1)),
        Shape("sets", |i| format!("r{i} contains {{\"a\": [x]}} if {{ some x in r{}; x == x }}", i + 1)),
        Shape("calls", |i| format!("f{i}(x) := f{}(x)", i + 1)),
        Shape("negations", |i| format!("r{i} if not r{}", i + 1)),
        Shape("replaced inputs", |i| format!("r{i} if data.kubepermit.r{} with input as 1", i + 1)),
        Shape("every", |i| format!("r{i} if {{ every x in [1] {{ x == 1; r{} }} }}", i + 1)),
        Shape("comprehensions", |i| format!("r{i} := [x | x := r{}]", i + 1)),
        Shape("loops", |i| format!("r{i} if {{ l := [1]; l[a]; l[b]; l[c]; l[d]; l[e]; l[f]; r{} }}", i + 1)),
        Shape("operators", |i| format!("r{i} := r{}{}", i + 1, "\n + 1".repeat(50))),
    ];
    for Shape(what, link) in shapes {
        let bundle = |n: usize| {
            let rules = format!(
                "package kubepermit\n{}r{n} := 1\nf{n}(x) := x\ndecision := {}\n",
                chain(n, link),
                if what == "calls" { "f0(1)" } else { "r0" }
            );
            let files = [("main.rego", rules.as_bytes()), ("data.yaml", DATA)];
            Policy::from_bundle(&Bundle::from_files(files).unwrap(), &Overlay::default())
        };
        let (mut longest, mut too_long) = (1, 256);
        while too_long - longest > 1 {
            let middle = usize::midpoint(longest, too_long);
            if bundle(middle).is_ok() { longest = middle } else { too_long = middle }
        }
        assert!(matches!(
            bundle(longest + 1),
            Err(LoadError::Rejected { problem: Problem::TooHigh { .. }, .. })
        ));
        let mut engine = bundle(longest).unwrap().engine.clone();
        let thread = std::thread::Builder::new().stack_size(crate::policy::evaluate::STACK_BYTES / 4);
        let work = move || engine.eval_rule("data.kubepermit.decision".to_owned()).map(drop);
        drop(thread.spawn(work).unwrap().join().unwrap());
    }
}

fn chain(length: usize, link: impl Fn(usize) -> String) -> String {
    (0..length).map(|i| link(i) + "\n").collect()
}

#[test]
fn a_chain_of_rules_has_a_longest_length() {
    let rules = |n| chain(n, |i| format!("r{i} if r{}", i + 1)) + &format!("r{n} := 1");
    good(&[("a.rego", &format!("package kubepermit\n{}", rules(70)))]);
    let error = load(&[("a.rego", &format!("package kubepermit\n{}", rules(1000)))]).unwrap_err();
    assert!(error.to_string().contains("is evaluated too deep (100"), "{error}");
    let functions = |n| chain(n, |i| format!("f{i}(x) := f{}(x)", i + 1)) + &format!("f{n}(x) := x");
    good(&[("a.rego", &format!("package kubepermit\n{}", functions(80)))]);
    too_high(&functions(1000), "is evaluated too deep");
    // The whole package counts where it is asked for as a whole.
    too_high(
        &(chain(500, |i| format!("r{i} if data.kubepermit.r{}", i + 1)) + "r500 := 1"),
        "is evaluated too deep",
    );
    // What replaces a function is called at the end of another chain.
    let replaced = |n: usize, d: &str| {
        chain(n, |i| format!("{d}{i}(x) := {d}{}(x)", i + 1)) + &format!("{d}{n}(x) := x\n")
    };
    let both = replaced(80, "f") + &replaced(80, "g") + "a if f0(1) with data.kubepermit.f80 as g0\n";
    too_high(&both, "is evaluated too deep");
}

#[test]
fn a_query_has_a_most_of_loops() {
    let body = |n| format!("r if {{\n{}}}", chain(n, |i| format!("some x{i} in [1]")));
    good(&[("a.rego", &format!("package kubepermit\n{}", body(50)))]);
    too_high(&body(2000), "is evaluated too deep");
    let body = |n| format!("r if {{\n{}}}", chain(n, |i| format!("input.arguments.l[x{i}]")));
    too_high(&body(2000), "is evaluated too deep");
    // The deepest tree that text within the limits can make.
    let operators = "\n+ 1".repeat(48);
    let inner = (0..10).fold("1".to_owned(), |x, _| format!("count([{x}{operators}]){operators}"));
    let tree = (0..9).fold(inner, |x, _| format!("({x}{operators})"));
    too_high(&format!("r := {tree}"), "is evaluated too deep");
    // Statements that do not loop are not counted.
    let body = |n| format!("r if {{\n{}}}", chain(n, |_| "input.tool == \"a\"".to_owned()));
    good(&[("a.rego", &format!("package kubepermit\n{}", body(500)))]);
}

/// Comparing or dropping a value takes stack for each of its levels.
#[test]
fn a_value_has_a_deepest_nesting() {
    let wrap = "f0(x) := [[[[[x]]]]]\n".to_owned();
    let tower = |n| {
        wrap.clone()
            + &chain(n, |i| {
                let f = format!("f{i}(");
                format!("f{}(x) := {}x{}", i + 1, f.repeat(10), ")".repeat(10))
            })
    };
    good(&[("a.rego", &format!("package kubepermit\n{}", tower(1)))]);
    too_high(&tower(5), "can nest a value too deep");
    let within = |n| format!("r if {{\nx0 := 1\n{}}}", chain(n, |i| format!("x{} := [[x{i}]]", i + 1)));
    good(&[("a.rego", &format!("package kubepermit\n{}", within(200)))]);
    too_high(&within(2000), "can nest a value too deep");
    // A predicate's value is not nested, however often it is asked.
    let predicate = "p(x) if [[[x]]] == [[[1]]]\n".to_owned();
    let rules = predicate + "r if {\n" + &chain(300, |i| format!("x{i} := p({i})")) + "}";
    good(&[("a.rego", &format!("package kubepermit\n{rules}"))]);
}

#[test]
fn a_reference_leads_somewhere() {
    good(&[
        ("lib.rego", "package kubepermit.lib\nf(x) := x\nobject.of.names := {\"a\": 1}\n"),
        ("site.rego", "package site\nimport input.job as j\nimport data.config as c\nimport data.kubepermit.lib
            a := [j.image.key, j, c.jobs.namespaces[j.namespace], c.roles[input.caller.roles[0]].images[j.workdir]]
            b := [data.config.site.mine.own, input.arguments.env.anything, input.job.manifest.spec[0].x]
            c1 := [lib.object.of.names.a, data.kubepermit.lib.object, data.kubepermit.lib, data.site.deny]
            d := [input[k], input.job[k].tag, input.job.command[0], input[\"job\"].image[`key`]] if some k in [1]
            # A local variable is not looked into.
            e(job) := [x.y, job.z] if x := input.job\n"),
        ("tests/a_test.rego", "package a_test\ntest_a if 1 == 1 with input.job.image.key as 1 with data.config.images as {}
            test_b if 1 == 1 with data.site.deny as {} with data.site.allow as 1 with input as {} with data.config as {}\n"),
    ]);
    for (reference, path, hint) in [
        ("data.confg.images", "data.confg", "did you mean `data.config`?"),
        ("data.config.imagse", "data.config.imagse", "did you mean `data.config.images`?"),
        (
            "data.config.jobs.namespace",
            "data.config.jobs.namespace",
            "did you mean `data.config.jobs.namespaces`?",
        ),
        (
            "data.config.roles[x].image",
            "data.config.roles[_].image",
            "did you mean `data.config.roles[_].images`?",
        ),
        ("data.config.images.a.b", "data.config.images.a.b", "`data.config.images.a` has no keys"),
        (
            "data.config.timeouts.max_s.x",
            "data.config.timeouts.max_s.x",
            "`data.config.timeouts.max_s` has no keys",
        ),
        ("input.jobb.image", "input.jobb", "did you mean `input.job`?"),
        ("input[\"jobb\"].image", "input.jobb", "did you mean `input.job`?"),
        ("input.job.image.keys", "input.job.image.keys", "did you mean `input.job.image.key`?"),
        ("input.caller[x].y", "input.caller[_].y", "`input.caller[_]` has no keys"),
        ("input.caller.roles.admin", "input.caller.roles.admin", "`input.caller.roles` has no keys"),
        ("input.tool.name", "input.tool.name", "`input.tool` has no keys"),
        ("input.handle.operation.x", "input.handle.operation.x", "`input.handle.operation` has no keys"),
        ("input.handle.operatio", "input.handle.operatio", "did you mean `input.handle.operation`?"),
        ("j.imag", "input.job.imag", "did you mean `input.job.image`?"),
        ("data.site.denny", "data.site.denny", "did you mean `data.site.deny`?"),
        ("data.kubepermitt.lib", "data.kubepermitt", "did you mean `data.kubepermit`?"),
        ("data.kubepermit.lib.g", "data.kubepermit.lib.g", "did you mean `data.kubepermit.lib.f`?"),
        ("data.kubepermit.lib.o.q", "data.kubepermit.lib.o.q", "did you mean `data.kubepermit.lib.o.p`?"),
    ] {
        let rules = format!(
            "package site\nimport input.job as j\ndeny contains {{\"code\": \"site.x\", \"msg\": \"y\"}} if {{\nsome x in [\"image\"]\n{reference} == 1\nj\n}}\n"
        );
        let lib = ("lib.rego", "package kubepermit.lib\nf(x) := x\no.p := 1\n");
        bad(&[lib, ("site.rego", &rules)], "site.rego:5", |problem| {
            assert_eq!(*problem, Problem::UnknownPath { path: path.to_owned(), hint: hint.to_owned() });
            true
        });
    }
    for (import, path) in [
        ("data.confg", "data.confg"),
        ("input.jobb as x", "input.jobb"),
        ("data.kubepermit.lob", "data.kubepermit.lob"),
    ] {
        let rules = format!("package site\nimport {import}\na := 1\n");
        bad(
            &[("site.rego", &rules)],
            "site.rego:2",
            |p| matches!(p, Problem::UnknownPath { path: found, .. } if found == path),
        );
    }
    for with in [
        "input.jobb.image as 1",
        "data.confg as {}",
        "data.config.imagse as {}",
        "data.sites.deny as {}",
        "data.kubepermit.lib.x as 1",
    ] {
        let test = format!("package a_test\ntest_a if 1 == 1 with {with}\n");
        bad(&[("tests/a_test.rego", &test)], "tests/a_test.rego:2", |p| {
            matches!(p, Problem::UnknownPath { .. })
        });
    }
}

#[test]
fn a_test_stands_where_it_is_run() {
    for (path, package) in [
        ("site.rego", "site"),
        ("site_test.rego", "kubepermit"),
        ("a.rego", "kubepermit.lib"),
        ("tests/a.rego", "a_test"),
    ] {
        for rule in [
            "test_x if false",
            "todo_test_x if false",
            "test_x.y := 1",
            "test_x[1] := 1",
            "test_x contains 1",
            "default test_x := true",
        ] {
            bad(&[(path, &format!("package {package}\n{rule}\n"))], &format!("{path}:2"), |problem| {
                problem.to_string().ends_with("would never be run: tests are in files `tests/*_test.rego`")
            });
        }
    }
}

#[test]
fn a_test_cannot_pass_without_holding() {
    for (rule, what) in [
        ("test_x if false\ndefault test_x := true", "a `default`"),
        ("test_x if {\nfalse\n} else := true", "an `else`"),
        ("test_x if {\nfalse\n} else if true", "an `else`"),
        ("test_x if {\nfalse\n}\n{\ntrue\n}", "a second body"),
    ] {
        let error = load(&[("tests/a_test.rego", &format!("package a_test\n{rule}\n"))]).unwrap_err();
        assert!(error.to_string().contains(&format!("test `test_x` has {what}, ")), "{error}");
    }
}

#[test]
fn what_is_not_rego_is_refused_with_its_line() {
    bad(&[("a.rego", "package kubepermit\n\nx := \n")], "a.rego:4", |p| matches!(p, Problem::Rego(_)));
    // Found when the engine prepares the modules, not when it parses them.
    bad(&[("a.rego", "package kubepermit\n\nx if y == 1\n")], "a.rego:3", |p| matches!(p, Problem::Rego(_)));
}
