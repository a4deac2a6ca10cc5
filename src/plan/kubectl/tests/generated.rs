//! Whatever a caller writes, an argv has one form: checked over generated calls, from the schema on.
//!
//! The grammars are written again here, plainly, so that a fault in the parsers does not hide itself.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::plan::properties;

const TOOLS: [&str; 4] = ["list_pods", "pod_logs", "describe_resource", "list_events"];

/// Whether the flag may be there with that value.
fn is_known(flag: &str, value: &str) -> bool {
    match flag {
        "--context" => value == "prod",
        "--namespace" | "--container" => is_label(value),
        "--all-namespaces" | "--show-events" | "--previous" => value == "true",
        "--request-timeout" => value == "20s",
        "--cache-dir" => value == "/private/cache",
        "--output" => value == "json",
        "--selector" => plain(value, "-_./!=(), "),
        "--field-selector" => plain(value, "-.=!,:"),
        "--tail" => number(value, 2000),
        "--limit-bytes" => value == "67108864",
        "--since" => value.strip_suffix('s').is_some_and(|seconds| number(seconds, 31_536_000)),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_label(label) || label.len() > 63)
}

/// ASCII letters, digits and these, beginning with a letter, a digit or `!`.
fn plain(text: &str, also: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '!')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

fn number(text: &str, most: u64) -> bool {
    !text.starts_with('0') && text.parse::<u64>().is_ok_and(|number| (1..=most).contains(&number))
}

/// The invariants of an argv, and that it is about what was asked. `Err` names the one that is broken.
fn check(tool: &str, arguments: &Value, plan: &KubectlPlan) -> Result<(), String> {
    let that = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    let argv = plan.argv();
    let verb = argv.first().map(String::as_str);
    let expected = match tool {
        "list_pods" | "list_events" => "get",
        "pod_logs" => "logs",
        _ => "describe",
    };
    that(verb == Some(expected), "the verb is the tool's")?;

    let separator = argv.iter().position(|token| token == "--").ok_or("there is a separator")?;
    let (before, after) = (&argv[1..separator], &argv[separator + 1..]);
    let mut seen = Vec::new();
    for token in before {
        let (flag, value) = token.split_once('=').ok_or("a flag has its value behind =")?;
        that(is_known(flag, value), "every flag is known, and its value is one of its own")?;
        that(!seen.contains(&flag), "no flag is there twice")?;
        that(!token.to_ascii_lowercase().contains("--kuberc"), "no value holds a flag of kubectl's own")?;
        seen.push(flag);
    }
    that(seen == plan.flags(), "the flags are those of the facts")?;
    for flag in ["--context", "--request-timeout", "--cache-dir"] {
        that(seen.contains(&flag), "what pins the cluster is there")?;
    }
    for name in after {
        that(is_name(name), "a name is a name")?;
    }
    that(argv.iter().all(|token| token.len() <= 2048), "every token is short")?;

    let asked = arguments["namespace"].as_str();
    let scope = match asked {
        Some(namespace) => format!("--namespace={namespace}"),
        None => "--all-namespaces=true".to_owned(),
    };
    that(before.contains(&scope), "the namespace is the one that was asked for")?;
    that(seen.contains(&"--namespace") != seen.contains(&"--all-namespaces"), "one of the two is there")?;
    that(plan.namespace() == asked && plan.all_namespaces() == asked.is_none(), "the facts say so too")?;

    let word = match plan.group() {
        "" => plan.resource().unwrap_or_default().to_owned(),
        group => format!("{}.{group}", plan.resource().unwrap_or_default()),
    };
    let name = arguments["name"].as_str().unwrap_or_default().to_owned();
    let names = match tool {
        "list_pods" => vec!["pods".to_owned()],
        "list_events" => vec!["events".to_owned()],
        "pod_logs" => vec![name],
        _ => vec![word, name],
    };
    that(after == names, "the names are those that were asked for")?;
    that(!plan.resource().unwrap_or_default().contains("secret"), "no secret is read")
}

/// What one call came to.
fn outcome(catalogue: &Catalogue, tool: &str, arguments: &Value) -> Result<bool, String> {
    let Ok(call) = catalogue.admit(DecisionId::mint(), tool, arguments.clone()) else { return Ok(false) };
    let Ok(plan) = plan(call.id(), call.arguments(), &settings()) else { return Ok(false) };
    check(tool, arguments, &plan).map(|()| true)
}

