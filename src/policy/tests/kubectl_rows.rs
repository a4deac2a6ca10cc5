//! What kubectl can be asked for, and what becomes of it here: `tests/golden/kubectl-argv.jsonl`.
//!
//! A line is an argv, as somebody would type it behind `kubectl`, with a verdict. Rows 1 to 72 were run on
//! kubectl 1.30 to 1.35 to see what each does; those from 101 on are variations. Where a tool's arguments can
//! express the row, they are on the line, and the stages must refuse them with that code, or allow them. Every
//! refused argv is held against the rules directly too, wherever it could stand in an argv that they allow.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::reads::{OVERLAY, document, judged, rules};
use super::*;

const ROWS: &str = include_str!("../../../tests/golden/kubectl-argv.jsonl");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    row: u32,
    verdict: Expected,
    argv: Vec<String>,
    tool: Option<String>,
    arguments: Option<Value>,
    code: Option<String>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Allow,
    Refuse,
}

fn rows() -> Vec<Row> {
    ROWS.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

#[test]
fn the_table_is_whole() {
    let rows = rows();
    for number in 1..=72 {
        assert!(rows.iter().any(|row| row.row == number), "row {number} is missing");
    }
    assert!(rows.iter().filter(|row| row.row > 100).count() >= 90);
    for row in &rows {
        // An allowed row is nothing without a call, and a refusal has a code.
        let has_call = row.tool.is_some();
        assert_eq!(row.arguments.is_some() || row.code.is_some(), has_call, "row {}", row.row);
        assert!(row.verdict == Expected::Refuse || (has_call && row.code.is_none()), "row {}", row.row);
    }
}

#[test]
fn each_call_comes_to_its_verdict() {
    let policy = rules(&OVERLAY);
    let (mut seen, mut wrong) = (0, Vec::new());
    for Row { row, verdict, argv, tool, arguments, code } in rows() {
        let Some(tool) = tool else { continue };
        let arguments = arguments.unwrap_or_default();
        seen += 1;
        let came_to = judged(&policy, &tool, arguments.clone());
        let right = match (&came_to, verdict) {
            (Ok(_), Expected::Allow) => true,
            (Err(codes), Expected::Refuse) => codes.iter().eq(code.iter()),
            (Ok(_), Expected::Refuse) | (Err(_), Expected::Allow) => false,
        };
        if !right {
            wrong.push(format!("row {row} {argv:?}: {tool} {arguments} came to {came_to:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 150, "only {seen} rows are calls");
}

/// The second lock: whatever a fault in the gateway would let through, the rules refuse.
#[test]
fn each_refused_argv_is_refused_by_the_rules() {
    let policy = rules(&OVERLAY);
    let harmless = [
        document("list_pods", json!({ "namespace": "dev" })),
        document("describe_resource", json!({ "namespace": "dev", "kind": "service", "name": "web" })),
        document("pod_logs", json!({ "namespace": "dev", "name": "p1" })),
    ];
    for input in &harmless {
        assert!(policy.decide(input.clone()).allow, "{}", input["kubectl"]);
    }
    let (mut tried, mut judged, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    for row in rows() {
        if row.verdict == Expected::Allow || !tried.insert(row.argv.clone()) {
            continue;
        }
        // Each argv is held against one of the three; against all, they say the same and take three times as long.
        let harmless = &harmless[tried.len() % 3];
        for (place, argv) in attempts(&row.argv, harmless) {
            let mut input = harmless.clone();
            let end = argv.iter().position(|token| token == "--").unwrap_or(argv.len());
            // The facts say truthfully what is known of the argv, so that its tokens are at fault and they are not.
            let flags: Vec<_> =
                argv[..end].iter().skip(1).filter_map(|token| token.split('=').next()).collect();
            input["kubectl"]["flags"] = json!(flags);
            input["kubectl"]["argv"] = json!(argv);
            let decision = policy.decide(input);
            judged += 1;
            if decision.allow || !decision.deny.iter().all(|reason| reason.code.starts_with("reads.")) {
                wrong.push(format!("row {}, {place}: {argv:?} {:?}", row.row, decision.deny));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(judged > 1000, "only {judged} argvs were judged");
}

/// The argv as it is, and its tokens in each place of an argv that is allowed.
fn attempts(hostile: &[String], harmless: &Value) -> Vec<(&'static str, Vec<String>)> {
    let mut attempts = vec![("as it is", hostile.to_vec())];
    let verbs = ["get", "describe", "logs", "version", "api-resources", "explain", "top"];
    let tokens = match hostile.split_first() {
        Some((first, rest)) if verbs.contains(&first.as_str()) => rest,
        Some(_) | None => hostile,
    };
    let argv: Vec<String> = serde_json::from_value(harmless["kubectl"]["argv"].clone()).unwrap();
    let separator = argv.iter().position(|token| token == "--").unwrap();
    let places = [("first", 1), ("before --", separator), ("behind --", separator + 1), ("last", argv.len())];
    for (place, at) in places.into_iter().filter(|_| !tokens.is_empty()) {
        let mut argv = argv.clone();
        argv.splice(at..at, tokens.iter().cloned());
        attempts.push((place, argv));
    }
    attempts
}
