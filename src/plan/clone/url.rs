//! Repository URLs and the hosts that an operator lists.
//!
//! A grammar of our own, narrower than RFC 3986 and than WHATWG's: where two URL parsers could disagree (userinfo,
//! encoded or shortened addresses, dot segments, backslashes, a trailing dot) the URL is refused, so that git and
//! libcurl cannot read it as another host or path than the policy did.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// A URL longer than this is nobody's repository.
const MAX_URL_BYTES: usize = 2048;
/// RFC 1035, section 2.3.4: names and labels, without the root's dot.
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// https.
const DEFAULT_PORT: u16 = 443;

/// An https URL of a repository, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepoUrl {
    host: CloneHost,
    /// Begins with `/`, ends without; percent-encoded where it was, in upper case.
    path: String,
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloneHost {
    name: String,
    port: u16,
}

impl RepoUrl {
    /// The server.
    #[must_use]
    pub fn host(&self) -> &CloneHost {
        &self.host
    }

    /// The path, `/` first.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl CloneHost {
    /// In lower case, without a trailing dot.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// 443 where none was written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The form under which the policy's data lists it: `github.com:443`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }

    /// `https://github.com`, with the port where it is another than 443.
    #[must_use]
    pub fn origin(&self) -> String {
        match self.port {
            DEFAULT_PORT => format!("https://{}", self.name),
            port => format!("https://{}:{port}", self.name),
        }
    }

    /// Takes an operator's entry apart: a host, perhaps a port, perhaps the beginning of a path.
    ///
    /// # Errors
    /// What is wrong with the entry.
    pub fn parse_entry(entry: &str) -> Result<(Self, String), &'static str> {
        if entry.contains("://") {
            return Err("is a URL; write the host alone, for example `github.com` or `github.com/my-org`");
        }
        let (host, path) = match entry.split_once('/') {
            None => (entry, String::new()),
            Some((host, path)) => (host, parse_path(&format!("/{path}"))?),
        };
        Ok((host.parse()?, path))
    }
}

impl fmt::Display for RepoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.host.origin(), self.path)
    }
}

impl fmt::Display for CloneHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            DEFAULT_PORT => f.write_str(&self.name),
            port => write!(f, "{}:{port}", self.name),
        }
    }
}

impl FromStr for RepoUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_URL_BYTES {
            return Err("is longer than 2048 bytes");
        }
        let Some(rest) = text.strip_prefix("https://") else {
            return Err("does not begin with `https://`, the only scheme that is cloned from");
        };
        if rest.contains('@') {
            return Err("has an `@`; credentials are the operator's and never in a URL");
        }
        if rest.contains(['?', '#']) {
            return Err("has a query or a fragment");
        }
        let Some((host, path)) = rest.split_once('/') else {
            return Err("has no path");
        };
        Ok(Self { host: host.parse()?, path: parse_path(&format!("/{path}"))? })
    }
}

impl FromStr for CloneHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('[') {
            return Err("has an IP address; write the server's name");
        }
        let (name, port) = match text.split_once(':') {
            None => (text, DEFAULT_PORT),
            Some((name, port)) => (name, parse_port(port)?),
        };
        Ok(Self { name: parse_name(name)?, port })
    }
}

fn parse_port(text: &str) -> Result<u16, &'static str> {
    const FAULT: &str = "has a port that is not a number from 1 to 65535";
    if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(FAULT);
    }
    text.parse::<NonZeroU16>().map(NonZeroU16::get).map_err(|_| FAULT)
}

/// A host name of RFC 1123 in ASCII; an internationalised name has to come in its `xn--` form.
fn parse_name(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("has no host");
    }
    if !text.is_ascii() {
        return Err("has a host with characters outside ASCII; write its `xn--` form");
    }
    if text.contains('%') {
        return Err("has a percent-encoded host");
    }
    if text.ends_with('.') {
        return Err("has a host with a dot at its end");
    }
    let labels: Vec<&str> = text.split('.').collect();
    let fits = |label: &&str| {
        !label.is_empty()
            && label.len() <= MAX_LABEL_BYTES
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if text.len() > MAX_HOST_BYTES || !labels.iter().all(fits) {
        return Err("has a host that is not a DNS name");
    }
    // 127.0.0.1, and what libraries read as the same: 127.1, 2130706433, 0x7f.1 (WHATWG URL, "ends in a number").
    if labels.last().is_some_and(|label| is_number(label)) {
        return Err("has an IP address; write the server's name");
    }
    Ok(text.to_ascii_lowercase())
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => label.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// A path of plain segments. One slash at the end is dropped.
fn parse_path(text: &str) -> Result<String, &'static str> {
    let text = text.strip_suffix('/').unwrap_or(text);
    if text.is_empty() {
        return Err("has no path");
    }
    for segment in text.split('/').skip(1) {
        match segment {
            "" => return Err("has an empty part in its path"),
            "." | ".." => return Err("has a `.` or `..` part in its path"),
            _ => {}
        }
    }
    let mut path = String::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let pair = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                let encoded =
                    std::str::from_utf8(&pair).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit));
                let value = encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                match (encoded, value) {
                    // A blank, and the bytes of characters outside ASCII: what has no plain form.
                    (Some(digits), Some(b' ' | 0x80..)) => {
                        path.push('%');
                        path.push_str(&digits.to_ascii_uppercase());
                    }
                    (Some(_), Some(_)) => {
                        return Err(
                            "has a percent-encoded character that has a plain form or none in a path",
                        );
                    }
                    _ => return Err("has a `%` that encodes nothing"),
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' => {
                path.push(char::from(byte));
            }
            _ => return Err("has a character that repositories' paths do not have"),
        }
    }
    Ok(path)
}
