//! A record's members to the text of its line: pure ASCII, and never longer than [`MAX_LINE`].
//!
//! Every character outside printable ASCII is written as a JSON escape. So no line separator, terminal
//! sequence or bidirectional control can break or disguise a line, whatever a stranger calls his tool, and
//! one record is one line under every definition of "line".
//!
//! A record that is too long is cut in steps, each harder than the last: long strings keep their beginning,
//! long arrays and objects their first members; in the end `arguments` and `subject` go as a whole. Each cut
//! is listed in the record's `truncated`, with the length and SHA-256 of what was there.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use serde_json::{Map, Value, json};

use crate::audit::AuditError;
use crate::audit::record::{Members, sha256_hex};

/// Bytes of the longest line, its newline included.
pub(in crate::audit) const MAX_LINE: usize = 64 * 1024;

/// Room for what the writer puts around the members: `ts`, `v`, `seq`, `prev`, `hash`.
const ENVELOPE: usize = 512;

/// How far each step cuts. The last leaves so little of each member that all of them fit.
const STEPS: [Limit; 4] = [
    Limit { bytes: 8192, items: 512 },
    Limit { bytes: 1024, items: 64 },
    Limit { bytes: 256, items: 16 },
    Limit { bytes: 128, items: 4 },
];

/// Members that have no fixed shape and may be replaced as a whole.
const FREE_FORM: [&str; 2] = ["arguments", "subject"];

/// Encodes the members, without braces: `"kind":"decision",…,"truncated":[]`.
///
/// # Errors
/// [`AuditError::Encode`] when the record does not fit even after the last cut.
pub(in crate::audit) fn encode(members: &Members) -> Result<Vec<u8>, AuditError> {
    let whole = text(members, &Vec::new())?;
    if fits(&whole) {
        return Ok(whole);
    }
    for limit in STEPS {
        let mut cuts = Vec::new();
        let cut = text(&cut_members(members, limit, &mut cuts), &cuts)?;
        if fits(&cut) {
            return Ok(cut);
        }
    }
    let [.., last] = STEPS;
    let mut cuts = Vec::new();
    let mut remaining = members.clone();
    for (name, value) in &mut remaining {
        if FREE_FORM.contains(name) && !value.is_null() {
            cuts.push(Cut::of(format!("/{name}"), &compact(value)));
            *value = json!({});
        }
    }
    let bare = text(&cut_members(&remaining, last, &mut cuts), &cuts)?;
    if fits(&bare) { Ok(bare) } else { Err(AuditError::Encode) }
}

fn fits(text: &[u8]) -> bool {
    text.len() + ENVELOPE <= MAX_LINE
}

#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    items: usize,
}

/// One entry of `truncated`.
#[derive(Serialize)]
struct Cut {
    /// JSON pointer to what was cut.
    field: String,
    /// Bytes that were there: of a string its UTF-8, of an array or object its compact JSON.
    len: usize,
    /// SHA-256 of those bytes.
    sha256: String,
}

impl Cut {
    fn of(field: String, bytes: &[u8]) -> Self {
        Self { field, len: bytes.len(), sha256: sha256_hex(bytes) }
    }
}

fn cut_members(members: &Members, limit: Limit, cuts: &mut Vec<Cut>) -> Members {
    members.iter().map(|(name, value)| (*name, cut_value(value, &format!("/{name}"), limit, cuts))).collect()
}

fn cut_value(value: &Value, at: &str, limit: Limit, cuts: &mut Vec<Cut>) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(string) if string.len() <= limit.bytes => value.clone(),
        Value::String(string) => {
            cuts.push(Cut::of(at.to_owned(), string.as_bytes()));
            Value::String(beginning(string, limit.bytes))
        }
        Value::Array(items) => {
            if items.len() > limit.items {
                cuts.push(Cut::of(at.to_owned(), &compact(value)));
            }
            let kept = items.iter().take(limit.items).enumerate();
            kept.map(|(index, item)| cut_value(item, &format!("{at}/{index}"), limit, cuts)).collect()
        }
        Value::Object(members) => {
            if members.len() > limit.items {
                cuts.push(Cut::of(at.to_owned(), &compact(value)));
            }
            let mut kept = Map::new();
            for (name, member) in members.iter().take(limit.items) {
                let name = cut_name(name, limit);
                let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                kept.insert(name, cut_value(member, &pointer, limit, cuts));
            }
            Value::Object(kept)
        }
    }
}

/// A long member name ends in its digest, so that two names with one beginning stay two.
fn cut_name(name: &str, limit: Limit) -> String {
    if name.len() <= limit.bytes {
        return name.to_owned();
    }
    format!("{}{}", beginning(name, limit.bytes / 2), sha256_hex(name.as_bytes()))
}

