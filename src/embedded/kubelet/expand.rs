//! `$(NAME)` in commands, arguments and environment values.

use std::collections::BTreeMap;

/// Replaces `$(NAME)` by the variable's value, as the kubelet does: a reference to an unknown variable stays
/// as it is, and `$$` is one `$` that starts no reference.
#[must_use]
pub fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(more) = after.strip_prefix('$') {
            out.push('$');
            rest = more;
        } else if let Some((name, more)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match variables.get(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = more;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the Kubernetes documentation ("Define Dependent Environment Variables") and the field docs of
    /// `Container.command`: `$$(VAR_NAME)` yields the literal `$(VAR_NAME)`.
    #[test]
    fn references_are_replaced_as_documented() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A ${A}", "$A ${A}"),
            ("$(date +%s)", "$(date +%s)"),
            ("echo $$", "echo $"),
            ("$", "$"),
            ("$(", "$("),
            ("$(A", "$(A"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }
}
