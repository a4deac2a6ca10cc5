//! Why a clone failed, in the cloner's own last words.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::time::Instant;

use crate::executor::classify::Ended;
use crate::executor::logs;
use crate::output::{clean, redact};
use crate::plan::manifest::CLONE;

/// How long the words are sought.
const LOG: Duration = Duration::from_secs(3);

/// How much of the log is read, in bytes, and how many of its last lines are kept.
const MOST_BYTES: usize = 8 * 1024;
const MOST_LINES: usize = 8;
const MOST_CHARACTERS: usize = 300;

/// Puts the end of the cloner's log into the message. The cloner has taken its token out of it already; what looks
/// like another credential goes too.
pub(super) async fn explain(pods: &Api<Pod>, pod: Option<&Pod>, ended: &mut Ended) {
    let Some(name) = pod.and_then(|pod| pod.metadata.name.as_deref()) else { return };
    let log = logs::read(pods, name, CLONE, MOST_BYTES, Instant::now() + LOG).await;
    ended.message = message(&log.text.text, &ended.message);
}

/// The last lines of `log`, or what is known without them.
fn message(log: &str, known: &str) -> String {
    let (text, _) = redact(&clean(log).text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return format!("the repository could not be cloned: {known}");
    }
    let last = lines.get(lines.len().saturating_sub(MOST_LINES)..).unwrap_or_default();
    let short = |line: &&str| match line.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => (*line).to_owned(),
    };
    format!("the repository could not be cloned: {}", last.iter().map(short).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn the_last_words_are_kept_short_and_without_credentials() {
        let said = message("remote: Repository not found.\n\nfatal: \u{1b}[31mnot found\n", "");
        assert_eq!(
            said,
            "the repository could not be cloned: remote: Repository not found.; fatal: not found"
        );
        let said = message("Authorization: Bearer abcdefgh12345678\n", "");
        assert!(!said.contains("abcdefgh"), "{said}");
        let said = message(&"line\n".repeat(100), "");
        assert_eq!(said.matches("line").count(), 8);
        assert!(message(&"x".repeat(5000), "").chars().count() < 400);
        assert_eq!(message("", "exit code 1"), "the repository could not be cloned: exit code 1");
    }
}
