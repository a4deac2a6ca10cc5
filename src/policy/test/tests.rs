//! The runner: what passes, and what must not.

use super::*;

#[test]
fn the_shipped_bundles_tests_pass() {
    let report = run(&BundleSource::BuiltIn).unwrap();
    let bad: Vec<_> = report
        .tests
        .iter()
        .filter(|test| test.outcome != TestOutcome::Pass)
        .collect();
    assert!(report.passed(), "{bad:#?}\n{:#?}", report.problems);
}
