//! URLs, refs and lists: what is taken, what is not, and what they become.

use super::*;

fn url(text: &str) -> Result<String, &'static str> {
    text.parse::<RepoUrl>().map(|url| url.to_string())
}

/// By RFC 3986 and git-clone(1) these name one repository each.
#[test]
fn urls_come_out_in_one_form() {
    for (written, wanted) in [
        ("https://github.com/owner/tool", "https://github.com/owner/tool"),
        ("https://GitHub.COM/Owner/Tool.git", "https://github.com/Owner/Tool.git"),
        ("https://github.com:443/owner/tool/", "https://github.com/owner/tool"),
        ("https://git.example.com:8443/~me/a_b.c+d-e", "https://git.example.com:8443/~me/a_b.c+d-e"),
        ("https://xn--bcher-kva.example/a", "https://xn--bcher-kva.example/a"),
        ("https://dev.azure.com/o/My%20Project/_git/r", "https://dev.azure.com/o/My%20Project/_git/r"),
        ("https://a.example/%c3%a4", "https://a.example/%C3%A4"),
        ("https://localhost/a", "https://localhost/a"),
        ("https://1password.com/a/b", "https://1password.com/a/b"),
    ] {
        assert_eq!(url(written).as_deref(), Ok(wanted), "{written}");
    }
}

/// Where two parsers might disagree, or git would do more than fetch over https.
#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for text in [
        "",
        "github.com/owner/tool",
        "http://github.com/a",
        "HTTPS://github.com/a",
        "ssh://git@github.com/a",
        "git@github.com:owner/tool",
        "file:///etc",
        "ext::sh -c id",
        "-u",
        " https://github.com/a",
        "https://github.com",
        "https://github.com/",
        "https:///a",
        "https://user@github.com/a",
        "https://user:token@github.com/a",
        "https://github.com/a@b",
        "https://github.com/a?x=1",
        "https://github.com/a#b",
        "https://github.com./a",
        "https://github..com/a",
        "https://-github.com/a",
        "https://git_hub.com/a",
        "https://bücher.example/a",
        "https://github%2ecom/a",
        "https://github.com%2f.evil.com/a",
        "https://github.com\\.evil.com/a",
        "https://127.0.0.1/a",
        "https://127.1/a",
        "https://2130706433/a",
        "https://0x7f000001/a",
        "https://0x7f.0x1/a",
        "https://017700000001/a",
        "https://[::1]/a",
        "https://[::1]:443/a",
        "https://github.com:/a",
        "https://github.com:0/a",
        "https://github.com:0443/a",
        "https://github.com:65536/a",
        "https://github.com:+443/a",
        "https://github.com:443:443/a",
        "https://github.com/a//b",
        "https://github.com//a",
        "https://github.com/a/../b",
        "https://github.com/./a",
        "https://github.com/%2e%2e/a",
        "https://github.com/a%2fb",
        "https://github.com/%61",
        "https://github.com/%00",
        "https://github.com/a%",
        "https://github.com/a%2",
        "https://github.com/a%zz",
        "https://github.com/a b",
        "https://github.com/a\nb",
        "https://github.com/a\u{202e}b",
        "https://github.com/$(id)",
        "https://github.com/a;b",
        "https://github.com/a'b",
    ] {
        assert!(url(text).is_err(), "{text:?} became {:?}", url(text));
    }
    let long = format!("https://github.com/{}", "a".repeat(2048));
    assert!(url(&long).is_err());
}

#[test]
fn a_lists_entry_is_a_host_perhaps_with_port_and_path() {
    let parse = |text: &str| CloneHost::parse_entry(text).map(|(host, path)| (host.key(), path));
    assert_eq!(parse("GitHub.com"), Ok(("github.com:443".to_owned(), String::new())));
    assert_eq!(parse("git.a:8443"), Ok(("git.a:8443".to_owned(), String::new())));
    assert_eq!(parse("github.com/my-org/"), Ok(("github.com:443".to_owned(), "/my-org".to_owned())));
    for bad in
        ["", "https://github.com", "*.github.com", "github.com/", "10.0.0.1", "github.com/a/../b", "a b", "*"]
    {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

/// The rules of git-check-ref-format(1), each with one that breaks it; git itself agrees, where it is installed.
#[test]
fn refs_are_gits() {
    let good = [
        "main",
        "v1.2.3",
        "feature/x",
        "release..1".trim_end_matches("..1"),
        "a-b_c",
        "refs/heads/main",
        "HEAD",
        "ünï",
        "a@b",
        "a.lock.b",
        "0",
    ];
    let bad = [
        "",
        "-x",
        "--upload-pack=id",
        "a..b",
        "a b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[",
        "a\\b",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "a@{1}",
        "@",
        "a\u{7f}",
        "a\nb",
        "a\tb",
    ];
    for name in good {
        assert!(name.parse::<GitRef>().is_ok(), "{name}");
        if let Ok(status) = git_says(name) {
            assert!(status, "git refuses {name}");
        }
    }
    for name in bad {
        assert!(name.parse::<GitRef>().is_err(), "{name:?}");
        // git-branch refuses a leading dash, the format alone does not.
        if !name.starts_with('-')
            && let Ok(status) = git_says(name)
        {
            assert!(!status, "git takes {name:?}");
        }
    }
    assert!("a\u{202e}b".parse::<GitRef>().is_err(), "git would show it in another order");
    assert!("a".repeat(256).parse::<GitRef>().is_err());
}

fn git_says(name: &str) -> std::io::Result<bool> {
    let check =
        std::process::Command::new("git").args(["check-ref-format", "--allow-onelevel", name]).status()?;
    Ok(check.success())
}

#[test]
fn a_branch_comes_before_a_tag_and_a_commit_is_itself() {
    let of = |text: &str| text.parse::<GitRef>().unwrap().candidates();
    assert_eq!(of("main"), ["refs/heads/main", "refs/tags/main"]);
    assert_eq!(of("refs/pull/1/head"), ["refs/pull/1/head"]);
    assert_eq!(of("HEAD"), ["HEAD"]);
    let id = "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709";
    assert_eq!(of(id), [id.to_ascii_lowercase()]);
    assert_eq!(of("da39a3ee"), ["refs/heads/da39a3ee", "refs/tags/da39a3ee"]);
}
