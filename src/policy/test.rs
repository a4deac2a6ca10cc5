//! Runs a bundle's unit tests, and does not let them pass emptily.
//!
//! A test is a rule in tests/ whose name begins with `test_`; `todo_test_` is skipped and said so. It passes
//! when its value is true.
//!
//! A table test in OPA's style, `test_limits[case] if {...}`, has an object for its value that holds the cases
//! which passed, and says nothing of the others. It passes when that object has at least one case and all
//! are true. So a table test must be written such that a failing case is there with the value false
//! (`test_limits[case] := got == want if {...}`), or it must count its cases.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use regorus::unstable::{Module, Ref, Rule};
use regorus::{Engine, Value};

use crate::policy::bundle::{Bundle, BundleSource, is_test};
use crate::policy::check::{self, tree};
use crate::policy::compile::compile;
use crate::policy::data::{Config, Overlay};
use crate::policy::error::{LoadError, Location};
use crate::policy::evaluate::{Evaluated, Evaluator, Failure};

/// How long one test may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// What came of a bundle's unit tests.
#[derive(Debug, Clone)]
pub struct TestReport {
    /// Each test, ordered by package and name.
    pub tests: Vec<TestResult>,
    /// What is wrong with the suite as a whole: no tests, a file without tests, a name used twice.
    pub problems: Vec<String>,
}

/// One test.
#[derive(Debug, Clone)]
pub struct TestResult {
    /// The package, without `data`.
    pub package: String,
    /// The rule's name.
    pub name: String,
    /// Where it is.
    pub at: Location,
    /// What came of it.
    pub outcome: TestOutcome,
    /// What it printed, each with its place.
    pub prints: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestOutcome {
    /// It is true.
    Pass,
    /// It is false, undefined, or a table with a case that is not true.
    Fail(String),
    /// It could not be evaluated.
    Error(String),
    /// Its name begins with `todo_`.
    Skip,
}

impl TestReport {
    /// Whether at least one test passed, none failed, and the suite has no problem.
    #[must_use]
    pub fn passed(&self) -> bool {
        let good = |test: &TestResult| matches!(test.outcome, TestOutcome::Pass | TestOutcome::Skip);
        self.problems.is_empty() && self.tests.iter().all(good) && self.count(&TestOutcome::Pass) > 0
    }

    fn count(&self, outcome: &TestOutcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == *outcome).count()
    }
}

/// Runs every unit test of a bundle. `data.config` is that of the bundle's own `data.yaml`.
///
/// # Errors
/// A [`LoadError`], when the bundle or its tests cannot be loaded.
pub fn run(source: &BundleSource) -> Result<TestReport, LoadError> {
    run_bundle(&Bundle::read(source)?)
}

pub(in crate::policy) fn run_bundle(bundle: &Bundle) -> Result<TestReport, LoadError> {
    let config: Value = Config::parse(bundle.data()?, &Overlay::default())?.document.into();
    // What decides must stand without the tests' modules.
    compile(bundle.rules(), config.clone())?;
    let mut engine = compile(bundle.modules(), config)?;
    let modules = engine.get_modules().clone();
    let mut found = find(&modules);
    for (name, at) in check::unused(&modules)? {
        found.problems.push(format!("{at}: `{name}` is neither a test nor used by one"));
    }

    let evaluator = Evaluator::default();
    let mut report = TestReport {
        tests: found.tests.into_values().map(|test| test.run(&evaluator, &engine)).collect(),
        problems: found.problems,
    };
    if report.tests.is_empty() {
        report.problems.push("the bundle has no tests".to_owned());
    } else if report.count(&TestOutcome::Skip) == report.tests.len() {
        report.problems.push("every test is skipped".to_owned());
    }
    Ok(report)
}

#[derive(Default)]
struct Found {
    tests: BTreeMap<(String, String), Test>,
    problems: Vec<String>,
}

struct Test {
    package: Vec<String>,
    name: String,
    at: Location,
    is_table: bool,
}

fn find(modules: &[Ref<Module>]) -> Found {
    let mut found = Found::default();
    for module in modules {
        let file = module.package.span.source.get_path();
        if !is_test(file) {
            continue;
        }
        let before = found.tests.len();
        for rule in &module.policy {
            found.add(tree::package(module), rule, file);
        }
        if file.ends_with("_test.rego") && found.tests.len() == before {
            found.problems.push(format!("{file} defines no test"));
        }
    }
    found
}

impl Found {
    fn add(&mut self, package: Vec<String>, rule: &Rule, file: &str) {
        let path = tree::rule_path(&package, rule);
        let Some(name) = path.get(package.len()).filter(|name| check::is_test_name(name)) else {
            return;
        };
        let at = Location { file: file.to_owned(), line: Some(rule.span().line) };
        if path.len() > package.len().saturating_add(1) {
            self.problems.push(format!("{at}: test `{name}` has a dotted name and would not be run"));
            return;
        }
        let is_table = tree::is_computed(rule);
        let test = Test { package, name: name.clone(), at: at.clone(), is_table };
        let key = (test.package.join("."), name.clone());
        // Two bodies of one name are "or": the one that fails would be hidden by the other.
        let Some(first) = self.tests.insert(key, test) else {
            return;
        };
        if !(is_table && first.is_table) {
            self.problems.push(format!("{at}: test `{name}` is already defined at {}", first.at));
        }
    }
}

impl Test {
    fn run(self, evaluator: &Evaluator, engine: &Engine) -> TestResult {
        let start = Instant::now();
        let package = self.package.join(".");
        let (outcome, prints) = if self.name.starts_with("todo_") {
            (TestOutcome::Skip, Vec::new())
        } else {
            let rule = format!("data.{package}.{}", self.name);
            let Evaluated { value, prints } =
                evaluator.run(engine.clone(), Value::Undefined, &rule, TIME_LIMIT);
            (outcome(value), prints)
        };
        TestResult { package, name: self.name, at: self.at, outcome, prints, took: start.elapsed() }
    }
}

fn outcome(value: Result<Value, Failure>) -> TestOutcome {
    match value {
        Ok(Value::Bool(true)) => TestOutcome::Pass,
        Ok(Value::Object(cases)) => {
            let failed: Vec<String> = cases
                .iter()
                .filter(|(_, value)| **value != Value::Bool(true))
                .map(|(case, _)| case.to_string())
                .collect();
            if !failed.is_empty() {
                TestOutcome::Fail(format!("not true: {}", failed.join(", ")))
            } else if cases.is_empty() {
                TestOutcome::Fail("no case passed".to_owned())
            } else {
                TestOutcome::Pass
            }
        }
        Ok(value) => TestOutcome::Fail(format!("its value is {value}")),
        Err(Failure::Undefined) => {
            TestOutcome::Fail("it is undefined: a statement in it did not hold".to_owned())
        }
        Err(Failure::Error(error) | Failure::Shape(error)) => TestOutcome::Error(error),
        Err(Failure::Timeout) => TestOutcome::Error("it took too long".to_owned()),
        Err(Failure::Panic) => TestOutcome::Error("the policy engine crashed".to_owned()),
    }
}

#[cfg(test)]
mod tests;
