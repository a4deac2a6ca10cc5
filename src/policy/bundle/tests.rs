//! Directories that are bundles, and directories that are not.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

fn dir(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

fn read(dir: &Path) -> Result<Bundle, LoadError> {
    Bundle::read(&BundleSource::Directory(dir.to_owned()))
}

#[track_caller]
fn rejected(dir: &Path, file: &str, expected: Problem) {
    match read(dir) {
        Err(LoadError::Rejected { at, problem }) => {
            assert_eq!((at.file.as_str(), problem), (file, expected));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bundle_is_its_rego_files_its_tests_and_its_data() {
    let dir = dir(&[
        ("data.yaml", b"config: {}"),
        ("main.rego", b"package kubepermit"),
        ("site/a.rego", b"package site"),
        ("tests/main_test.rego", b"package main_test"),
        ("README.md", b"\xff"),
        (".git/config.json", b"{}"),
    ]);
    let bundle = read(dir.path()).unwrap();
    let rules: Vec<_> = bundle.rules().map(|(path, _)| path).collect();
    assert_eq!(rules, ["main.rego", "site/a.rego"]);
    assert_eq!(bundle.modules().count(), 3);
    assert_eq!(bundle.data().unwrap(), "config: {}");
}

#[test]
fn a_bundle_needs_data() {
    let dir = dir(&[("main.rego", b"package kubepermit")]);
    assert!(matches!(read(dir.path()).unwrap().data(), Err(LoadError::Bundle(_))));
}

#[test]
fn a_directory_that_is_not_there_is_an_error_that_names_it() {
    let error = read(Path::new("/nonexistent/policies")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read `/nonexistent/policies`");
}

#[test]
fn data_that_would_be_ignored_is_refused() {
    for file in ["data.json", "data.yml", "more.yaml", "site/data.yaml", "tests/cases.yaml"] {
        rejected(dir(&[(file, b"{}")]).path(), file, Problem::StrayData);
    }
}

#[test]
fn text_is_plain_utf_8() {
    rejected(dir(&[("a.rego", b"package site # \xff")]).path(), "a.rego", Problem::NotUtf8);
    rejected(dir(&[("a.rego", b"\xef\xbb\xbfpackage site")]).path(), "a.rego", Problem::ByteOrderMark);
    rejected(dir(&[("data.yaml", b"\xef\xbb\xbfconfig: {}")]).path(), "data.yaml", Problem::ByteOrderMark);
}

/// Each makes the engine, or an editor, see another file than the one that is there.
#[test]
fn text_shows_what_it_says() {
    for c in [
        '\0',
        '\u{1}',
        '\u{8}',
        '\u{b}',
        '\u{c}',
        '\u{1a}',
        '\u{1b}',
        '\u{7f}',
        '\u{85}',
        '\u{9f}',
        '\u{a0}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{2003}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{3000}',
        '\u{3164}',
        '\u{feff}',
        '\u{e0041}',
    ] {
        for text in [
            format!("package site\n{c}\ndeny contains 1\n"),
            format!("package site\n# a note {c}deny contains 1\n"),
            format!("package site\nx := \"a{c}b\"\n"),
            format!("package site\nx := `a{c}b`\n"),
        ] {
            let expected = Problem::Character(u32::from(c));
            let bundle = dir(&[("a.rego", text.as_bytes())]);
            match read(bundle.path()) {
                Err(LoadError::Rejected { at, problem }) => {
                    assert_eq!((at.to_string().as_str(), problem), ("a.rego:2", expected));
                }
                other => panic!("{c:?}: {other:?}"),
            }
        }
        let data = format!("config: {{}} # {c}");
        rejected(
            dir(&[("data.yaml", data.as_bytes())]).path(),
            "data.yaml",
            Problem::Character(u32::from(c)),
        );
    }
    // A carriage return alone: a new line to many editors, the rest of the comment to the engine.
    let hidden = b"package site\n# a note\rdeny contains 1\n";
    rejected(dir(&[("a.rego", hidden)]).path(), "a.rego", Problem::Character(0x0d));
    let plain = "package site\r\n\tx := \"Gr\u{fc}\u{df}e \u{2714}\u{fe0f} \u{65e5}\u{672c} \u{5d0}\"\r\n";
    read(dir(&[("a.rego", plain.as_bytes())]).path()).unwrap();
}

#[test]
fn a_file_that_would_be_ignored_is_refused() {
    for file in [
        "x.REGO",
        "x_test.REGO",
        "x.Rego",
        "x.rego.bak",
        "x.rego~",
        "x.rego.txt",
        "x.rego.md",
        "x.REGO.md",
        ".x.rego",
        ".rego",
        "x.rego ",
        "x",
        "Makefile",
        "x.txt",
        "tests/cases.csv",
        "readme.MD",
        ".manifest",
        "deny",
        "site/x.reg",
        ".x.rego.swp",
        ".hidden/x.rego",
    ] {
        rejected(dir(&[(file, b"package site")]).path(), file, Problem::UnknownFile);
    }
    for file in ["DATA.yaml", "data.YAML", "x.YML", "x.Json", ".data.yaml", ".signatures.json"] {
        rejected(dir(&[(file, b"{}")]).path(), file, Problem::StrayData);
    }
    let aside = [
        "README.md",
        "docs/notes.md",
        "README",
        "README.txt",
        "LICENSE",
        "NOTICE",
        "CODEOWNERS",
        "OWNERS",
        ".gitignore",
        ".git/config.json",
        ".github/x.yml",
        ".DS_Store",
        ".regal/config.yaml",
        "..2026_01/x.rego",
        "tests/.gitkeep",
    ];
    let files: Vec<(&str, &[u8])> = aside.iter().map(|file| (*file, b"\0".as_slice())).collect();
    assert_eq!(read(dir(&files).path()).unwrap().modules().count(), 0);
}

#[test]
fn a_file_has_a_largest_size() {
    let mut module = vec![b'\n'; MAX_REGO_BYTES as usize];
    read(dir(&[("a.rego", &module)]).path()).unwrap();
    module.push(b'\n');
    rejected(dir(&[("a.rego", &module)]).path(), "a.rego", Problem::TooLarge { limit: MAX_REGO_BYTES });
    let data = vec![b'\n'; MAX_DATA_BYTES as usize + 2];
    rejected(dir(&[("data.yaml", &data)]).path(), "data.yaml", Problem::TooLarge { limit: MAX_DATA_BYTES });
}

#[test]
fn a_link_stays_in_the_bundle() {
    let outside = dir(&[("secret.rego", b"package site")]);
    // As a ConfigMap is mounted.
    let good = dir(&[("..2026/main.rego", b"package kubepermit")]);
    symlink("..2026", good.path().join("..data")).unwrap();
    symlink("..data/main.rego", good.path().join("main.rego")).unwrap();
    assert_eq!(read(good.path()).unwrap().rules().count(), 1);
    // The bundle itself may be reached by a link.
    let link = outside.path().join("link");
    symlink(good.path(), &link).unwrap();
    assert_eq!(read(&link).unwrap().rules().count(), 1);

    for target in [
        outside.path().join("secret.rego"),
        PathBuf::from("../").join(outside.path().file_name().unwrap()).join("secret.rego"),
        PathBuf::from("/etc"),
        PathBuf::from("."),
    ] {
        let dir = dir(&[("data.yaml", b"config: {}")]);
        symlink(&target, dir.path().join("a.rego")).unwrap();
        rejected(dir.path(), "a.rego", Problem::Symlink);
    }
    let dangling = dir(&[]);
    symlink("nowhere", dangling.path().join("a.rego")).unwrap();
    assert!(matches!(read(dangling.path()), Err(LoadError::Read { .. })));
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = dir(&[]);
    std::os::unix::net::UnixListener::bind(dir.path().join("a.rego")).unwrap();
    rejected(dir.path(), "a.rego", Problem::NotAFile);
}

#[test]
fn folders_have_a_deepest_level() {
    let deep = format!("{}a.rego", "d/".repeat(MAX_FOLDERS_DEEP + 1));
    assert!(read(dir(&[(&deep, b"package site")]).path()).is_err());
    let deep = format!("{}a.rego", "d/".repeat(MAX_FOLDERS_DEEP));
    assert!(read(dir(&[(&deep, b"package site")]).path()).is_ok());
}
