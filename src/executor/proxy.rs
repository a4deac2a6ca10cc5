//! Which hosts are reached without a proxy.
//!
//! The kube crate compares `NO_PROXY` with the *proxy's* host; these are the rules of Go's
//! `golang.org/x/net/http/httpproxy`, which kubectl follows, applied to the API server's host.

use std::net::IpAddr;

/// Whether `host` is reached directly, given the value of `NO_PROXY`. Loopback always is.
pub(crate) fn is_direct(no_proxy: &str, host: &str, port: Option<u16>) -> bool {
    if is_loopback(host) {
        return true;
    }
    let host = without_brackets(host);
    let address: Option<IpAddr> = host.parse().ok();
    no_proxy
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| matches(&entry.to_ascii_lowercase(), &host, address, port))
}

/// Whether `host` is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = without_brackets(host);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn without_brackets(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn matches(entry: &str, host: &str, address: Option<IpAddr>, port: Option<u16>) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, prefix)) = entry.split_once('/') {
        return in_network(network, prefix, address);
    }
    if let Ok(listed) = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return address == Some(listed);
    }
    let (name, wanted_port) = match entry.rsplit_once(':') {
        Some((name, digits)) => (name, digits.parse().ok()),
        None => (entry, None),
    };
    if wanted_port.is_some() && wanted_port != port {
        return false;
    }
    match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        Some(domain) => is_below(host, domain),
        None => host == name || is_below(host, name),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn in_network(network: &str, prefix: &str, address: Option<IpAddr>) -> bool {
    let Ok(length) = prefix.parse::<u32>() else {
        return false;
    };
    match (network.parse(), address) {
        (Ok(IpAddr::V4(network)), Some(IpAddr::V4(address))) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        (Ok(IpAddr::V6(network)), Some(IpAddr::V6(address))) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_direct;

    #[test]
    fn follows_the_rules_of_httpproxy() {
        let table = [
            ("", "api.example.com", false),
            ("", "127.0.0.1", true),
            ("", "[::1]", true),
            ("", "localhost", true),
            ("*", "api.example.com", true),
            ("example.com", "api.example.com", true),
            ("example.com", "example.com", true),
            ("example.com", "badexample.com", false),
            (".example.com", "api.example.com", true),
            (".example.com", "example.com", false),
            ("*.example.com", "api.example.com", true),
            ("API.example.com:6443", "api.example.com", true),
            ("api.example.com:443", "api.example.com", false),
            ("a, 10.0.0.0/8 ,b", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("0.0.0.0/0", "10.0.0.1", true),
            ("fd00::/8", "[fd12::1]", true),
            ("fd00::/8", "10.0.0.1", false),
            ("10.0.0.0/99", "10.0.0.1", false),
        ];
        for (no_proxy, host, direct) in table {
            assert_eq!(is_direct(no_proxy, host, Some(6443)), direct, "{no_proxy:?} {host}");
        }
    }
}
