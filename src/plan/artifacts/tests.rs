//! What a pattern stands for, after gitignore's and the shell's use of `*`, `**` and `?`.

use super::WantedArtifacts;

fn patterns(written: &[&str]) -> WantedArtifacts {
    let written: Vec<String> = written.iter().map(ToString::to_string).collect();
    WantedArtifacts::parse(Some(&written)).unwrap()
}

#[test]
fn a_pattern_stays_in_its_component_unless_it_says_otherwise() {
    for (pattern, asked, not_asked) in [
        ("out.txt", vec!["out.txt"], vec!["a/out.txt", "out.txt.bak", "Out.txt"]),
        ("./out.txt", vec!["out.txt"], vec!["x/out.txt"]),
        ("*.log", vec!["a.log", ".log"], vec!["d/a.log", "a.log2"]),
        ("**/*.log", vec!["a.log", "d/a.log", "d/e/a.log"], vec!["a.txt"]),
        // A directory's name brings all that is in it.
        ("out", vec!["out", "out/a", "out/b/c"], vec!["output", "x/out"]),
        ("out/", vec!["out/a", "out/b/c"], vec!["output"]),
        ("d*/x", vec!["dir/x", "d/x/deep"], vec!["d/e/x"]),
        ("out/**", vec!["out/a", "out/b/c"], vec!["outer/a"]),
        ("f?", vec!["f1"], vec!["f", "f12", "f/1"]),
        ("[ab].c", vec!["a.c"], vec!["c.c"]),
        ("{x,y}.md", vec!["x.md", "y.md"], vec!["z.md"]),
        (r"\*", vec!["*"], vec!["a"]),
        ("**", vec!["a", "b/c"], vec![]),
    ] {
        let WantedArtifacts::Matching(patterns) = patterns(&[pattern]) else { panic!("{pattern}") };
        for path in asked {
            assert!(patterns.ask_for(path), "`{pattern}` asks for `{path}`");
        }
        for path in not_asked {
            assert!(!patterns.ask_for(path), "`{pattern}` does not ask for `{path}`");
        }
    }
}

#[test]
fn absent_and_empty_are_two_things() {
    assert_eq!(WantedArtifacts::parse(None).unwrap().as_str(), "changed");
    let none = patterns(&[]);
    assert!(none.is_none() && none.patterns().is_empty() && none.as_str() == "none");
    assert_eq!(patterns(&["a", "b"]).patterns(), ["a", "b"]);
}

#[test]
fn what_leads_elsewhere_or_is_no_glob_is_refused_with_its_place() {
    for (pattern, what) in [
        ("/etc/passwd", "is absolute"),
        (".//etc", "is absolute"),
        ("..", "`..`"),
        ("a/../b", "`..`"),
        ("{..,a}/b", "`..`"),
        (".", "names no file"),
        ("./", "names no file"),
        ("a//b", "empty component"),
        ("a[", "is not a glob"),
        ("{a", "is not a glob"),
        ("a\nb", "control character"),
        ("a\u{202e}b", "control character"),
    ] {
        let written = ["fine".to_owned(), pattern.to_owned()];
        let reasons = WantedArtifacts::parse(Some(&written)).unwrap_err();
        assert_eq!(reasons.len(), 1, "{pattern:?}");
        assert_eq!(
            (reasons[0].code.as_str(), reasons[0].field.as_str()),
            ("artifacts.pattern", "/artifacts/1")
        );
        assert!(reasons[0].message.contains(what), "{pattern:?}: {}", reasons[0].message);
        assert!(!reasons[0].message.contains(['\n', '\u{202e}']));
    }
}

#[test]
fn many_large_patterns_are_refused_or_work() {
    let written: Vec<String> = (0..100).map(|n| format!("{}{n}", "{a,b}*[a-z]".repeat(80))).collect();
    match WantedArtifacts::parse(Some(&written)) {
        Ok(WantedArtifacts::Matching(patterns)) => assert!(!patterns.ask_for("x")),
        Ok(other) => panic!("{other:?}"),
        Err(reasons) => assert_eq!(reasons[0].field, "/artifacts"),
    }
}
