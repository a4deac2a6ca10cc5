//! Other programs' messages, made fit for a result.

/// `what`, and why, where another program said so.
pub(crate) fn because(what: &str, detail: &str) -> String {
    let detail = shortened(detail);
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// `message` without line breaks and control characters, at most 500 characters.
///
/// A kubelet or registry may answer with a page of HTML; a result needs the sentence at its start.
pub(crate) fn shortened(message: &str) -> String {
    const MOST: usize = 500;
    let mut text: String =
        message.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST + 1).collect();
    if text.chars().count() > MOST {
        text.pop();
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{because, shortened};

    #[test]
    fn messages_stay_one_short_line() {
        assert_eq!(shortened("  a\nb\t\u{1b}[31mc  "), "a b  [31mc");
        assert_eq!(shortened(&"ä".repeat(500)), "ä".repeat(500));
        assert_eq!(shortened(&"ä".repeat(501)), format!("{}…", "ä".repeat(500)));
        assert_eq!(because("it failed", " \n"), "it failed");
        assert_eq!(because("it failed", "disk full"), "it failed: disk full");
    }
}
