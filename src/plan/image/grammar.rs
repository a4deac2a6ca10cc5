//! The terminal symbols of an image reference, each as one test on a string.

/// Whether the first component of a name is a registry and not a path: it has a dot or a colon, is
/// `localhost`, or has a capital letter (which no path may have).
pub(super) fn is_registry(component: &str) -> bool {
    component.contains(['.', ':'])
        || component == "localhost"
        || component.bytes().any(|b| b.is_ascii_uppercase())
}

/// A host name, an IPv4 address or a bracketed IPv6 address, with an optional port.
pub(super) fn is_domain(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((address, "")) => is_ipv6(address),
            Some((address, port)) => is_ipv6(address) && port.strip_prefix(':').is_some_and(is_port),
            None => false,
        };
    }
    match text.split_once(':') {
        Some((host, port)) => is_host(host) && is_port(port),
        None => is_host(text),
    }
}

/// Path components of `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`, joined by slashes.
pub(super) fn is_repository(text: &str) -> bool {
    text.split('/').all(is_path_component)
}

/// `[\w][\w.-]{0,127}`, where `\w` is ASCII.
pub(super) fn is_tag(text: &str) -> bool {
    fn word(b: u8) -> bool {
        b.is_ascii_alphanumeric() || b == b'_'
    }
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

/// `sha256:` and 64, or `sha512:` and 128 lower-case hexadecimal digits: the algorithms that the OCI image
/// specification registers and registries serve.
pub(super) fn is_digest(text: &str) -> bool {
    match text.split_once(':') {
        Some(("sha256", hex)) => hex.len() == 64 && is_lower_hex(hex),
        Some(("sha512", hex)) => hex.len() == 128 && is_lower_hex(hex),
        _ => false,
    }
}

/// 64 hexadecimal digits and nothing else.
pub(super) fn is_image_id(text: &str) -> bool {
    text.len() == 64 && is_lower_hex(text)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_host(text: &str) -> bool {
    text.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

fn is_ipv6(text: &str) -> bool {
    // Without the dotted form: the reference grammar has no dots between the brackets.
    !text.contains('.') && text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// A port that exists, written in one way only: two spellings of one port would be two keys.
fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
        && !text.starts_with('0')
        && text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_path_component(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends_well = |b: Option<u8>| b.is_some_and(alphanumeric);
    ends_well(text.bytes().next())
        && ends_well(text.bytes().next_back())
        && text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).all(is_separator)
}

/// What may stand between two runs of letters and digits; empty is between two neighbours of one run.
fn is_separator(text: &str) -> bool {
    matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-')
}
