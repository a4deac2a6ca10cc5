//! Reading the engine's syntax tree: what a rule is called, and which names it uses.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;
use regorus::unstable::{AssignOp, Expr, Literal, Module, Query, Rule, RuleHead, Span};

/// A name that a rule uses: `data.config.images`, `input`, `helper`, `startswith`.
pub(super) struct Use {
    /// It ends before the first part that is computed.
    pub(super) path: Vec<String>,
    /// The whole of it, with `None` for a part that is computed.
    pub(super) parts: Vec<Option<String>>,
    pub(super) role: Role,
    pub(super) span: Span,
}

/// What a name is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its value.
    Value,
    /// It is called.
    Call,
    /// Its value, or the function itself, takes the place of another: `with ... as it`.
    Replacement,
    /// Another takes its place: `with it as ...`.
    Replaced,
}

/// What a module's names stand for.
pub(super) struct Names {
    pub(super) package: Vec<String>,
    imports: BTreeMap<String, Vec<String>>,
}

/// The module's package, without `data`.
pub(in crate::policy) fn package(module: &Module) -> Vec<String> {
    path(&module.package.refr)
}

/// The rule's path below `data`. Of a head like `ports[name]` it is the part that is not computed.
pub(in crate::policy) fn rule_path(package: &[String], rule: &Rule) -> Vec<String> {
    let mut full = package.to_vec();
    full.extend(path(head(rule)));
    full
}

/// Whether a part of the rule's head is computed, as in `ports[name]`.
pub(in crate::policy) fn is_computed(rule: &Rule) -> bool {
    let mut at = head(rule);
    loop {
        match at {
            Expr::RefDot { refr, .. } => at = refr,
            Expr::RefBrack { refr, index, .. } => match index.as_ref() {
                Expr::String { .. } | Expr::RawString { .. } => at = refr,
                _ => return true,
            },
            _ => return false,
        }
    }
}

/// Every name in the rule that is not a local variable.
///
/// A variable is local from its declaration on, in the query that declares it and those inside; a name that
/// is used before, or not declared at all, counts as the rule of that name. That errs on the safe side.
pub(super) fn uses(rule: &Rule) -> Vec<Use> {
    let mut uses = Uses::default();
    match rule {
        Rule::Spec { head, bodies, .. } => {
            let args = match head {
                RuleHead::Func { args, .. } => args.as_slice(),
                RuleHead::Compr { .. } | RuleHead::Set { .. } => &[],
            };
            uses.scoped(|uses| {
                args.iter().for_each(|arg| uses.declare(arg));
                if bodies.is_empty() {
                    uses.head(head);
                }
                for body in bodies {
                    uses.scoped(|uses| {
                        uses.query(&body.query);
                        uses.head(head);
                        body.assign.iter().for_each(|assign| uses.expr(&assign.value));
                    });
                }
            });
        }
        Rule::Default { refr, value, .. } => {
            uses.indices(refr);
            uses.expr(value);
        }
    }
    uses.found
}

impl Names {
    pub(super) fn of(module: &Module) -> Self {
        let mut imports = BTreeMap::new();
        for import in &module.imports {
            let path = path(&import.refr);
            let alias = match &import.r#as {
                Some(span) => Some(span.text().to_owned()),
                None => path.last().cloned(),
            };
            if let Some(alias) = alias {
                imports.insert(alias, path);
            }
        }
        Self { package: package(module), imports }
    }

    /// The reference in full, when it begins with `data`, `input` or an import of one of them.
    pub(super) fn rooted(&self, parts: &[Option<String>]) -> Option<Vec<Option<String>>> {
        let (first, rest) = parts.split_first()?;
        let first = first.as_ref()?;
        if first == "data" || first == "input" {
            return Some(parts.to_vec());
        }
        let import = self.imports.get(first)?;
        Some(import.iter().cloned().map(Some).chain(rest.iter().cloned()).collect())
    }

    /// The path below `data` that `path` stands for. `None` for the input, and for what comes from it.
    pub(super) fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "data" => Some(rest.to_vec()),
            "input" => None,
            _ => match self.imports.get(first) {
                Some(import) => match import.split_first() {
                    Some((root, imported)) if root == "data" => Some([imported, rest].concat()),
                    _ => None,
                },
                None => Some([&self.package, path].concat()),
            },
        }
    }
}

pub(super) fn head(rule: &Rule) -> &Expr {
    match rule {
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. } | RuleHead::Func { refr, .. } => refr,
        },
        Rule::Default { refr, .. } => refr,
    }
}

#[derive(Default)]
struct Uses {
    found: Vec<Use>,
    /// The local variables of each query around the place at hand.
    locals: Vec<BTreeSet<String>>,
    /// Within the `as` of a `with`.
    is_replacement: bool,
}

impl Uses {
    fn scoped(&mut self, walk: impl FnOnce(&mut Self)) {
        self.locals.push(BTreeSet::new());
        walk(self);
        self.locals.pop();
    }

