//! Paths and modes, accepted and refused.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::plan::properties;

fn file(path: &str, mode: Option<&str>) -> InputFile {
    InputFile { path: path.to_owned(), content: Bytes::new(), mode: mode.map(str::to_owned) }
}

fn faults(files: &[InputFile]) -> Vec<(String, String)> {
    match super::files(files) {
        Ok(_) => Vec::new(),
        Err(reasons) => reasons.into_iter().map(|reason| (reason.code, reason.field)).collect(),
    }
}

fn fault(code: &str, field: &str) -> (String, String) {
    (code.to_owned(), field.to_owned())
}

#[test]
fn ordinary_paths_are_taken_as_they_are() {
    let longest = "n".repeat(255);
    for path in [
        "gen.py",
        "src/main.py",
        ".env",
        "..a",
        "a..",
        "...",
        "a b",
        "-rf",
        "ünïcode/日本.txt",
        "a:b",
        &longest,
    ] {
        let planned = super::files(&[file(path, None)]).unwrap();
        assert_eq!(planned.first().map(|file| file.path.as_str()), Some(path));
    }
}

#[test]
fn a_path_out_of_the_work_directory_is_refused() {
    let long_component = "n".repeat(256);
    let long_path = "a/".repeat(2048) + "a";
    let rows = [
        "",
        "/",
        "/etc/passwd",
        ".",
        "..",
        "../a",
        "a/..",
        "a/../b",
        "./a",
        "a/./b",
        "a/.",
        "a//b",
        "a/",
        "//a",
        "a\\b",
        "..\\a",
        "a\0b",
        "a\nb",
        "a\u{7f}",
        "a\u{85}",
        "a\u{202e}txt",
        "a\u{2028}b",
        &long_component,
        &long_path,
    ];
    for path in rows {
        assert_eq!(
            faults(&[file("ok", None), file(path, None)]),
            [fault("files.path", "/files/1/path")],
            "{path:?}"
        );
    }
}

#[test]
fn a_refusal_says_what_is_wrong_and_where() {
    let reasons = super::files(&[file("/etc/passwd", None)]).unwrap_err();
    let messages: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
    assert_eq!(messages, ["file path `/etc/passwd` is absolute"]);
}

#[test]
fn modes_are_three_octal_digits() {
    for (text, mode) in
        [("0644", 0o644), ("644", 0o644), ("755", 0o755), ("0777", 0o777), ("000", 0), ("0000", 0)]
    {
        assert_eq!(
            super::files(&[file("a", Some(text))]).unwrap().first().map(|file| file.mode),
            Some(mode),
            "{text}"
        );
    }
    assert_eq!(super::files(&[file("a", None)]).unwrap().first().map(|file| file.mode), Some(0o644));
    for text in [
        "",
        "7",
        "44",
        "0o755",
        "0x1ff",
        "00644",
        "888",
        "rwx",
        "u+x",
        "-644",
        "+644",
        " 644",
        "4755",
        "2755",
        "1777",
        "\u{661}44",
    ] {
        assert_eq!(faults(&[file("a", Some(text))]), [fault("files.mode", "/files/0/mode")], "{text:?}");
    }
}

#[test]
fn one_path_holds_one_thing() {
    let rows: [(&[&str], &[usize]); 6] = [
        (&["a", "b", "a"], &[2]),
        (&["a/b", "a"], &[0]),
        (&["a", "x", "a/b/c"], &[2]),
        // Sorted as text, `a-b` would stand between `a` and `a/b`.
        (&["a", "a-b", "a.b", "a/b"], &[3]),
        (&["a/b", "a/c", "ab", "a.b", "b/a"], &[]),
        (&["a", "a", "a/b"], &[1, 2]),
    ];
    for (paths, expected) in rows {
        let files: Vec<InputFile> = paths.iter().map(|path| file(path, None)).collect();
        let expected: Vec<_> =
            expected.iter().map(|index| fault("files.duplicate", &format!("/files/{index}/path"))).collect();
        assert_eq!(faults(&files), expected, "{paths:?}");
    }
}

