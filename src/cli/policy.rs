//! `kubepermit policy`: write the bundle out, run its tests.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::{exit, terminal};
use crate::policy::test::{TestOutcome, TestReport};
use crate::policy::{self, BundleSource};

pub(super) fn init(directory: &Path) -> anyhow::Result<ExitCode> {
    let files = policy::init(directory)?;
    for file in &files {
        terminal::print(&file.display().to_string())?;
    }
    if terminal::person_reads() {
        let place = directory.display();
        terminal::print(&format!(
            "\nEdit data.yaml for an image, a namespace or a ceiling; then\n  kubepermit policy test --policies {place}\n  kubepermit serve --policies {place}"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn test(policies: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let source = policies.map_or(BundleSource::BuiltIn, BundleSource::Directory);
    let report = policy::test::run(&source)?;
    if terminal::person_reads() {
        show(&report)?;
    } else {
        terminal::print(&serde_json::to_string_pretty(&document(&report))?)?;
    }
    Ok(ExitCode::from(if report.passed() { exit::SUCCESS } else { exit::FAILED }))
}

/// The report for a reader: what failed and why, then the count.
fn show(report: &TestReport) -> anyhow::Result<()> {
    for test in &report.tests {
        let (word, cause) = word(&test.outcome);
        terminal::print(&format!("{word:5} {}.{} ({})", test.package, test.name, test.at))?;
        for line in cause.into_iter().chain(test.prints.iter().map(String::as_str)) {
            terminal::print(&format!("      {line}"))?;
        }
    }
    for problem in &report.problems {
        terminal::print(&format!("FAIL  {problem}"))?;
    }
    let count = |wanted: &str| report.tests.iter().filter(|test| word(&test.outcome).0 == wanted).count();
    let (passed, skipped) = (count("ok"), count("skip"));
    let failed = report.tests.len().saturating_sub(passed).saturating_sub(skipped);
    terminal::print(&format!("{passed} passed, {failed} failed, {skipped} skipped"))
}

fn document(report: &TestReport) -> Value {
    let tests: Vec<Value> = report
        .tests
        .iter()
        .map(|test| {
            let (word, cause) = word(&test.outcome);
            json!({
                "package": test.package,
                "name": test.name,
                "at": test.at.to_string(),
                "result": word,
                "cause": cause,
                "prints": test.prints,
            })
        })
        .collect();
    json!({ "passed": report.passed(), "tests": tests, "problems": report.problems })
}

fn word(outcome: &TestOutcome) -> (&'static str, Option<&str>) {
    match outcome {
        TestOutcome::Pass => ("ok", None),
        TestOutcome::Fail(cause) => ("FAIL", Some(cause)),
        TestOutcome::Error(cause) => ("ERROR", Some(cause)),
        TestOutcome::Skip => ("skip", None),
    }
}