fn beginning(string: &str, bytes: usize) -> String {
    let end = string.floor_char_boundary(bytes);
    let mut kept = string.get(..end).unwrap_or_default().to_owned();
    kept.push('…');
    kept
}

fn compact(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn text(members: &Members, cuts: &Vec<Cut>) -> Result<Vec<u8>, AuditError> {
    let mut out = Vec::new();
    for (name, value) in members {
        member(&mut out, name, value)?;
        out.push(b',');
    }
    member(&mut out, "truncated", cuts)?;
    Ok(out)
}

fn member<T: Serialize>(out: &mut Vec<u8>, name: &str, value: &T) -> Result<(), AuditError> {
    ascii(out, name)?;
    out.push(b':');
    ascii(out, value)
}

fn ascii<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), AuditError> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Ascii);
    value.serialize(&mut serializer).map_err(|_| AuditError::Encode)
}

/// Compact JSON in printable ASCII.
struct Ascii;

impl Formatter for Ascii {
    /// `fragment` holds no character that JSON itself wants escaped.
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let is_plain = |byte: u8| matches!(byte, 0x20..=0x7e);
        if fragment.bytes().all(is_plain) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        for character in fragment.chars() {
            if character.is_ascii() && character != '\u{7f}' {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn parsed(members: &Members) -> (String, Value) {
        let line = String::from_utf8(encode(members).unwrap()).unwrap();
        let value = serde_json::from_str(&format!("{{{line}}}")).unwrap();
        (line, value)
    }

    #[test]
    fn strange_strings_stay_on_one_ascii_line_and_come_back_unchanged() {
        for strange in [
            "a\nb\r\u{85}\u{2028}\u{2029}\u{b}\u{c}",
            "\0\u{1b}[2J\u{7f}\u{9b}",
            "\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}",
            "😀 é \" \\",
        ] {
            let (line, value) = parsed(&vec![("tool", json!(strange))]);
            assert!(line.bytes().all(|byte| matches!(byte, 0x20..=0x7e)), "{line}");
            assert_eq!(value["tool"], strange);
            assert_eq!(value["truncated"], json!([]));
        }
    }

    #[test]
    fn a_string_of_a_mebibyte_keeps_its_beginning_and_leaves_its_digest() {
        for (character, width) in [('x', 1), ('\u{2028}', 3), ('😀', 4), ('\0', 1)] {
            let long: String = std::iter::repeat_n(character, (1 << 20) / width).collect();
            let (line, value) = parsed(&vec![("tool", json!(long))]);
            assert!(line.len() + ENVELOPE <= MAX_LINE);
            assert!(value["tool"].as_str().unwrap().starts_with(character));
            assert_eq!(value["truncated"][0]["field"], "/tool");
            assert_eq!(value["truncated"][0]["len"], long.len());
            assert_eq!(value["truncated"][0]["sha256"], hex::encode(Sha256::digest(&long)));
        }
    }

    #[test]
    fn hostile_shapes_fit_too() {
        let wide: Map<String, Value> = (0..8_000).map(|n| (format!("key{n}"), json!(n))).collect();
        let mut bushy = json!("leaf");
        for _ in 0..7 {
            bushy = json!([bushy, bushy, bushy, bushy]);
        }
        let names: Map<String, Value> =
            [("n".repeat(1 << 20) + "1", json!(1)), ("n".repeat(1 << 20) + "2", json!(2))]
                .into_iter()
                .collect();
        let reasons = vec![json!({ "code": "\0".repeat(2000), "msg": "\0".repeat(2000) }); 100];
        for arguments in [json!(wide), bushy, json!(names), json!(vec!["\u{1}"; 20_000])] {
            let (line, value) = parsed(&vec![
                ("tool", json!("\0".repeat(1 << 20))),
                ("arguments", arguments),
                ("decision", json!({ "reasons": reasons, "warn": reasons })),
            ]);
            assert!(line.len() + ENVELOPE <= MAX_LINE);
            assert!(value["arguments"].is_object() || value["arguments"].is_array());
            assert!(!value["truncated"].as_array().unwrap().is_empty());
        }
        let (_, value) = parsed(&vec![("arguments", json!(names))]);
        assert_eq!(value["arguments"].as_object().unwrap().len(), 2);
    }

    proptest! {
        #[test]
        fn any_string_comes_back(string in any::<String>()) {
            let (line, value) = parsed(&vec![("tool", json!(string))]);
            prop_assert!(line.bytes().all(|byte| matches!(byte, 0x20..=0x7e)));
            prop_assert_eq!(&value["tool"], &json!(string));
        }
    }
}