    /// Makes the variables in a pattern local.
    fn declare(&mut self, pattern: &Expr) {
        match pattern {
            Expr::Var { span, .. } => self.declare_name(span),
            Expr::Array { items, .. } => items.iter().for_each(|item| self.declare(item)),
            Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| self.declare(value)),
            other => self.expr(other),
        }
    }

    fn declare_name(&mut self, name: &Span) {
        if let Some(scope) = self.locals.last_mut() {
            scope.insert(name.text().to_owned());
        }
    }

    fn head(&mut self, head: &RuleHead) {
        match head {
            RuleHead::Compr { refr, assign, .. } | RuleHead::Func { refr, assign, .. } => {
                self.indices(refr);
                assign.iter().for_each(|assign| self.expr(&assign.value));
            }
            RuleHead::Set { refr, key, .. } => {
                self.indices(refr);
                key.iter().for_each(|key| self.expr(key));
            }
        }
    }

    fn query(&mut self, query: &Query) {
        for statement in &query.stmts {
            // What is replaced is not used; what it is replaced with is.
            for with in &statement.with_mods {
                self.found.push(Use::of(&with.refr, Role::Replaced));
                let outer = std::mem::replace(&mut self.is_replacement, true);
                self.expr(&with.r#as);
                self.is_replacement = outer;
            }
            match &statement.literal {
                Literal::SomeVars { vars, .. } => vars.iter().for_each(|var| self.declare_name(var)),
                Literal::SomeIn { key, value, collection, .. } => {
                    self.expr(collection);
                    key.iter().chain([value]).for_each(|pattern| self.declare(pattern));
                }
                Literal::Expr { expr, .. } => match expr.as_ref() {
                    Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } => {
                        self.expr(rhs);
                        self.declare(lhs);
                    }
                    other => self.expr(other),
                },
                Literal::NotExpr { expr, .. } => self.expr(expr),
                Literal::Every { key, value, domain, query, .. } => {
                    self.expr(domain);
                    self.scoped(|uses| {
                        key.iter().chain([value]).for_each(|var| uses.declare_name(var));
                        uses.query(query);
                    });
                }
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr, false),
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                items.iter().for_each(|item| self.expr(item));
            }
            Expr::Object { fields, .. } => {
                for (_, key, value) in fields {
                    self.expr(key);
                    self.expr(value);
                }
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.scoped(|uses| {
                    uses.query(query);
                    uses.expr(term);
                });
            }
            Expr::ObjectCompr { key, value, query, .. } => self.scoped(|uses| {
                uses.query(query);
                uses.expr(key);
                uses.expr(value);
            }),
            Expr::Call { fcn, params, .. } => {
                self.reference(fcn, true);
                params.iter().for_each(|param| self.expr(param));
            }
            Expr::UnaryExpr { expr, .. } => self.expr(expr),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => {
                self.expr(lhs);
                self.expr(rhs);
            }
            Expr::Membership { key, value, collection, .. } => {
                key.iter().for_each(|key| self.expr(key));
                self.expr(value);
                self.expr(collection);
            }
        }
    }

    fn reference(&mut self, expr: &Expr, is_call: bool) {
        let role = match (is_call, self.is_replacement) {
            (true, _) => Role::Call,
            (false, true) => Role::Replacement,
            (false, false) => Role::Value,
        };
        let used = Use::of(expr, role);
        let is_local =
            used.path.first().is_some_and(|root| self.locals.iter().any(|scope| scope.contains(root)));
        // A local variable is not a function, whatever its name.
        if is_call || !is_local {
            self.found.push(used);
        }
        self.indices(expr);
    }

    /// The computed parts of a reference, and its root where that is not a name.
    fn indices(&mut self, reference: &Expr) {
        let mut at = reference;
        loop {
            match at {
                Expr::RefDot { refr, .. } => at = refr,
                Expr::RefBrack { refr, index, .. } => {
                    self.expr(index);
                    at = refr;
                }
                Expr::Var { .. } => return,
                root => return self.expr(root),
            }
        }
    }
}

impl Use {
    fn of(reference: &Expr, role: Role) -> Self {
        let parts = parts(reference);
        let path = parts.iter().map_while(Clone::clone).collect();
        Self { path, parts, role, span: reference.span().clone() }
    }
}

/// The parts of a reference up to the first that is computed. Empty when it does not begin with a name.
pub(super) fn path(reference: &Expr) -> Vec<String> {
    parts(reference).into_iter().map_while(|part| part).collect()
}

/// The parts of a reference, with `None` for one that is computed. Empty when it does not begin with a name.
pub(super) fn parts(reference: &Expr) -> Vec<Option<String>> {
    let mut parts: Vec<Option<String>> = Vec::new();
    let mut at = reference;
    loop {
        match at {
            Expr::RefDot { refr, field, .. } => {
                parts.push(Some(field.0.text().to_owned()));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                parts.push(match index.as_ref() {
                    Expr::String { value: Value::String(text), .. }
                    | Expr::RawString { value: Value::String(text), .. } => Some(text.to_string()),
                    _ => None,
                });
                at = refr;
            }
            Expr::Var { span, .. } => {
                parts.push(Some(span.text().to_owned()));
                break;
            }
            _ => return Vec::new(),
        }
    }
    parts.reverse();
    parts
}
