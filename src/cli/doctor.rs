//! `kubepermit doctor`: what works, what had better be otherwise, and what does not work.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::app;
use crate::caller::Caller;
use crate::cli::{GatewayOptions, exit, terminal};
use crate::finding::{Finding, Verdict};
use crate::output::clean;
use crate::{config, telemetry};

pub(super) async fn run(options: &GatewayOptions) -> anyhow::Result<ExitCode> {
    telemetry::start(options.log()).map_err(anyhow::Error::msg)?;
    let config = config::Config::read(&options.typed(), &config::Environment::read())?;
    let findings = app::examine(&config, &Caller::at_command_line()).await;
    if terminal::person_reads() {
        terminal::print(&text(&findings))?;
    } else {
        terminal::print(&serde_json::to_string_pretty(&document(&findings))?)?;
    }
    let code = if count(&findings, Verdict::Failed) == 0 { exit::SUCCESS } else { exit::FAILED };
    Ok(ExitCode::from(code))
}

fn count(findings: &[Finding], verdict: Verdict) -> usize {
    findings.iter().filter(|finding| finding.verdict == verdict).count()
}

fn document(findings: &[Finding]) -> Value {
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "check": finding.check,
                "about": finding.about,
                "verdict": finding.verdict.as_str(),
                "found": finding.found,
                "remedy": finding.remedy,
            })
        })
        .collect();
    json!({
        "passed": count(findings, Verdict::Failed) == 0,
        "failed": count(findings, Verdict::Failed),
        "warnings": count(findings, Verdict::Warning),
        "checks": checks,
    })
}

/// A table for a reader: verdict, check, what was seen; below it, what to do.
fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Ok => "OK",
            Verdict::Skipped => "SKIP",
            Verdict::Warning => "WARN",
            Verdict::Failed => "FAIL",
        };
        let about = if finding.about.is_empty() { String::new() } else { format!("{}: ", finding.about) };
        lines.push(one_line(&format!("{word:4}  {:width$}  {about}{}", finding.check, finding.found)));
        if !finding.remedy.is_empty() {
            lines.push(one_line(&format!("{:width$}        -> {}", "", finding.remedy)));
        }
    }
    let (failed, warnings) = (count(findings, Verdict::Failed), count(findings, Verdict::Warning));
    lines.push(format!("{} checks: {failed} failed, {warnings} warnings", findings.len()));
    lines.join("\n")
}

/// Fit for a terminal, whatever a path or a server's word holds.
fn one_line(text: &str) -> String {
    clean(text).text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{document, text};
    use crate::finding::Finding;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("cluster.reach", "v1.33.0").about("jobs"),
            Finding::warning("namespace.quota", "there is none", "make one"),
            Finding::failed("audit.place", "cannot write\u{1b}[31m\nhere", "mend it"),
            Finding::skipped("clone.secret", "not told"),
        ]
    }

    #[test]
    fn a_reader_gets_a_line_for_each_and_what_to_do() {
        let expected = "\
OK    cluster.reach    jobs: v1.33.0
WARN  namespace.quota  there is none
                       -> make one
FAIL  audit.place      cannot write here
                       -> mend it
SKIP  clone.secret     not told
4 checks: 1 failed, 1 warnings";
        assert_eq!(text(&findings()), expected);
    }

    #[test]
    fn a_program_gets_the_same_as_a_document() {
        let document = document(&findings());
        assert_eq!(document["passed"], json!(false));
        assert_eq!((&document["failed"], &document["warnings"]), (&json!(1), &json!(1)));
        let second = json!({ "check": "namespace.quota", "about": "", "verdict": "warning",
            "found": "there is none", "remedy": "make one" });
        assert_eq!(document["checks"][1], second);
        assert_eq!(document["checks"][3]["verdict"], json!("skipped"));
    }
}
