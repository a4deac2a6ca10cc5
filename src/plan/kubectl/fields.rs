//! The fields of a read: text to names and selectors, and what a refusal says of one that does not parse.

use std::fmt::Display;
use std::str::FromStr;

use crate::plan::kubectl::kind::Kind;
use crate::plan::{keep, quote};
use crate::refusal::Reason;

/// A text field of a read: how a refusal speaks of it.
pub(super) struct Field {
    code: &'static str,
    pointer: &'static str,
    noun: &'static str,
    hint: &'static str,
}

pub(super) const NAMESPACE: Field = Field {
    code: "namespace.invalid",
    pointer: "/namespace",
    noun: "namespace",
    hint: "write the name of one namespace, for example `default`",
};
pub(super) const NAME: Field = Field {
    code: "name.invalid",
    pointer: "/name",
    noun: "name",
    hint: "write the exact name of one object, as list_pods or list_events shows it, without its kind",
};
pub(super) const FOR_NAME: Field = Field { pointer: "/for_name", ..NAME };
pub(super) const CONTAINER: Field = Field {
    code: "container.invalid",
    pointer: "/container",
    noun: "container",
    hint: "write the name of one container, as describe_resource shows it for the pod",
};
pub(super) const SELECTOR: Field = Field {
    code: "selector.invalid",
    pointer: "/selector",
    noun: "label selector",
    hint: "write for example `app=web,tier!=cache`, `env in (dev,staging)`, `canary` or `!canary`",
};
pub(super) const FIELD_SELECTOR: Field = Field {
    code: "field_selector.invalid",
    pointer: "/field_selector",
    noun: "field selector",
    hint: "write for example `status.phase!=Running` or `spec.nodeName=node-1`",
};

/// The value, or a reason added to the others.
pub(super) fn parsed<T: FromStr<Err: Display>>(
    text: &str,
    field: &Field,
    reasons: &mut Vec<Reason>,
) -> Option<T> {
    let value = text.parse().map_err(|fault| {
        let message = format!("{} {} {fault}", field.noun, quote(text));
        Some(Reason::new(field.code, message, field.pointer, field.hint))
    });
    keep(value, reasons)
}

/// `None` when there is a reason; `Some(None)` when nothing was written.
pub(super) fn optional<T: FromStr<Err: Display>>(
    text: Option<&str>,
    field: &Field,
    reasons: &mut Vec<Reason>,
) -> Option<Option<T>> {
    match text {
        Some(text) => parsed(text, field, reasons).map(Some),
        None => Some(None),
    }
}

/// The kind, or a reason added to the others.
pub(super) fn known_kind(name: &str, pointer: &str, reasons: &mut Vec<Reason>) -> Option<Kind> {
    let kind = Kind::of(name);
    if kind.is_none() {
        reasons.push(unknown_kind(name, pointer));
    }
    kind
}

/// The reason for a kind that is not read.
pub(super) fn unknown_kind(name: &str, pointer: &str) -> Reason {
    Reason::new(
        "kind.invalid",
        format!("kind {} cannot be read", quote(name)),
        pointer,
        "use one of the kinds in the tool's input schema",
    )
}

/// Adds a reason if the number is not from 1 to `most`.
pub(super) fn within(number: u64, most: u64, field: &str, reasons: &mut Vec<Reason>) {
    if !(1..=most).contains(&number) {
        reasons.push(Reason::new(
            format!("{field}.invalid"),
            format!("{number} is not a number from 1 to {most}"),
            format!("/{field}"),
            format!("write a number from 1 to {most}"),
        ));
    }
}
