//! How much of its stack the engine needs for each rule, from above.
//!
//! It evaluates by recursion: into the rules that a rule uses, into calls, expressions and queries, and once
//! more for each loop of a query. A chain of rules that is long enough ends the process. So does a value that is
//! nested deep enough, when it is compared or dropped: rules can build one, by functions that wrap their
//! argument and call each other. Rules cannot recurse, so both have a bound that can be read off the tree.

use std::collections::BTreeMap;

use regorus::unstable::{Expr, Literal, LiteralStmt, Module, Query, Ref, Rule, RuleHead};

use crate::policy::check::graph::Graph;
use crate::policy::check::tree::{self, Names};
use crate::policy::error::{LoadError, Problem};

/// Of the evaluation's stack, in steps. A step takes up to 4.3 KiB where nothing is optimised (rules 2.9, calls
/// 1.6, operators 4.2, loops 4), so this is a seventh of the stack. The shipped rules and tests need up to 240.
const MAX_DEPTH: usize = 1000;
/// Of a value, in levels beyond those of input and data. A level takes about 1 KiB, so this is a sixteenth of the
/// stack. The shipped rules and tests need up to 210.
const MAX_NESTING: usize = 2000;

/// What a rule costs in steps beyond its expressions: the rule, its query and the scope around it.
const RULE: usize = 4;
/// What a call costs beyond its arguments.
const CALL: usize = 4;
/// What a loop costs: all that follows in the query runs inside it.
const LOOP: usize = 3;

/// The cost of a rule or of a part of one.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Steps of the stack.
    depth: usize,
    /// Levels of nesting that its value can have more than what it is made from.
    nesting: usize,
    /// The same of the most nested value on the way.
    peak: usize,
    /// Loops around what follows in the query.
    loops: usize,
}

/// Checks every rule. `order` has each rule after those that it uses.
pub(super) fn check(modules: &[Ref<Module>], graph: &Graph, order: &[&Vec<String>]) -> Result<(), LoadError> {
    let names: Vec<Names> = modules.iter().map(|module| Names::of(module)).collect();
    let mut rules: BTreeMap<Vec<String>, Vec<(&Names, &Rule)>> = BTreeMap::new();
    for (module, names) in modules.iter().zip(&names) {
        for rule in &module.policy {
            rules.entry(tree::rule_path(&names.package, rule)).or_default().push((names, rule));
        }
    }
    let mut costs = BTreeMap::new();
    for path in order {
        let measure = |(names, rule): &(&Names, &Rule)| Measure { names, graph, costs: &costs }.rule(rule);
        let own = rules.get(*path).into_iter().flatten().map(measure).fold(Cost::default(), Cost::or);
        let of = |rule: &Vec<String>| costs.get(rule).copied().unwrap_or_default();
        let used = graph.uses(path).map(of).fold(Cost::default(), Cost::or);
        // What replaces a function is called wherever that function is, at the end of another chain.
        let replacing: usize = graph.replacements(path).map(|rule| of(rule).depth).sum();
        let cost = Cost {
            depth: own.depth.saturating_add(RULE).saturating_add(used.depth).saturating_add(replacing),
            peak: own.peak.saturating_add(used.peak),
            ..own
        };
        for (cost, limit, what, hint) in [
            (cost.depth, MAX_DEPTH, "is evaluated too deep", "shorten the chain of rules or calls behind it"),
            (cost.peak, MAX_NESTING, "can nest a value too deep", "wrap values in fewer functions and lists"),
        ] {
            if cost > limit {
                let problem = Problem::TooHigh { rule: path.join("."), what, cost, limit, hint };
                return Err(match graph.span(path) {
                    Some(span) => super::rejected(span, problem),
                    None => LoadError::rejected("*.rego", None, problem),
                });
            }
        }
        costs.insert((*path).clone(), cost);
    }
    Ok(())
}

struct Measure<'a> {
    names: &'a Names,
    graph: &'a Graph,
    costs: &'a BTreeMap<Vec<String>, Cost>,
}

