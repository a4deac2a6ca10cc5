//! The clone's script, run by a shell with a git that says what a server might.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::{ENVIRONMENT, SCRIPT};

/// Runs the script with a program in git's place, and a token. Gives the exit code and the output.
fn run(git: &str, token: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("git");
    fs::write(&program, format!("#!/bin/sh\n{git}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("token");
    fs::write(&file, token).unwrap();
    let output = Command::new("sh")
        .args(["-c", SCRIPT, "clone", "https://a/b", "https://a", "refs/heads/m", "refs/tags/m"])
        .arg(folder.path().join("repo"))
        .arg(&file)
        .arg(folder.path().join("ca.crt"))
        .arg(folder.path().join("before"))
        .env_clear()
        .envs(ENVIRONMENT)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
        .output()
        .unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_git_says_is_passed_on_without_the_token_in_either_form() {
    // `printf 'oauth2:%s' 'a*b[c\d' | base64`
    let basic = "b2F1dGgyOmEqYltjXGQ=";
    let (code, output) = run(
        &format!("printf '%s\\n' 'one a*b[c\\d two a*b[c\\da*b[c\\d' 'aXXb' '{basic}'; printf end; exit 7"),
        "a*b[c\\d\n",
    );
    assert_eq!(code, 7, "{output}");
    assert_eq!(output, "one [redacted] two [redacted][redacted]\naXXb\n[redacted]\nend\n");
}

#[test]
fn the_token_is_in_no_argument_and_no_variable_that_git_gets() {
    let (code, output) = run("printf '%s\\n' \"$@\"; env; exit 1", "s3cret-token\r\n");
    assert_eq!(code, 1);
    assert!(output.contains("credential.https://a.helper="), "{output}");
    // The mask would hide it, and shows where it was.
    assert!(!output.contains("[redacted]") && !output.contains("s3cret"), "{output}");
}

#[test]
fn what_git_is_told_leaves_it_no_other_way() {
    let (_, output) = run("printf '%s\\n' \"$@\"; exit 1", "");
    for setting in [
        "credential.helper=",
        "http.sslVerify=true",
        "http.followRedirects=false",
        "protocol.allow=never",
        "protocol.https.allow=always",
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "submodule.recurse=false",
    ] {
        assert!(output.lines().any(|line| line == setting), "{setting}: {output}");
    }
    assert!(!output.contains("credential.https"), "there is no token to ask for: {output}");
    assert!(output.contains("no token for https://a"), "{output}");
}
