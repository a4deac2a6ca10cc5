//! The grammar against what Docker documents, and the properties that policies lean on.

use proptest::prelude::*;

use super::*;
use crate::plan::properties;

const SHA256: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn reference(text: &str) -> ImageReference {
    text.parse().unwrap_or_else(|reason| panic!("{text}: {reason:?}"))
}

fn allowed(references: &[&str]) -> AllowedImages {
    AllowedImages::new(references.iter().map(|text| reference(text)))
}

/// Normal forms as Docker prints them for `docker pull`.
#[test]
fn every_spelling_of_an_image_has_one_normal_form() {
    let rows = [
        (
            "docker.io/library/busybox:latest",
            vec![
                "busybox",
                "busybox:latest",
                "library/busybox",
                "docker.io/busybox",
                "docker.io/library/busybox",
                "index.docker.io/busybox",
                "index.docker.io/library/busybox:latest",
                "DOCKER.io/busybox",
            ],
        ),
        ("docker.io/library/busybox:1.36", vec!["busybox:1.36", "docker.io/library/busybox:1.36"]),
        ("docker.io/bitnami/kubectl:1", vec!["bitnami/kubectl:1", "index.docker.io/bitnami/kubectl:1"]),
        ("docker.io/library/a/b:latest", vec!["library/a/b", "docker.io/library/a/b"]),
        ("localhost/app:latest", vec!["localhost/app", "LOCALHOST/app:latest"]),
        ("localhost:5000/app:v1", vec!["localhost:5000/app:v1"]),
        ("host:5000/app:latest", vec!["host:5000/app"]),
        ("ghcr.io/a/b:1", vec!["ghcr.io/a/b:1", "GHCR.IO/a/b:1"]),
        ("xn--n3h.com/image:latest", vec!["xn--n3h.com/image"]),
        ("[2001:db8::1]:5000/app:1", vec!["[2001:db8::1]:5000/app:1"]),
        ("[::1]/app:latest", vec!["[::1]/app"]),
        // Without a dot, a colon or a capital the first component is a user of Docker Hub.
        ("docker.io/team/app:latest", vec!["team/app"]),
        ("Team/app:latest", vec!["Team/app"]),
        // Without a slash there is no registry: the colon starts a tag, the dot is part of the name.
        ("docker.io/library/host:5000", vec!["host:5000"]),
        ("docker.io/library/docker.io:latest", vec!["docker.io"]),
        ("docker.io/library/localhost:latest", vec!["localhost"]),
        ("docker.io/library/a__b.c-d--e_f:latest", vec!["a__b.c-d--e_f"]),
    ];
    for (normal, spellings) in rows {
        for spelling in spellings {
            assert_eq!(reference(spelling).key(), normal, "{spelling}");
        }
    }
}

#[test]
fn a_digest_stands_beside_or_in_place_of_the_tag() {
    let pinned = reference(&format!("busybox@{SHA256}"));
    assert_eq!(pinned.key(), format!("docker.io/library/busybox@{SHA256}"));
    assert_eq!((pinned.tag(), pinned.digest()), (None, Some(SHA256)));

    let both = reference(&format!("ghcr.io/a/b:1.2@{SHA256}"));
    assert_eq!(both.key(), format!("ghcr.io/a/b:1.2@{SHA256}"));
    assert_eq!((both.tag(), both.digest()), (Some("1.2"), Some(SHA256)));

    let sha512 = format!("busybox@sha512:{}", "ab".repeat(64));
    assert_eq!(reference(&sha512).key(), format!("docker.io/library/{sha512}"));
}

#[test]
fn a_reference_is_taken_apart() {
    let image = reference("registry.example.com:5000/team/app:v1");
    assert_eq!(image.registry(), "registry.example.com:5000");
    assert_eq!(image.repository(), "team/app");
    assert_eq!(image.tag(), Some("v1"));
    assert_eq!(image.digest(), None);
}

