//! Label selectors: Kubernetes' grammar, parsed and written again in one form.
//!
//! `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)` and `key notin (a,b)`, joined by
//! commas ("Labels and Selectors" in Kubernetes' documentation). `>` and `<` are not documented for labels and
//! are left out.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::plan::kubectl::name::DnsSubdomain;
use crate::plan::quote;

/// A label selector: its requirements in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    Equals(String),
    Differs(String),
    In(Vec<String>),
    NotIn(Vec<String>),
}

/// Why a text is no label selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(in crate::plan) enum LabelSelectorError {
    #[error("is longer than {MAX_BYTES} bytes")]
    TooLong,
    #[error("has {found} where {expected} should be")]
    Unexpected { found: String, expected: &'static str },
    #[error(
        "has the key {0}, which is no label's: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, `_` and `.`"
    )]
    Key(String),
    #[error("has the value {0}, which no label can have: at most 63 letters, digits, `-`, `_` and `.`")]
    Value(String),
    #[error("contains `{KUBERC}`, which kubectl would read as a flag of its own")]
    Kuberc,
}

const MAX_BYTES: usize = 1024;

/// Letters, digits, `-`, `_` and `.`, not more than these.
const MAX_PART: usize = 63;

/// kubectl 1.34 and later look for `--kuberc=` anywhere in each argument, a selector's key included, and load
/// the file that follows. No label needs to be called so.
const KUBERC: &str = "--kuberc";

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, LabelSelectorError> {
        if text.len() > MAX_BYTES {
            return Err(LabelSelectorError::TooLong);
        }
        if text.to_ascii_lowercase().replace('_', "-").contains(KUBERC) {
            return Err(LabelSelectorError::Kuberc);
        }
        let mut tokens = Tokens { rest: text };
        let mut requirements = vec![tokens.requirement()?];
        loop {
            match tokens.next() {
                Token::End => return Ok(Self(requirements)),
                Token::Comma => requirements.push(tokens.requirement()?),
                found => return Err(found.instead_of("a comma or the end")),
            }
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => f.write_str(key)?,
                Test::Missing => write!(f, "!{key}")?,
                Test::Equals(value) => write!(f, "{key}={value}")?,
                Test::Differs(value) => write!(f, "{key}!={value}")?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
            }
        }
        Ok(())
    }
}

/// What is not yet read.
struct Tokens<'a> {
    rest: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Open,
    Close,
    Comma,
    End,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Token<'a> {
        let rest = self.rest.trim_start_matches(' ');
        const SYMBOLS: [(&str, Token<'static>); 7] = [
            ("==", Token::DoubleEquals),
            ("!=", Token::NotEquals),
            ("=", Token::Equals),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
        ];
        for (symbol, token) in SYMBOLS {
            if let Some(after) = rest.strip_prefix(symbol) {
                self.rest = after;
                return token;
            }
        }
        let end = rest.find([' ', '=', '!', '(', ')', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        if word.is_empty() { Token::End } else { Token::Word(word) }
    }

    fn peek(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let (key, is_missing) = match self.next() {
            Token::Not => match self.next() {
                Token::Word(word) => (key(word)?, true),
                found => return Err(found.instead_of("a key")),
            },
            Token::Word(word) => (key(word)?, false),
            found => return Err(found.instead_of("a key")),
        };
        if is_missing {
            return Ok(Requirement { key, test: Test::Missing });
        }
        let test = match self.peek() {
            Token::End | Token::Comma => Test::Exists,
            Token::Equals | Token::DoubleEquals => {
                self.next();
                Test::Equals(self.value()?)
            }
            Token::NotEquals => {
                self.next();
                Test::Differs(self.value()?)
            }
            Token::Word("in") => {
                self.next();
                Test::In(self.values()?)
            }
            Token::Word("notin") => {
                self.next();
                Test::NotIn(self.values()?)
            }
            found => return Err(found.instead_of("`=`, `!=`, `in`, `notin`, a comma or the end")),
        };
        Ok(Requirement { key, test })
    }

    /// One value; a label's value may be empty.
    fn value(&mut self) -> Result<String, LabelSelectorError> {
        match self.peek() {
            Token::Word(word) => {
                self.next();
                value(word)
            }
            Token::End | Token::Comma => Ok(String::new()),
            found => Err(found.instead_of("a value")),
        }
    }

    /// `(a, b)`, sorted and each once. An empty place stands for the empty value.
    fn values(&mut self) -> Result<Vec<String>, LabelSelectorError> {
        match self.next() {
            Token::Open => {}
            found => return Err(found.instead_of("`(`")),
        }
        let mut values = Vec::new();
        loop {
            values.push(match self.peek() {
                Token::Word(word) => {
                    self.next();
                    value(word)?
                }
                Token::Comma | Token::Close => String::new(),
                found => return Err(found.instead_of("a value or `)`")),
            });
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                found => return Err(found.instead_of("a comma or `)`")),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

impl Token<'_> {
    fn instead_of(self, expected: &'static str) -> LabelSelectorError {
        let found = match self {
            Self::Word(word) => quote(word),
            Self::Not => "`!`".to_owned(),
            Self::Equals => "`=`".to_owned(),
            Self::DoubleEquals => "`==`".to_owned(),
            Self::NotEquals => "`!=`".to_owned(),
            Self::Open => "`(`".to_owned(),
            Self::Close => "`)`".to_owned(),
            Self::Comma => "a comma".to_owned(),
            Self::End => "its end".to_owned(),
        };
        LabelSelectorError::Unexpected { found, expected }
    }
}

/// A qualified name: `example.com/name` or `name`.
fn key(word: &str) -> Result<String, LabelSelectorError> {
    let (prefix, name) = match word.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, word),
    };
    let good_prefix = prefix.is_none_or(|prefix| prefix.parse::<DnsSubdomain>().is_ok());
    if good_prefix && !name.is_empty() && is_part(name) {
        Ok(word.to_owned())
    } else {
        Err(LabelSelectorError::Key(quote(word)))
    }
}

fn value(word: &str) -> Result<String, LabelSelectorError> {
    if is_part(word) { Ok(word.to_owned()) } else { Err(LabelSelectorError::Value(quote(word))) }
}

/// `([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?`, at most 63.
fn is_part(text: &str) -> bool {
    let edge = |b: Option<u8>| b.is_none_or(|b| b.is_ascii_alphanumeric());
    text.len() <= MAX_PART
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
}

#[cfg(test)]
mod tests;