// Generated by a loop, from a number: fast enough for millions.

/// Xorshift, 64 bits: the same calls on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// Texts that a field takes, by its name.
fn good(field: &str) -> &'static [&'static str] {
    match field {
        "selector" => &[
            "app=web",
            "a==b,c!=d",
            "a in (b,c),!d",
            "example.com/a=b",
            "tier",
            "!tier",
            "a notin ()",
            "a=",
            "x--y=z",
            "a = b , c",
        ],
        "field_selector" => &[
            "status.phase=Running",
            "status.phase!=Failed,spec.nodeName=",
            "metadata.name=web-0",
            "status.podIP=10.0.0.1",
            "spec.nodeName=node-1",
            "status.podIP==FD00::1",
            "spec.restartPolicy!=Always",
        ],
        "kind" | "for_kind" => &["pod", "deployment", "ingress", "job"],
        _ => &["dev", "kube-system", "web-0", "web.example", "a", "1", "x--y"],
    }
}

/// Texts that no field takes, and parts of them.
const BAD: [&str; 47] = [
    "",
    "-",
    "--",
    "-A",
    "-sX",
    "-AsX",
    "-oyaml",
    "-w",
    "-f",
    "-k",
    "--server=http://127.0.0.1:1",
    "--raw=/api",
    "--kuberc=/x",
    "x--kuberc=p",
    "--as_group=system:masters",
    "--all_namespaces",
    "-n",
    "secret",
    "secrets",
    "secret/s1",
    "pods,secrets",
    "secrets.v1.",
    "../secrets/s1",
    "..",
    ".",
    "a;id",
    "$(id)",
    "`id`",
    "|",
    "&watch=true",
    "\0",
    "\n",
    "\r",
    "\t",
    " ",
    "\u{202e}",
    "\u{200b}",
    "\u{e0041}",
    "\u{ff0d}",
    "%2f",
    "@/etc/passwd",
    "=",
    "!",
    "(",
    ")",
    ",",
    "\u{1b}[2J",
];

fn text(random: &mut Random, field: &str) -> String {
    let good = good(field);
    match random.below(12) {
        0..=6 => random.of(good).to_owned(),
        7 => random.of(&BAD).to_owned(),
        // Pieces of both, so that bad ones stand inside good ones.
        8..=9 => {
            let pieces = 1 + random.below(4);
            (0..pieces)
                .map(|_| if random.one_in(3) { random.of(&BAD) } else { random.of(good) })
                .collect::<Vec<_>>()
                .join(random.of(&["", ",", "=", "-", ".", "/", " "]))
        }
        // One character of a good one changed.
        10 => {
            let mut chars: Vec<char> = random.of(good).chars().collect();
            let at = random.below(chars.len());
            chars[at] = char::from_u32(u32::try_from(random.below(0x250)).unwrap()).unwrap();
            chars.into_iter().collect()
        }
        _ => {
            let length = random.below(80);
            (0..length).map(|_| char::from(u8::try_from(0x20 + random.below(0x5f)).unwrap())).collect()
        }
    }
}

fn value(random: &mut Random, field: &str, schema: &Value) -> Value {
    if random.one_in(40) {
        // Another type than the schema's.
        return [json!(null), json!([]), json!({}), json!(1.5), json!(true), json!("1")][random.below(6)]
            .clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(random.one_in(2)),
        Some("integer") => match random.below(16) {
            0 => json!(random.next()),
            1 => json!(-1),
            2 => json!(0),
            3 => json!(10.0),
            4 => json!(1e300),
            _ => json!(1 + random.below(2000)),
        },
        _ => match schema["enum"].as_array() {
            Some(values) if !random.one_in(8) => values[random.below(values.len())].clone(),
            _ => json!(text(random, field)),
        },
    }
}