impl Measure<'_> {
    fn rule(&self, rule: &Rule) -> Cost {
        let head = tree::head(rule);
        let fixed = tree::path(head).len();
        let mut cost = match rule {
            Rule::Default { value, .. } => self.expr(value),
            Rule::Spec { head, bodies, .. } => {
                let values: Vec<&Expr> = match head {
                    RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => {
                        assign.iter().map(|assign| assign.value.as_ref()).collect()
                    }
                    RuleHead::Set { key, .. } => key.iter().map(AsRef::as_ref).collect(),
                };
                let indices = self.indices(tree::head(rule));
                let alone = self.all(values.iter().copied()).or(indices);
                bodies
                    .iter()
                    .map(|body| {
                        let own = body.assign.iter().map(|assign| assign.value.as_ref());
                        self.query(&body.query, values.iter().copied().chain(own)).or(indices)
                    })
                    .fold(alone, Cost::or)
            }
        };
        // `a[x][y] := v` and `a contains v` wrap the value in what the computed parts make.
        let computed = tree::parts(head).len().saturating_sub(fixed);
        let is_set = matches!(rule, Rule::Spec { head: RuleHead::Set { .. }, .. });
        let wraps = computed.saturating_add(usize::from(is_set));
        cost.nesting = cost.nesting.saturating_add(wraps);
        cost.peak = cost.peak.max(cost.nesting);
        cost
    }

    /// A query, and what is evaluated for each of its solutions.
    fn query<'e>(&self, query: &'e Query, terms: impl Iterator<Item = &'e Expr>) -> Cost {
        let mut sum = Cost::default();
        for statement in &query.stmts {
            sum = sum.then(self.statement(statement));
        }
        let terms: Vec<&Expr> = terms.collect();
        let mut cost = sum.then(self.all(terms.iter().copied()));
        if terms.iter().all(|term| is_scalar(term)) {
            cost.nesting = 0;
        }
        cost.depth = cost.depth.saturating_add(1);
        cost.loops = 0;
        cost
    }

    /// A statement. Its nesting is that of the variables that it binds.
    fn statement(&self, statement: &LiteralStmt) -> Cost {
        let replaced = self.all(statement.with_mods.iter().map(|with| with.r#as.as_ref()));
        let mut cost = match &statement.literal {
            Literal::SomeVars { .. } => Cost::default(),
            Literal::SomeIn { collection, .. } => {
                let mut cost = self.expr(collection);
                cost.loops = cost.loops.saturating_add(1);
                cost
            }
            // A call can bind its last argument.
            Literal::Expr { expr, .. } => match expr.as_ref() {
                Expr::AssignExpr { .. } | Expr::Call { .. } => self.expr(expr),
                _ => Cost { nesting: 0, ..self.expr(expr) },
            },
            Literal::NotExpr { expr, .. } => Cost { nesting: 0, ..self.expr(expr) },
            Literal::Every { domain, query, .. } => {
                let domain = self.expr(domain);
                Cost { nesting: 0, loops: 0, ..domain.then(self.query(query, [].into_iter())) }
            }
        };
        // Input and data are that much deeper for the statement.
        cost.peak = cost.peak.saturating_add(replaced.nesting).max(replaced.peak);
        if cost.nesting > 0 {
            cost.nesting = cost.nesting.saturating_add(replaced.nesting);
        }
        cost.depth = cost.depth.max(replaced.depth).saturating_add(1);
        cost.loops = cost.loops.saturating_add(replaced.loops);
        cost
    }

    fn all<'e>(&self, exprs: impl Iterator<Item = &'e Expr>) -> Cost {
        exprs.map(|expr| self.expr(expr)).fold(Cost::default(), Cost::beside)
    }

    fn expr(&self, expr: &Expr) -> Cost {
        let cost = match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => Cost::default(),
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                let nesting = self.of_rules(&tree::path(expr)).unwrap_or(0);
                let indices = self.indices(expr);
                Cost { nesting: nesting.max(indices.nesting), peak: nesting.max(indices.peak), ..indices }
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                self.all(items.iter().map(AsRef::as_ref)).wrapped(1)
            }
            Expr::Object { fields, .. } => {
                self.all(fields.iter().flat_map(|(_, key, value)| [key.as_ref(), value.as_ref()])).wrapped(1)
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.query(query, [term.as_ref()].into_iter()).wrapped(1)
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.query(query, [key.as_ref(), value.as_ref()].into_iter()).wrapped(1)
            }
            Expr::Call { fcn, params, .. } => {
                // A built-in may wrap what it gets in lists: `walk`, `regex.find_all_string_submatch_n`.
                let function = self.of_rules(&tree::path(fcn)).unwrap_or(2);
                let mut cost = self.all(params.iter().map(AsRef::as_ref)).wrapped(function);
                cost.depth = cost.depth.saturating_add(CALL);
                // The one built-in that loops over what it gives.
                let walks = matches!(fcn.as_ref(), Expr::Var { span, .. } if span.text() == "walk");
                cost.loops = cost.loops.saturating_add(usize::from(walks));
                cost
            }
            Expr::UnaryExpr { expr, .. } => self.expr(expr),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => self.expr(lhs).beside(self.expr(rhs)),
            Expr::BoolExpr { lhs, rhs, .. } => Cost { nesting: 0, ..self.expr(lhs).beside(self.expr(rhs)) },
            Expr::Membership { key, value, collection, .. } => {
                let all = key.iter().chain([value, collection]).map(AsRef::as_ref);
                Cost { nesting: 0, ..self.all(all) }
            }
        };
        Cost { depth: cost.depth.saturating_add(1), ..cost }
    }

    /// The computed parts of a reference. Each loops, unless its variable is bound.
    fn indices(&self, reference: &Expr) -> Cost {
        let mut cost = Cost::default();
        let mut at = reference;
        loop {
            match at {
                Expr::RefDot { refr, .. } => at = refr,
                Expr::RefBrack { refr, index, .. } => {
                    let index = self.expr(index);
                    cost = cost.beside(Cost { nesting: 0, loops: index.loops.saturating_add(1), ..index });
                    at = refr;
                }
                Expr::Var { .. } => return cost,
                root => return cost.beside(self.expr(root)),
            }
        }
    }

    /// The nesting of what a reference to rules gives. A rule that is above it counts whole.
    fn of_rules(&self, path: &[String]) -> Option<usize> {
        let path = self.names.resolve(path)?;
        let nesting = self.graph.targets(&path).filter_map(|rule| {
            let cost = self.costs.get(rule)?;
            Some(cost.nesting.saturating_add(rule.len().saturating_sub(path.len())))
        });
        nesting.max()
    }
}

fn is_scalar(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            | Expr::BoolExpr { .. }
            | Expr::Membership { .. }
    )
}

impl Cost {
    /// One or the other.
    fn or(self, other: Self) -> Self {
        Self {
            depth: self.depth.max(other.depth),
            nesting: self.nesting.max(other.nesting),
            peak: self.peak.max(other.peak),
            loops: self.loops.max(other.loops),
        }
    }

    /// Two parts of one expression: one after the other, but the loops of both are around what follows.
    fn beside(self, other: Self) -> Self {
        Self { loops: self.loops.saturating_add(other.loops), ..self.or(other) }
    }

    /// What follows in a query: it runs inside the loops before it, and with the variables before it.
    fn then(self, next: Self) -> Self {
        let loops = self.loops.saturating_add(next.loops);
        Self {
            depth: self.depth.max(next.depth.saturating_add(loops.saturating_mul(LOOP))),
            nesting: self.nesting.saturating_add(next.nesting),
            peak: self.peak.max(self.nesting.saturating_add(next.peak)),
            loops,
        }
    }

    fn wrapped(self, levels: usize) -> Self {
        let nesting = self.nesting.saturating_add(levels);
        Self { nesting, peak: self.peak.max(nesting), ..self }
    }
}
