//! What Kubernetes takes for a label selector, and what is refused here.

use proptest::prelude::*;

use super::*;
use crate::plan::properties;

fn canonical(text: &str) -> String {
    text.parse::<LabelSelector>().unwrap_or_else(|error| panic!("{text:?} {error}")).to_string()
}

/// The examples of Kubernetes' documentation ("Labels and Selectors") among them; the meaning of each form on
/// the right is the same by that page.
#[test]
fn a_selector_is_written_in_one_form() {
    let sixty_three = "a".repeat(63);
    let longest = format!("{0}={0}", sixty_three);
    let prefix = format!("{}/a", ["a".repeat(63).as_str(); 3].join("."));
    let cases = [
        ("environment = production", "environment=production"),
        ("tier != frontend", "tier!=frontend"),
        ("environment=production,tier!=frontend", "environment=production,tier!=frontend"),
        ("environment in (production, qa)", "environment in (production,qa)"),
        ("tier notin (frontend, backend)", "tier notin (backend,frontend)"),
        ("partition", "partition"),
        ("!partition", "!partition"),
        ("partition,environment notin (qa)", "partition,environment notin (qa)"),
        ("accelerator=nvidia-tesla-p100", "accelerator=nvidia-tesla-p100"),
        ("a==b", "a=b"),
        ("a == b", "a=b"),
        ("a=", "a="),
        ("a!=", "a!="),
        ("a=,b", "a=,b"),
        ("! a", "!a"),
        ("a in (b,b,a)", "a in (a,b)"),
        ("a in ()", "a in ()"),
        ("a in (,b)", "a in (,b)"),
        ("a in(b)", "a in (b)"),
        ("  a  ", "a"),
        ("a in (in,notin)", "a in (in,notin)"),
        ("in in (a)", "in in (a)"),
        ("notin", "notin"),
        ("a=in", "a=in"),
        ("app.kubernetes.io/name=my-app", "app.kubernetes.io/name=my-app"),
        ("kubernetes.io/os", "kubernetes.io/os"),
        ("A_b.c-D=E_f.g-H", "A_b.c-D=E_f.g-H"),
        ("a=my--app", "a=my--app"),
        ("1=2", "1=2"),
        (&longest, &longest),
        (&prefix, &prefix),
    ];
    for (text, expected) in cases {
        assert_eq!(canonical(text), *expected, "{text:?}");
    }
}

#[test]
fn what_is_no_selector_is_refused() {
    let too_long = "a".repeat(64);
    let (long_key, long_value) = (format!("{too_long}=a"), format!("a={too_long}"));
    let long_prefix = format!("{}/a", ["a".repeat(63).as_str(); 4].join("."));
    let huge = "a,".repeat(512) + "aa";
    let cases = [
        "",
        " ",
        ",",
        "a,",
        ",a",
        "a,,b",
        "=",
        "=a",
        "==",
        "!=",
        "!=a",
        "!",
        "!,a",
        "!!a",
        "!a=b",
        "!a in (b)",
        "a=b=c",
        "a==b=c",
        "a===b",
        "a=!b",
        "a!=!b",
        "a!b",
        "a b",
        "a=b c",
        "a=b c=d",
        "a in",
        "a in b",
        "a in (",
        "a in (b",
        "a in b)",
        "a in ((b))",
        "a in (b) c",
        "a in (b),",
        "a in (b c)",
        "a in (b=c)",
        "a notin",
        "a not in (b)",
        "a IN (b)",
        "a in (b)(c)",
        "(a)",
        "a)",
        "(",
        ")",
        "a=(b)",
        "a>1",
        "a<1",
        "a>=1",
        // Row 61 of the argv table, and its kin.
        "a=b -A",
        "a=b&watch=true",
        "a=b\n",
        "\na=b",
        "a=b\r",
        "a=b\t",
        "a=\u{a0}b",
        "a=$(id)",
        "a=`id`",
        "a=b;id",
        "-A",
        "--all",
        "-a=b",
        "a-=b",
        "a=-b",
        "a=b-",
        "_a=b",
        ".a=b",
        "a=.b",
        "a=_b",
        "a=b.",
        "a=b/c",
        "a=/etc",
        "a/b/c=d",
        "/a=b",
        "a/=b",
        "a//b=c",
        "A/b=c",
        "a_b/c=d",
        "-a/b=c",
        "a-/b=c",
        "a..b/c=d",
        "a=b:c",
        "a:b=c",
        "a=\"b\"",
        "a='b'",
        "a=*",
        "*",
        "a=b%2C",
        "a=\u{e4}",
        "\u{e4}=a",
        "a=b\u{202e}",
        "a=\u{200b}b",
        "a=b\0",
        "a=\u{663}",
        "a@b=c",
        "a+b=c",
        "a=b\\,c",
        "a=b|c",
        "a=~b",
        // Row 31: kubectl finds its own flag inside.
        "x--kuberc=/path",
        "x--kuberc=path",
        "x--kuberc",
        "a=b,x--kuberc=p",
        "a=x--kuberc",
        "x--kuberc==p",
        "x--KUBERC=p",
        "x__kuberc=p",
        "x--kuberc=p,a",
        "x--kuberc-y=p",
        "x.y/z--kuberc=p",
    ];
    for text in cases.into_iter().chain([long_key.as_str(), &long_value, &long_prefix, &huge]) {
        assert!(text.parse::<LabelSelector>().is_err(), "{text:?} became {}", canonical(text));
    }
}

#[test]
fn a_fault_is_said_in_words() {
    let of = |text: &str| text.parse::<LabelSelector>().unwrap_err().to_string();
    assert_eq!(of(""), "has its end where a key should be");
    assert_eq!(of("a=b c"), "has `c` where a comma or the end should be");
    assert_eq!(of("a in b"), "has `b` where `(` should be");
    assert_eq!(of("a b"), "has `b` where `=`, `!=`, `in`, `notin`, a comma or the end should be");
    assert!(of("a=$(id)").contains("`$`"), "{}", of("a=$(id)"));
    assert!(of("a=b\u{202e}").contains(r"\u{202e}"), "{}", of("a=b\u{202e}"));
}

fn part() -> impl Strategy<Value = String> {
    "[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?"
}

fn requirement() -> impl Strategy<Value = String> {
    let key = (prop::option::of("[a-z0-9]{1,5}(\\.[a-z0-9]{1,5})?/"), part())
        .prop_map(|(prefix, name)| prefix.unwrap_or_default() + &name);
    let values = prop::collection::vec(part(), 1..4).prop_map(|values| values.join(","));
    (key, part(), values, 0..6).prop_map(|(key, value, values, form)| match form {
        0 => key,
        1 => format!("!{key}"),
        2 => format!("{key}={value}"),
        3 => format!("{key} != {value}"),
        4 => format!("{key} in ({values})"),
        _ => format!("{key} notin ( {values} )"),
    })
}

proptest! {
    #![proptest_config(properties(2000))]

    #[test]
    fn the_one_form_is_read_as_itself(terms in prop::collection::vec(requirement(), 1..5)) {
        let once = canonical(&terms.join(" , "));
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn any_text_is_refused_or_comes_out_in_plain_characters(text in "[ -~]{0,24}|\\PC{0,12}|[ab=!,() -]{0,16}") {
        if let Ok(selector) = text.parse::<LabelSelector>() {
            let written = selector.to_string();
            prop_assert!(!written.is_empty() && !written.starts_with('-') && !written.contains("--kuberc"));
            prop_assert!(written.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./!=(), ".contains(&b)), "{}", written);
            prop_assert_eq!(written.parse::<LabelSelector>().unwrap(), selector);
        }
    }
}