#[test]
fn reasons_are_many_but_bounded() {
    let mixed = [file("/a", Some("9")), file("b", None), file("../c", None)];
    assert_eq!(
        faults(&mixed),
        [
            fault("files.path", "/files/0/path"),
            fault("files.mode", "/files/0/mode"),
            fault("files.path", "/files/2/path")
        ]
    );
    let many: Vec<InputFile> = (0..1000).map(|_| file("/a", Some("9"))).collect();
    assert!(faults(&many).len() <= 2 * MAX_REASONS);
}

#[test]
fn a_work_directory_is_an_absolute_path_of_its_own() {
    assert_eq!(workdir(None).unwrap(), "/work");
    let rows = [
        ("/work", "/work"),
        ("/work/", "/work"),
        ("/tmp", "/tmp"),
        ("/tmp/x", "/tmp/x"),
        ("/usr/src/app", "/usr/src/app"),
        ("/home/user", "/home/user"),
        ("/process", "/process"),
        ("/kubepermit-2", "/kubepermit-2"),
        ("/a/..b", "/a/..b"),
    ];
    for (text, path) in rows {
        assert_eq!(workdir(Some(text)).unwrap(), path);
    }
    let long = format!("/{}", "a/".repeat(2048));
    let rows = [
        "",
        "/",
        "//",
        "work",
        "./work",
        "../work",
        "~",
        "/..",
        "/a/..",
        "/a/../b",
        "/a/./b",
        "/a//b",
        "/a//",
        "/proc",
        "/proc/",
        "/proc/self",
        "/sys",
        "/sys/fs/cgroup",
        "/dev",
        "/dev/shm",
        "/kubepermit",
        "/kubepermit/",
        "/kubepermit/x",
        "/bin",
        "/usr",
        "/usr/bin",
        "/lib",
        "/etc",
        "/etc/",
        "/a b",
        "/a:b",
        "/a\0",
        "/a\n",
        "/$(id)",
        "/`id`",
        "/a'b",
        "/a\\b",
        "/\u{e9}",
        &long,
    ];
    for text in rows {
        let reason = workdir(Some(text)).unwrap_err();
        assert_eq!(
            (reason.code.as_str(), reason.field.as_str()),
            ("workdir.invalid", "/workdir"),
            "{text:?}"
        );
    }
}

proptest! {
    #![proptest_config(properties(512))]

    /// An accepted path, followed component by component, never leaves the directory that it starts in.
    #[test]
    fn an_accepted_path_stays_inside(path in "[a./\\\\-]{0,12}|\\PC{0,12}|.{0,12}") {
        if super::files(&[file(&path, None)]).is_ok() {
            let components: Vec<_> = std::path::Path::new(&path).components().collect();
            let inside =
                components.iter().all(|component| matches!(component, std::path::Component::Normal(_)));
            prop_assert!(!components.is_empty() && inside);
            let joined: std::path::PathBuf = components.iter().collect();
            prop_assert_eq!(joined.to_str(), Some(path.as_str()));
        }
    }

    /// The neighbour comparison finds a conflict exactly when comparing every pair does.
    #[test]
    fn conflicts_are_found_as_by_comparing_every_pair(
        paths in prop::collection::vec("[ab][.-]?(/[ab][.-]?){0,2}", 0..6),
    ) {
        let files: Vec<InputFile> = paths.iter().map(|path| file(path, None)).collect();
        let conflict = paths.iter().enumerate().any(|(i, a)| {
            paths.iter().enumerate().any(|(j, b)| i != j && (a == b || b.starts_with(&format!("{a}/"))))
        });
        prop_assert_eq!(!faults(&files).is_empty(), conflict);
    }

    #[test]
    fn an_accepted_work_directory_is_normal(text in "(/[a-z.]{0,4}){0,4}|.{0,12}") {
        if let Ok(path) = workdir(Some(&text)) {
            let rebuilt: std::path::PathBuf = std::path::Path::new(&path).components().collect();
            prop_assert_eq!(rebuilt.to_str(), Some(path.as_str()));
            prop_assert!(path.starts_with('/') && path.len() > 1);
            prop_assert!(!path.split('/').any(|component| component == ".."));
        }
    }
}
