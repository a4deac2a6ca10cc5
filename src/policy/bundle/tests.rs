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
