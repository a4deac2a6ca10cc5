//! Which rule uses which, and whether one reaches itself.
//!
//! Recursion between rules overflows the engine's stack and ends the process; recursion of functions runs
//! until the time is up. OPA refuses both when it compiles, and so does kubepermit.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::Span;

/// Rules by their path, and the edges between them.
#[derive(Default)]
pub(super) struct Graph {
    rules: BTreeMap<Vec<String>, Node>,
}

struct Node {
    span: Span,
    uses: BTreeSet<Vec<String>>,
    /// Those of `uses` that take the place of something else, by `with`.
    replacements: BTreeSet<Vec<String>>,
}

/// A way from a rule back to itself.
pub(super) struct Cycle {
    /// The rule where it was found.
    pub(super) rule: Vec<String>,
    /// Its rules, joined by arrows.
    pub(super) path: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Done,
}

impl Graph {
    pub(super) fn add_rule(&mut self, path: Vec<String>, span: &Span) {
        self.rules.entry(path).or_insert_with(|| Node {
            span: span.clone(),
            uses: BTreeSet::new(),
            replacements: BTreeSet::new(),
        });
    }

    /// All rules, in order.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rules.keys()
    }

    /// Whether a rule of this path exists.
    pub(super) fn has(&self, path: &[impl AsRef<str>]) -> bool {
        let path: Vec<String> = path.iter().map(|part| part.as_ref().to_owned()).collect();
        self.rules.contains_key(&path)
    }

    /// The rules that a reference to `path` needs: at it, above it, and below it. What is below counts because
    /// a reference to a package, or one that goes on with a computed part, needs all of them.
    pub(super) fn targets<'a>(&'a self, path: &'a [String]) -> impl Iterator<Item = &'a Vec<String>> {
        let above = (1..path.len())
            .filter_map(|end| path.get(..end))
            .filter_map(|above| self.rules.get_key_value(above))
            .map(|(rule, _)| rule);
        let below = self.rules.range(path.to_vec()..).map(|(rule, _)| rule);
        above.chain(below.take_while(|rule| rule.starts_with(path)))
    }

    /// Notes that the rule `from` uses `path`.
    pub(super) fn add_use(&mut self, from: &[String], path: &[String], is_replacement: bool) {
        let used: Vec<_> = self.targets(path).cloned().collect();
        if let Some(node) = self.rules.get_mut(from) {
            if is_replacement {
                node.replacements.extend(used.iter().cloned());
            }
            node.uses.extend(used);
        }
    }

    /// What the rule uses.
    pub(super) fn uses(&self, rule: &[String]) -> impl Iterator<Item = &Vec<String>> {
        self.rules.get(rule).into_iter().flat_map(|node| &node.uses)
    }

    /// What of that takes the place of something else in what the rule evaluates.
    pub(super) fn replacements(&self, rule: &[String]) -> impl Iterator<Item = &Vec<String>> {
        self.rules.get(rule).into_iter().flat_map(|node| &node.replacements)
    }

    /// Where the rule is first defined.
    pub(super) fn span(&self, rule: &[String]) -> Option<&Span> {
        self.rules.get(rule).map(|node| &node.span)
    }

    /// The rules such that each comes after those that it uses, or a cycle, if there is one. Without recursion of
    /// its own: a long chain of rules must not end the process that looks for long chains.
    pub(super) fn order(&self) -> Result<Vec<&Vec<String>>, Cycle> {
        let mut order = Vec::new();
        let mut states: BTreeMap<&[String], State> = BTreeMap::new();
        for (start, node) in &self.rules {
            if states.contains_key(start.as_slice()) {
                continue;
            }
            states.insert(start, State::Open);
            let mut trail = vec![(start, node.uses.iter())];
            while let Some((rule, uses)) = trail.last_mut() {
                let rule: &Vec<String> = rule;
                let Some(next) = uses.next() else {
                    states.insert(rule, State::Done);
                    order.push(rule);
                    trail.pop();
                    continue;
                };
                match states.get(next.as_slice()) {
                    Some(State::Done) => {}
                    Some(State::Open) => {
                        let way = trail.iter().map(|(rule, _)| *rule).skip_while(|rule| *rule != next);
                        let names: Vec<String> = way.chain([next]).map(|rule| rule.join(".")).collect();
                        return Err(Cycle { rule: next.clone(), path: names.join(" -> ") });
                    }
                    None => {
                        if let Some((next, node)) = self.rules.get_key_value(next) {
                            states.insert(next, State::Open);
                            trail.push((next, node.uses.iter()));
                        }
                    }
                }
            }
        }
        Ok(order)
    }
}
