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
}

/// A way from a rule back to itself.
pub(super) struct Cycle {
    /// The rule where it was found.
    pub(super) span: Span,
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
        self.rules.entry(path).or_insert_with(|| Node { span: span.clone(), uses: BTreeSet::new() });
    }

    /// Whether a rule of this path exists.
    pub(super) fn has(&self, path: &[impl AsRef<str>]) -> bool {
        let path: Vec<String> = path.iter().map(|part| part.as_ref().to_owned()).collect();
        self.rules.contains_key(&path)
    }

    /// Notes that the rule `from` uses `path`: every rule at it, above it, and below it. What is below counts
    /// because a reference to a package, or one that goes on with a computed part, needs all of them.
    pub(super) fn add_use(&mut self, from: &[String], path: &[String]) {
        let mut used: Vec<Vec<String>> = (1..path.len())
            .filter_map(|end| path.get(..end))
            .filter(|above| self.rules.contains_key(*above))
            .map(<[String]>::to_vec)
            .collect();
        let below = self.rules.range(path.to_vec()..).map(|(rule, _)| rule);
        used.extend(below.take_while(|rule| rule.starts_with(path)).cloned());
        if let Some(node) = self.rules.get_mut(from) {
            node.uses.extend(used);
        }
    }

    /// A cycle, if there is one. Without recursion of its own: a long chain of rules must not end the process
    /// that looks for long chains.
    pub(super) fn cycle(&self) -> Option<Cycle> {
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
                    trail.pop();
                    continue;
                };
                match states.get(next.as_slice()) {
                    Some(State::Done) => {}
                    Some(State::Open) => {
                        let way = trail.iter().map(|(rule, _)| *rule);
                        return self.describe(way.skip_while(|rule| *rule != next), next);
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
        None
    }

    fn describe<'a>(&self, way: impl Iterator<Item = &'a Vec<String>>, end: &[String]) -> Option<Cycle> {
        let mut names: Vec<String> = way.map(|rule| rule.join(".")).collect();
        names.push(end.join("."));
        let node = self.rules.get(end)?;
        Some(Cycle { span: node.span.clone(), path: names.join(" -> ") })
    }
}
