//! JSON and YAML without repeated keys.
//!
//! `{"image":"a","image":"b"}` is legal JSON whose meaning depends on the reader: what one parser checks,
//! the next one may not see (CVE-2026-27896 was such a gap), and the YAML parser keeps the last silently. So
//! a repeated key is refused before anything reads the value.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::Value;

/// Where a key is repeated: a JSON pointer to the second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateKey(pub String);

/// Why a JSON text cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StrictError {
    /// Not JSON, or nested deeper than serde_json's 128.
    #[error("not valid JSON: {0}")]
    Syntax(serde_json::Error),
    /// An object names one key twice.
    #[error("the key at `{0}` is given twice; give it once")]
    Duplicate(String),
}

/// Parses JSON and refuses repeated keys.
///
/// # Errors
/// [`StrictError`].
pub fn json(text: &[u8]) -> Result<Value, StrictError> {
    match duplicate_key(text).map_err(StrictError::Syntax)? {
        Some(DuplicateKey(pointer)) => Err(StrictError::Duplicate(pointer)),
        None => serde_json::from_slice(text).map_err(StrictError::Syntax),
    }
}

/// Parses one YAML document and refuses repeated keys and tags.
///
/// # Errors
/// The parser's, with the place.
pub fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_yaml::Error> {
    Node(&mut Search::default()).deserialize(serde_yaml::Deserializer::from_str(text))?;
    serde_yaml::from_str(text)
}

/// The first repeated key of a JSON text, if there is one. What comes after it is not looked at.
///
/// # Errors
/// The parser's, when what comes before it is not JSON.
pub fn duplicate_key(text: &[u8]) -> Result<Option<DuplicateKey>, serde_json::Error> {
    let mut search = Search::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let walked = Node(&mut search).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match search.found {
        Some(pointer) => Ok(Some(DuplicateKey(pointer))),
        None => walked.map(|()| None),
    }
}

/// Where the walk is, and the repeated key that ended it.
#[derive(Default)]
struct Search {
    path: Vec<String>,
    found: Option<String>,
}

impl Search {
    fn pointer(&self) -> String {
        self.path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
    }
}

/// Walks one value without building it.
struct Node<'a>(&'a mut Search);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value")
    }

    // YAML's tags.
    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(de::Error::custom("a YAML tag means nothing here"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    // YAML's null.
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let search = self.0;
        let mut index = 0_usize;
        loop {
            search.path.push(index.to_string());
            let element = elements.next_element_seed(Node(&mut *search))?;
            search.path.pop();
            if element.is_none() {
                return Ok(());
            }
            index = index.saturating_add(1);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let search = self.0;
        let mut seen = HashSet::new();
        while let Some(Key(key)) = entries.next_key()? {
            search.path.push(key.clone());
            if seen.contains(&key) {
                search.found = Some(search.pointer());
                return Err(de::Error::custom(format_args!("key `{key}` is written twice")));
            }
            seen.insert(key);
            entries.next_value_seed(Node(&mut *search))?;
            search.path.pop();
        }
        Ok(())
    }
}

/// An object's key with its escapes resolved, so that `"a"` and `"\u0061"` are the same key.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        duplicate_key(text.as_bytes()).unwrap().map(|DuplicateKey(pointer)| pointer)
    }

    #[test]
    fn repeated_keys_are_found_wherever_they_are() {
        assert_eq!(found(r#"{"a":1,"a":2}"#).as_deref(), Some("/a"));
        assert_eq!(found(r#"{"a":{"b":1,"b":1}}"#).as_deref(), Some("/a/b"));
        assert_eq!(found(r#"[{"x":1},{"x":1,"x":1}]"#).as_deref(), Some("/1/x"));
        assert_eq!(found(r#"{"a/b":1,"a/b":2}"#).as_deref(), Some("/a~1b"));
        assert_eq!(found(r#"{"image":"a","im\u0061ge":"b"}"#).as_deref(), Some("/image"));
    }

    #[test]
    fn siblings_may_share_a_key_and_case_matters() {
        assert_eq!(found(r#"[{"x":1},{"x":1}]"#), None);
        assert_eq!(found(r#"{"a":{"b":1},"b":{"a":1}}"#), None);
        assert_eq!(found(r#"{"image":1,"Image":2}"#), None);
    }

    #[test]
    fn text_that_is_not_json_is_an_error() {
        for text in ["", "{", "{}x", "{} {}", "nul", "\"\\ud800\"", &"[".repeat(100_000)] {
            assert!(json(text.as_bytes()).is_err(), "{text:.20}");
        }
    }

    #[test]
    fn yaml_is_held_to_the_same() {
        assert_eq!(yaml::<Value>("a: [1, {b: no}]").unwrap(), serde_json::json!({ "a": [1, { "b": "no" }] }));
        let error = yaml::<Value>("config:\n  images: [a]\n  images: [b]\n").unwrap_err().to_string();
        assert!(error.contains("config: key `images` is written twice"), "{error}");
        for text in ["a: 1\n---\na: 2\n", "a: !tag b\n"] {
            assert!(yaml::<Value>(text).is_err(), "{text}");
        }
    }
}
