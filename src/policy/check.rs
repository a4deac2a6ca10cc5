//! What a bundle must not hold, looked for in its text and its syntax tree before the engine may use it.
//!
//! The engine checks syntax and little else. Each check here closes a hole that was seen in it: some end the
//! process, some change a decision without a word. `Problem` lists them.

mod graph;
mod measure;
mod paths;
mod tokens;
pub(in crate::policy) mod tree;
mod units;

use std::collections::BTreeMap;

use regorus::unstable::{BUILTINS, Module, Ref, Rule, RuleHead, Source, Span};

use crate::policy::bundle::is_test;
use crate::policy::compile::engine_error;
use crate::policy::error::{LoadError, Location, Problem};
use graph::Graph;
use paths::Paths;
use tokens::{Place, Refused};
use tree::{Names, Role, Use};
pub(in crate::policy) use units::{is_test_name, unused};

/// Built-ins that ask the world outside. A decision made with them could not be made again from its record,
/// and some of them silently have no value in this engine.
const IMPURE: [&str; 6] =
    ["http.send", "net.lookup_ip_addr", "opa.runtime", "rand.intn", "time.now_ns", "uuid.rfc4122"];

/// The names that make a decision. Each has one place.
const DECIDING: [&str; 4] = ["allow", "decision", "deny", "warn"];

/// The tokens of a file, for [`whole`].
pub(in crate::policy) struct Tokens(Vec<Place>);

/// Checks the bare text, before it is parsed.
pub(in crate::policy) fn text(file: &str, text: &str) -> Result<Tokens, LoadError> {
    let source = Source::from_contents(file.to_owned(), text.to_owned())
        .map_err(|error| engine_error(file, error.as_ref()))?;
    match tokens::scan(&source) {
        Ok(places) => Ok(Tokens(places)),
        Err(Refused::At(line, problem)) => Err(LoadError::rejected(file, Some(line), problem)),
        Err(Refused::Lexer(error)) => Err(engine_error(file, error.as_ref())),
    }
}

/// Checks that the parser took in the whole file: each token belongs to the package, an import or a rule.
pub(in crate::policy) fn whole(module: &Module, tokens: &Tokens) -> Result<(), LoadError> {
    let imports = module.imports.iter().map(|import| &import.span);
    let rules = module.policy.iter().map(|rule| rule.span());
    let mut items = [&module.package.span].into_iter().chain(imports).chain(rules).peekable();
    for token in &tokens.0 {
        // A string's token begins after its quote, and may so begin where a rule ends.
        while items.next_if(|item| item.end < token.start).is_some() {}
        if items.peek().is_none_or(|item| token.start < item.start) {
            let problem = Problem::Unread(token.text.clone());
            return Err(LoadError::rejected(
                module.package.span.source.get_path(),
                Some(token.line),
                problem,
            ));
        }
    }
    Ok(())
}

/// Checks across all modules.
pub(in crate::policy) fn modules(modules: &[Ref<Module>]) -> Result<(), LoadError> {
    let graph = graph(modules)?;
    if !graph.has(&["kubepermit", "decision"]) {
        return Err(LoadError::Bundle("defines no rule `data.kubepermit.decision`"));
    }
    let paths = Paths::new(modules.iter().map(|module| tree::package(module)).collect())?;
    for module in modules {
        let names = Names::of(module);
        for import in &module.imports {
            check_path(&tree::parts(&import.refr), Role::Value, &import.span, &paths, &graph)?;
        }
        for rule in &module.policy {
            for used in tree::uses(rule) {
                check_use(&used, &names, &graph)?;
                if let Some(parts) = names.rooted(&used.parts) {
                    check_path(&parts, used.role, &used.span, &paths, &graph)?;
                }
            }
        }
    }
    match graph.order() {
        Ok(order) => measure::check(modules, &graph, &order),
        Err(cycle) => {
            let problem = Problem::Recursion { path: cycle.path };
            Err(match graph.span(&cycle.rule) {
                Some(span) => rejected(span, problem),
                None => LoadError::rejected("*.rego", None, problem),
            })
        }
    }
}