#[test]
fn the_familiar_form_is_what_a_person_writes() {
    let rows = [
        ("docker.io/library/busybox:1.36", "busybox:1.36"),
        ("busybox", "busybox:latest"),
        ("docker.io/bitnami/kubectl:1", "bitnami/kubectl:1"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        ("library/a/b:1", "library/a/b:1"),
        // Shortened, these would name another registry.
        ("docker.io/localhost/app:1", "docker.io/localhost/app:1"),
        ("docker.io/evil.io/app:1", "docker.io/evil.io/app:1"),
    ];
    for (text, familiar) in rows {
        assert_eq!(reference(text).familiar(), familiar, "{text}");
    }
}

#[test]
fn what_is_no_reference_is_refused() {
    let long_tag = format!("a:{}", "t".repeat(129));
    let long_name = format!("a/{}", "b".repeat(256));
    let image_id = "0123456789abcdef".repeat(4);
    let short_digest = format!("a@{}", SHA256.trim_end_matches('f'));
    let capital_digest = format!("a@{}", SHA256.to_uppercase().replace("SHA", "sha"));
    let two_digests = format!("a@{SHA256}@{SHA256}");
    let bare_digest = format!("@{SHA256}");
    let digest_then_tag = format!("a@{SHA256}:tag");
    let rows = [
        "",
        " ",
        "a b",
        " a",
        "a ",
        "a\n",
        "a\tb",
        "a\0",
        "a\u{7f}",
        "\u{feff}a",
        // Cyrillic, full-width, zero-width and combining look-alikes.
        "bu\u{455}ybox",
        "busybox\u{ff1a}1",
        "busy\u{200b}box",
        "busybox\u{301}",
        "Busybox",
        "busyBox:1",
        "a/B",
        "a//b",
        "/a",
        "a/",
        "//",
        "/",
        ":",
        "@",
        ":tag",
        "a:",
        "a@",
        "a:b:c",
        "a:tag/b:",
        "a___b",
        "a..b",
        "a._b",
        "a-_b",
        "_a",
        "a_",
        "-a",
        "a-",
        ".a",
        "a.",
        "a/-b",
        "../a",
        "a/../b",
        "./a",
        "--privileged",
        "-a/b",
        "https://ghcr.io/a",
        "user@ghcr.io/a",
        "ghcr.io/a?b",
        "ghcr.io/a#b",
        "a:-tag",
        "a:.tag",
        "a:t\u{e9}",
        "a:t+g",
        "host:/a",
        "host:0/a",
        "host:080/a",
        "host:65536/a",
        "host:99999/a",
        "host:12a/a",
        "host:+1/a",
        "host:1:2/a",
        "-host.com/a",
        "host-.com/a",
        "host..com/a",
        ".com/a",
        "host.com./a",
        "my_host.com/a",
        "Ho_st/a",
        "[::1/a",
        "[::1]x/a",
        "[::1]:/a",
        "[::g]/a",
        "[1.2]/a",
        "[::ffff:1.2.3.4]/a",
        "[]/a",
        "[::1]:5000",
        "a@sha256",
        "a@sha256:",
        "a@md5:d41d8cd98f00b204e9800998ecf8427e",
        "a@sha1:0",
        long_tag.as_str(),
        &long_name,
        &image_id,
        &short_digest,
        &capital_digest,
        &two_digests,
        &bare_digest,
        &digest_then_tag,
    ];
    for text in rows {
        let parsed = text.parse::<ImageReference>();
        let Err(reason) = parsed else {
            panic!("{text:?} parsed as {parsed:?}");
        };
        assert_eq!((reason.code.as_str(), reason.field.as_str()), ("image.invalid", "/image"), "{text:?}");
        assert!(!reason.hint.is_empty(), "{text:?}");
        assert!(!reason.message.chars().any(char::is_control), "{text:?}");
        assert!(reason.message.len() < 400, "{text:?}");
    }
}

#[test]
fn a_refusal_says_what_is_wrong() {
    for (text, what) in [
        ("a b", "has a space"),
        ("bu\u{455}ybox", "outside ASCII"),
        ("Busybox", "lower-case"),
        ("a:-", "its tag"),
        ("a@sha256:00", "its digest"),
        ("host:0/a", "its registry"),
    ] {
        let message = text.parse::<ImageReference>().unwrap_err().message;
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn the_longest_parts_are_taken() {
    reference(&format!("a:{}", "t".repeat(128)));
    // `docker.io/library/` has 18 characters.
    reference(&"a".repeat(255 - 18));
    assert!("a".repeat(256 - 18).parse::<ImageReference>().is_err());
    // An id has 64 hexadecimal digits; one more or less, or a tag, makes it a name again.
    reference(&"a".repeat(63));
    reference(&format!("{}:1", "a".repeat(64)));
}

#[test]
fn a_short_name_stands_for_the_one_listed_reference() {
    let images = allowed(&["busybox:1.36", "ghcr.io/astral-sh/uv:0.5", "busybox:1.36"]);
    assert_eq!(images.resolve("busybox").unwrap().reference.key(), "docker.io/library/busybox:1.36");
    let uv = images.resolve("uv").unwrap();
    assert_eq!((uv.requested.as_str(), uv.reference.key().as_str()), ("uv", "ghcr.io/astral-sh/uv:0.5"));
    assert_eq!(images.len(), 2);
}

/// The reference server runs its own `python` for every one of these.
#[test]
fn what_was_written_in_full_is_never_exchanged() {
    let images = allowed(&["python:3.12-slim", "ghcr.io/astral-sh/uv:0.5"]);
    let rows = [
        ("python:3.11", "docker.io/library/python:3.11"),
        ("python:latest", "docker.io/library/python:latest"),
        ("library/python", "docker.io/library/python:latest"),
        ("evil.io/x/python", "evil.io/x/python:latest"),
        ("evil/python:3.12-slim", "docker.io/evil/python:3.12-slim"),
        ("python-evil", "docker.io/library/python-evil:latest"),
        ("pytho", "docker.io/library/pytho:latest"),
        ("astral-sh/uv:0.5", "docker.io/astral-sh/uv:0.5"),
        ("ghcr.io.evil.com/astral-sh/uv:0.5", "ghcr.io.evil.com/astral-sh/uv:0.5"),
    ];
    for (requested, normal) in rows {
        let resolved = images.resolve(requested).unwrap().reference;
        assert_eq!(resolved.key(), normal, "{requested}");
        assert!(!images.contains(&resolved), "{requested}");
    }
    let pinned = format!("python@{SHA256}");
    assert!(!images.contains(&images.resolve(&pinned).unwrap().reference));
    for listed in ["python", "python:3.12-slim", "docker.io/library/python:3.12-slim", "uv"] {
        assert!(images.contains(&images.resolve(listed).unwrap().reference), "{listed}");
    }
}

#[test]
fn a_short_name_of_several_is_refused_with_the_candidates() {
    let images = allowed(&["python:3.12-slim", "ghcr.io/x/python:3", "python:3.11"]);
    let reason = images.resolve("python").unwrap_err();
    assert_eq!((reason.code.as_str(), reason.field.as_str()), ("image.ambiguous", "/image"));
    for candidate in ["python:3.12-slim", "ghcr.io/x/python:3", "python:3.11"] {
        assert!(reason.message.contains(candidate), "{}", reason.message);
    }

    let many: Vec<String> = (0..25).map(|tag| format!("app:{tag}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reason = allowed(&many).resolve("app").unwrap_err();
    assert_eq!(reason.message.matches("app:").count(), 10, "{}", reason.message);
    assert!(reason.message.contains("25") && reason.message.ends_with("and 15 more"), "{}", reason.message);
}

#[test]
fn an_invalid_name_is_refused_before_any_listing_is_asked() {
    for text in ["", "BusyBox", "bu\u{455}ybox", " busybox"] {
        assert_eq!(allowed(&["busybox:1.36"]).resolve(text).unwrap_err().code, "image.invalid", "{text:?}");
    }
}

#[test]
fn the_listing_is_sorted_and_familiar() {
    let images = allowed(&["python:3.12-slim", "docker.io/library/busybox:1.36", "ghcr.io/a/zsh:1"]);
    assert_eq!(images.listing(), ["busybox:1.36", "ghcr.io/a/zsh:1", "python:3.12-slim"]);
    assert!(AllowedImages::default().is_empty());
}

fn any_reference() -> impl Strategy<Value = String> {
    let registry = prop::option::of(prop_oneof![
        "[a-zA-Z0-9]([a-zA-Z0-9-]{0,5}[a-zA-Z0-9])?\\.[a-z]{1,5}(:[1-9][0-9]{0,3})?",
        "[a-z0-9]{1,8}:[1-9][0-9]{0,3}",
        "[A-Z][a-z]{0,5}",
        Just("localhost".to_owned()),
        Just("docker.io".to_owned()),
        Just("index.docker.io".to_owned()),
        Just("[::1]:5000".to_owned()),
    ]);
    let component = "[a-z0-9]{1,6}((\\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}";
    let path =
        prop::collection::vec(prop_oneof![component.boxed(), Just("library".to_owned()).boxed()], 1..4);
    let tag = prop::option::of("[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,12}");
    let digest = prop::option::of(prop_oneof!["sha256:[0-9a-f]{64}", "sha512:[0-9a-f]{128}"]);
    (registry, path, tag, digest).prop_map(|(registry, path, tag, digest)| {
        // A dotted first component would be a registry; behind one it is a path.
        let dotted = path.first().is_some_and(|first| first.contains('.'));
        let registry = registry.or_else(|| dotted.then(|| "docker.io".to_owned()));
        let mut text = registry.map(|registry| registry + "/").unwrap_or_default();
        text += &path.join("/");
        text += &tag.map(|tag| format!(":{tag}")).unwrap_or_default();
        text += &digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        text
    })
}

proptest! {
    #![proptest_config(properties(256))]

    #[test]
    fn both_forms_of_a_reference_parse_to_it_again(text in any_reference()) {
        let image = reference(&text);
        prop_assert_eq!(&reference(&image.key()), &image);
        prop_assert_eq!(reference(&image.key()).key(), image.key());
        prop_assert_eq!(&reference(&image.familiar()), &image);
        prop_assert!(image.tag().is_some() || image.digest().is_some());
    }

    /// Whatever parses, from nearly valid text, is plain ASCII and stays itself.
    #[test]
    fn nothing_else_parses_to_something_odd(text in "[a-cA-C0-1._:/@\\[\\]-]{0,12}|\\PC{0,12}|.{0,12}") {
        if let Ok(image) = text.parse::<ImageReference>() {
            prop_assert!(image.key().bytes().all(|b| b.is_ascii_graphic()));
            prop_assert_eq!(&reference(&image.key()), &image);
            prop_assert_eq!(&reference(&image.familiar()), &image);
        }
    }

    /// With exactly one reference listed, only its own spellings and its short name reach it.
    #[test]
    fn a_listing_admits_its_own_references_only(listed in any_reference(), asked in any_reference()) {
        let (listed, own) = (reference(&listed), reference(&asked));
        let images = AllowedImages::new([listed.clone()]);
        let resolved = images.resolve(&asked).unwrap().reference;
        prop_assert!(images.contains(&listed));
        if asked.contains(['/', ':', '@']) {
            prop_assert_eq!(&resolved, &own);
        }
        prop_assert_eq!(images.contains(&resolved), resolved == listed);
    }
}
