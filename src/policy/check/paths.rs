//! References to what is never there. A rule with a typo in `data.confg.images` or `input.jobb` loads, never holds,
//! and denies nothing.
//!
//! What there is under `input` and `data.config` is read from the published schemas, so that it cannot drift from
//! them. What there is elsewhere under `data` is the bundle's own rules. A part that is computed matches all.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::policy::check::DECIDING;
use crate::policy::check::graph::Graph;
use crate::policy::check::tree::Role;
use crate::policy::error::{LoadError, Problem};

const INPUT: &str = include_str!("../../../schemas/policy-input.json");
const CONFIG: &str = include_str!("../../../schemas/policy-data.json");

/// What main.rego collects from the site, whether the site has such rules or not.
const COLLECTED: [&str; 2] = ["deny", "warn"];

pub(super) struct Paths {
    input: Value,
    config: Value,
    packages: BTreeSet<Vec<String>>,
}

/// A reference that is wrong from its part `at` on.
struct Unknown {
    at: usize,
    known: BTreeSet<String>,
}

impl Paths {
    pub(super) fn new(packages: BTreeSet<Vec<String>>) -> Result<Self, LoadError> {
        let read = |text| {
            serde_json::from_str(text)
                .map_err(|_| LoadError::Bundle("cannot be checked: this program's own schemas are broken"))
        };
        Ok(Self { input: read(INPUT)?, config: read(CONFIG)?, packages })
    }

    /// Checks a reference that begins with `input` or `data`. `None` stands for a part that is computed.
    pub(super) fn check(&self, parts: &[Option<String>], role: Role, graph: &Graph) -> Result<(), Problem> {
        let unknown = match parts {
            [Some(root), rest @ ..] if root == "input" => in_schema(&self.input, rest).map(|u| u.below(1)),
            [_, Some(root), rest @ ..] if root == "config" => {
                in_schema(&self.config, rest).map(|unknown| unknown.below(2))
            }
            [_, rest @ ..] => self.in_rules(rest, role, graph).map(|unknown| unknown.below(1)),
            [] => None,
        };
        match unknown {
            Some(unknown) => Err(unknown.problem(parts)),
            None => Ok(()),
        }
    }

    fn in_rules(&self, parts: &[Option<String>], role: Role, graph: &Graph) -> Option<Unknown> {
        let mut path: Vec<String> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let Some(part) = part else {
                return None;
            };
            let mut known: BTreeSet<String> = graph
                .rules()
                .chain(&self.packages)
                .filter(|rule| rule.starts_with(&path))
                .filter_map(|rule| rule.get(at).cloned())
                .collect();
            match path.as_slice() {
                [] => known.extend(["config".to_owned(), "site".to_owned()]),
                [root] if root == "site" => known.extend(COLLECTED.map(str::to_owned)),
                _ => {}
            }
            // `with` may put one of these where there is none: a test then shows that it is not asked.
            let is_new_rule =
                role == Role::Replaced && self.packages.contains(&path) && DECIDING.contains(&part.as_str());
            if !known.contains(part) && !is_new_rule {
                return Some(Unknown { at, known });
            }
            path.push(part.clone());
            // What the value of a rule holds is not known.
            let is_collected = matches!(path.as_slice(), [site, name] if site == "site" && COLLECTED.contains(&name.as_str()));
            if graph.has(&path) || is_collected || is_new_rule {
                return None;
            }
        }
        None
    }
}

fn in_schema(schema: &Value, parts: &[Option<String>]) -> Option<Unknown> {
    let mut at_hand = vec![schema];
    for (at, part) in parts.iter().enumerate() {
        let mut known = BTreeSet::new();
        let mut next = Vec::new();
        for shape in at_hand.iter().flat_map(|shape| alternatives(schema, shape, 0)) {
            match children(shape, part.as_deref(), &mut known) {
                Some(children) => next.extend(children),
                // Anything may be there.
                None => return None,
            }
        }
        if next.is_empty() {
            return Some(Unknown { at, known });
        }
        at_hand = next;
    }
    None
}

/// The schemas that a value may follow, with `$ref` and `anyOf` resolved.
fn alternatives<'a>(root: &'a Value, shape: &'a Value, depth: usize) -> Vec<&'a Value> {
    // A reference that goes in circles ends as a schema that says nothing.
    if depth > 16 {
        return vec![&Value::Null];
    }
    let deeper = |shape| alternatives(root, shape, depth.saturating_add(1));
    if let Some(reference) = shape.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or_else(|| vec![&Value::Null], deeper);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(all) = shape.get(key).and_then(Value::as_array) {
            return all.iter().flat_map(deeper).collect();
        }
    }
    vec![shape]
}

/// What a key, or any key, leads to. `None` when the schema does not say; none at all when nothing is there.
fn children<'a>(shape: &'a Value, key: Option<&str>, known: &mut BTreeSet<String>) -> Option<Vec<&'a Value>> {
    if shape.get("allOf").is_some() || shape.get("patternProperties").is_some() {
        return None;
    }
    let kind = match shape.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        None if shape.get("properties").is_some() => "object",
        None if shape.get("const").is_some() || shape.get("enum").is_some() => "scalar",
        _ => return None,
    };
    match (kind, key) {
        ("object", key) => {
            let named = shape.get("properties").and_then(Value::as_object);
            known.extend(named.into_iter().flatten().map(|(name, _)| name.clone()));
            if let Some(child) = key.and_then(|key| named?.get(key)) {
                return Some(vec![child]);
            }
            let mut children: Vec<&Value> = match key {
                Some(_) => Vec::new(),
                None => named.into_iter().flatten().map(|(_, child)| child).collect(),
            };
            let is_empty = shape.get("maxProperties").and_then(Value::as_u64) == Some(0);
            match shape.get("additionalProperties") {
                _ if is_empty => {}
                Some(Value::Bool(false)) => {}
                Some(other @ Value::Object(_)) => children.push(other),
                Some(_) | None => return None,
            }
            Some(children)
        }
        ("array", None) => shape.get("items").map(|items| vec![items]),
        // A list has no keys, and everything else has nothing inside.
        _ => Some(Vec::new()),
    }
}

impl Unknown {
    fn below(self, parts: usize) -> Self {
        Self { at: self.at.saturating_add(parts), ..self }
    }

    fn problem(self, parts: &[Option<String>]) -> Problem {
        let written = |parts: &[Option<String>]| {
            let parts: Vec<&str> = parts.iter().map(|part| part.as_deref().unwrap_or("[_]")).collect();
            parts.join(".").replace(".[_]", "[_]")
        };
        let (above, wrong) = parts.split_at_checked(self.at).unwrap_or((parts, &[]));
        let wrong = wrong.first().cloned().flatten().unwrap_or_default();
        let nearest = self.known.iter().min_by_key(|known| distance(known, &wrong));
        let above = written(above);
        let hint = match nearest {
            Some(nearest) => format!("did you mean `{above}.{nearest}`?"),
            None => format!("`{above}` has no keys"),
        };
        let end = self.at.saturating_add(1).min(parts.len());
        Problem::UnknownPath { path: written(parts.get(..end).unwrap_or(parts)), hint }
    }
}

/// How many letters must be added, left out or replaced to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (pair, b) in row.windows(2).zip(other.chars()) {
            let &[diagonal, above] = pair else { continue };
            let changed = diagonal.saturating_add(usize::from(a != b));
            left = changed.min(above.saturating_add(1)).min(left.saturating_add(1));
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