/// All rules and what they use.
fn graph(modules: &[Ref<Module>]) -> Result<Graph, LoadError> {
    let mut graph = Graph::default();
    let mut defaults: BTreeMap<Vec<String>, Location> = BTreeMap::new();
    for module in modules {
        let package = tree::package(module);
        check_package(module, &package)?;
        for rule in &module.policy {
            let path = tree::rule_path(&package, rule);
            check_placement(rule, &package, &path)?;
            units::check(rule, &package, &path)?;
            if let Rule::Default { span, .. } = rule.as_ref()
                && let Some(first) = defaults.insert(path.clone(), location(span))
            {
                let rule = path.join(".");
                return Err(rejected(span, Problem::SecondDefault { rule, first }));
            }
            graph.add_rule(path, rule.span());
        }
    }
    for module in modules {
        let names = Names::of(module);
        for rule in &module.policy {
            let from = tree::rule_path(&names.package, rule);
            for used in tree::uses(rule).iter().filter(|used| used.role != Role::Replaced) {
                if let Some(to) = names.resolve(&used.path) {
                    graph.add_use(&from, &to, used.role == Role::Replacement);
                }
            }
        }
    }
    Ok(graph)
}

/// Rules live in `kubepermit` and `site`, unit tests under tests/ and in packages whose name says so.
fn check_package(module: &Module, package: &[String]) -> Result<(), LoadError> {
    let test_file = is_test(module.package.span.source.get_path());
    let test_name = package.last().is_some_and(|last| last.ends_with("_test"));
    let rule = match (test_file, package.first().map(String::as_str)) {
        (true, _) if test_name => return Ok(()),
        (true, _) => "a file under tests/ has a package whose name ends in `_test`",
        (false, Some("kubepermit" | "site")) if !test_name => {
            if package.iter().skip(1).any(|part| DECIDING.contains(&part.as_str())) {
                "`allow`, `decision`, `deny` and `warn` are rules, not packages"
            } else {
                return Ok(());
            }
        }
        (false, _) if test_name => "a package whose name ends in `_test` belongs under tests/",
        (false, _) => "rules belong to `kubepermit`, `site` or a package below one of them",
    };
    let package = package.join(".");
    Err(rejected(&module.package.span, Problem::Package { package, rule }))
}

/// A `deny` that nobody collects would be a rule that its author believes in and that does nothing.
fn check_placement(rule: &Rule, package: &[String], path: &[String]) -> Result<(), LoadError> {
    let span = rule.span();
    let Some(name) = path.get(package.len()).map(String::as_str) else {
        return Ok(());
    };
    if !DECIDING.contains(&name) || is_test(span.source.get_path()) {
        return Ok(());
    }
    let root = package.first().map(String::as_str);
    if package.len() > 1 {
        let problem = format!(
            "rule `{name}` would be ignored in package `{}`: only `kubepermit` and `site` themselves are asked",
            package.join(".")
        );
        return Err(rejected(span, Problem::Rule(problem)));
    }
    if root == Some("site") && (name == "allow" || name == "decision") {
        let problem =
            format!("package `site` may not define `{name}`: site rules add `deny` and `warn`, nothing else");
        return Err(rejected(span, Problem::Rule(problem)));
    }
    let is_set = path.len() == package.len().saturating_add(1)
        && matches!(rule, Rule::Spec { head: RuleHead::Set { .. }, .. });
    if (name == "deny" || name == "warn") && !is_set {
        let problem = format!("`{name}` is a set of objects: write `{name} contains {{...}} if {{...}}`");
        return Err(rejected(span, Problem::Rule(problem)));
    }
    Ok(())
}

fn check_use(used: &Use, names: &Names, graph: &Graph) -> Result<(), LoadError> {
    let name = used.path.join(".");
    if IMPURE.contains(&name.as_str()) {
        return Err(rejected(&used.span, Problem::Impure(name)));
    }
    let known = || {
        let own = names.resolve(&used.path).is_some_and(|path| graph.has(&path));
        own || name == "print" || BUILTINS.contains_key(name.as_str())
    };
    if used.role == Role::Call && !known() {
        return Err(rejected(&used.span, Problem::UnknownFunction(name)));
    }
    Ok(())
}

fn check_path(
    parts: &[Option<String>],
    role: Role,
    span: &Span,
    paths: &Paths,
    graph: &Graph,
) -> Result<(), LoadError> {
    // A function that is called was looked up already, and the engine's own imports are no references.
    let is_reference = matches!(parts.first(), Some(Some(root)) if root == "data" || root == "input");
    if role == Role::Call || !is_reference {
        return Ok(());
    }
    paths.check(parts, role, graph).map_err(|problem| rejected(span, problem))
}

fn location(span: &Span) -> Location {
    Location { file: span.source.get_path().clone(), line: Some(span.line) }
}

fn rejected(span: &Span, problem: Problem) -> LoadError {
    LoadError::Rejected { at: location(span), problem }
}

#[cfg(test)]
mod tests;
