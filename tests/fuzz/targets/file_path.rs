//! Paths of input files: what is accepted stays below the work directory, and no two collide.
//!
//! The input is one path a line; the first is the work directory.
#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use kubepermit::plan::Plan;
use kubepermit_fuzz::{Front, is_told};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static FRONT: LazyLock<Front> = LazyLock::new(|| Front::new(&["busybox:1.36"]));

/// What the kernel makes of a path that starts in `base`, where there are no links.
fn resolved(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{base}/{path}") };
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let workdir = lines.next().unwrap_or_default();
    let paths: Vec<&str> = lines.take(20).collect();
    let files: Vec<Value> = paths.iter().map(|path| json!({ "path": path, "content_b64": "" })).collect();
    let mut arguments = json!({ "image": "busybox:1.36", "command": ["true"], "files": files });
    if !workdir.is_empty() {
        arguments["workdir"] = json!(workdir);
    }
    let plan = match FRONT.plan("run_job", arguments) {
        Ok((_, Plan::Job(plan))) => plan,
        Ok((_, Plan::Kubectl(_) | Plan::Handle(_))) => panic!("a job is no read"),
        Err(refusal) => return is_told(&refusal),
    };
    let workdir = plan.workdir();
    assert_eq!(resolved("", workdir), workdir, "the work directory has another name");
    for tree in ["/proc", "/sys", "/dev", "/kubepermit"] {
        assert!(workdir != tree && !workdir.starts_with(&format!("{tree}/")), "{workdir}");
    }
    assert!(!["/", "/etc", "/usr", "/bin", "/lib"].contains(&workdir), "{workdir}");
    assert!(!workdir.contains(':') && !workdir.contains('\0'));
    let mut places = BTreeSet::new();
    assert_eq!(plan.files().len(), paths.len());
    for file in plan.files() {
        let place = resolved(workdir, &file.path);
        assert_eq!(place, format!("{workdir}/{}", file.path), "it is another path");
        assert!(!file.path.contains('\0') && place.len() < 4096 + workdir.len());
        assert!(places.insert(place), "{} is there twice", file.path);
    }
    for place in &places {
        for above in &places {
            assert!(!place.starts_with(&format!("{above}/")), "{above} is a file and a directory");
        }
    }
});
