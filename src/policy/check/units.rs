//! Unit tests that would pass without being run, or without holding.

use regorus::unstable::{Module, Ref, Rule};

use crate::policy::bundle::is_test;
use crate::policy::check::{graph, rejected, tree};
use crate::policy::error::{LoadError, Location, Problem};

/// Whether a rule of this name is run as a unit test, or skipped as one.
pub(in crate::policy) fn is_test_name(name: &str) -> bool {
    name.starts_with("test_") || name.starts_with("todo_test_")
}

/// A test stands where tests are looked for, and has one body: each further one, an `else` and a `default`
/// would make it pass when the first does not hold.
pub(super) fn check(rule: &Rule, package: &[String], path: &[String]) -> Result<(), LoadError> {
    let Some(name) = path.get(package.len()).filter(|name| is_test_name(name)) else {
        return Ok(());
    };
    let span = rule.span();
    let file = span.source.get_path();
    if !(is_test(file) && file.ends_with("_test.rego")) {
        let problem = format!("test `{name}` would never be run: tests are in files `tests/*_test.rego`");
        return Err(rejected(span, Problem::Rule(problem)));
    }
    let what = match rule {
        Rule::Default { .. } => "a `default`",
        Rule::Spec { bodies, .. } if bodies.iter().any(|body| body.is_else) => "an `else`",
        Rule::Spec { bodies, .. } if bodies.len() > 1 => "a second body",
        Rule::Spec { .. } => return Ok(()),
    };
    let problem = format!("test `{name}` has {what}, with which it could pass although it does not hold");
    Err(rejected(span, Problem::Rule(problem)))
}

/// The rules under tests/ that are no tests and that nothing uses: a test whose name is mistyped is one.
pub(in crate::policy) fn unused(modules: &[Ref<Module>]) -> Result<Vec<(String, Location)>, LoadError> {
    let graph = graph(modules)?;
    let used: std::collections::BTreeSet<_> = graph.rules().flat_map(|rule| graph.uses(rule)).collect();
    let mut unused = Vec::new();
    for module in modules.iter().filter(|module| is_test(module.package.span.source.get_path())) {
        let package = tree::package(module);
        for rule in &module.policy {
            let path = tree::rule_path(&package, rule);
            let is_test = path.get(package.len()).is_some_and(|name| is_test_name(name));
            if !is_test && !used.contains(&path) {
                let at = super::location(rule.span());
                unused.push((path.get(package.len()..).unwrap_or(&path).join("."), at));
            }
        }
    }
    Ok(unused)
}
