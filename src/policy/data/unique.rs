//! Repeated keys in YAML. The parser keeps the last of them without a word, so that the line which a reader
//! finds first may not be the one that counts.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};

/// Fails on a document that repeats a key anywhere, or that holds a tag or a key which is not a string.
pub(super) fn check(text: &str) -> Result<(), serde_yaml::Error> {
    Walk { path: "" }.deserialize(serde_yaml::Deserializer::from_str(text))
}

/// Walks a value at `path` and keeps nothing of it but the keys of the map at hand.
struct Walk<'a> {
    path: &'a str,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = match self.path {
                "" => key.clone(),
                parent => format!("{parent}.{key}"),
            };
            if !keys.insert(key) {
                return Err(de::Error::custom(format_args!("key `{path}` is written twice")));
            }
            map.next_value_seed(Walk { path: &path })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Walk { path: self.path })?.is_some() {}
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _tagged: A) -> Result<(), A::Error> {
        Err(de::Error::custom(format_args!(
            "`{}` has a YAML tag, which means nothing here",
            self.path
        )))
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}