/// A call of one of the tools: mostly with the schema's fields, so that the deeper stages see many of them.
fn generated(random: &mut Random, schemas: &[(&'static str, Value)]) -> (&'static str, Value) {
    let (tool, schema) = &schemas[random.below(schemas.len())];
    let mut fields = Map::new();
    let required = schema["required"].as_array().unwrap();
    for (name, property) in schema["properties"].as_object().unwrap() {
        let wanted = if required.contains(&json!(name)) { !random.one_in(30) } else { random.one_in(3) };
        if wanted {
            fields.insert(name.clone(), value(random, name, property));
        }
    }
    if random.one_in(50) {
        fields.insert(text(random, ""), json!(text(random, "")));
    }
    (tool, Value::Object(fields))
}

fn run(calls: u64, seed: u64) {
    let catalogue = Catalogue::load().unwrap();
    let schemas: Vec<(&'static str, Value)> = TOOLS
        .iter()
        .map(|tool| {
            let known = catalogue.definitions().find(|definition| definition.name == *tool).unwrap();
            (*tool, Value::Object(known.input_schema.clone()))
        })
        .collect();
    let mut random = Random(seed);
    let mut planned = [0_u64; 4];
    for number in 0..calls {
        let (tool, arguments) = generated(&mut random, &schemas);
        match outcome(&catalogue, tool, &arguments) {
            Ok(true) => planned[TOOLS.iter().position(|name| *name == tool).unwrap()] += 1,
            Ok(false) => {}
            Err(broken) => panic!("call {number}: it does not hold that {broken}: {tool} {arguments}"),
        }
    }
    // A generator whose calls are all refused would show nothing.
    for (tool, planned) in TOOLS.iter().zip(planned) {
        assert!(planned > calls / 100, "only {planned} of {calls} calls were plans of {tool}");
    }
}

#[test]
fn a_hundred_thousand_calls_keep_the_form() {
    run(100_000, 0x9e37_79b9_7f4a_7c15);
}

/// `cargo test --release --lib -- --ignored ten_million`
#[test]
#[ignore = "minutes; run by hand after a change of the argv or a grammar"]
fn ten_million_calls_keep_the_form() {
    run(10_000_000, 0x2545_f491_4f6c_dd1d);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}|[ -~]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("namespace|name|kind|selector|\\PC{0,8}", inner, 0..5)
                .prop_map(|fields| json!(fields)),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Value> {
    let text =
        || prop::option::of("[a-z]{1,8}|[a-z0-9.-]{1,12}|[ -~]{0,20}|\\PC{0,20}|a(=|!=|==)b(,[a-c]){0,2}");
    let kind = prop::option::of("pod|job|service|secret|[a-z]{3}");
    (text(), text(), kind.clone(), kind, text(), text(), text(), prop::option::of(-5_i64..3000), text())
        .prop_map(
            |(namespace, name, kind, for_kind, for_name, selector, field_selector, tail_lines, container)| {
                let fields = [
                    ("namespace", namespace.map(Value::from)),
                    ("name", name.map(Value::from)),
                    ("kind", kind.map(Value::from)),
                    ("for_kind", for_kind.map(Value::from)),
                    ("for_name", for_name.map(Value::from)),
                    ("selector", selector.map(Value::from)),
                    ("field_selector", field_selector.map(Value::from)),
                    ("tail_lines", tail_lines.map(Value::from)),
                    ("container", container.map(Value::from)),
                ];
                fields
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                    .collect::<Map<_, _>>()
                    .into()
            },
        )
}

/// Only the fields that the tool has: what is left out of a generated call.
fn known_to(tool: &str, arguments: Value) -> Value {
    let fields: &[&str] = match tool {
        "list_pods" => &["namespace", "selector", "field_selector"],
        "pod_logs" => &["namespace", "name", "container", "tail_lines"],
        "describe_resource" => &["namespace", "kind", "name"],
        _ => &["namespace", "for_kind", "for_name"],
    };
    let Value::Object(all) = arguments else { return arguments };
    Value::Object(all.into_iter().filter(|(name, _)| fields.contains(&name.as_str())).collect())
}

proptest! {
    #![proptest_config(properties(400))]

    #[test]
    fn any_json_is_refused_or_keeps_the_form(arguments in any_json()) {
        let catalogue = Catalogue::load().unwrap();
        for tool in TOOLS {
            outcome(&catalogue, tool, &arguments).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn any_arguments_are_refused_or_keep_the_form(arguments in any_arguments()) {
        let catalogue = Catalogue::load().unwrap();
        for tool in TOOLS {
            outcome(&catalogue, tool, &known_to(tool, arguments.clone())).map_err(TestCaseError::fail)?;
        }
    }
}
