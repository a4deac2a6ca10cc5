//! Credentials that other programs' messages may quote, taken out.
//!
//! For the errors of kubectl and for `describe`: short texts in which a credential is a word of its own. It is
//! a second line of defence; the first is that no credential is given to what could print it.

/// What stands where a credential stood.
const TAKEN: &str = "[redacted]";

/// The annotation that holds an object as it was applied, values and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces bearer tokens, JSON Web Tokens, PEM blocks and the last-applied annotation. Also gives how many.
#[must_use]
pub fn redact(text: &str) -> (String, u64) {
    let mut lines = Vec::new();
    let mut taken = 0;
    let mut in_block = false;
    for line in text.split('\n') {
        if in_block {
            in_block = !line.contains("-----END ");
        } else if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
            in_block = !line.contains("-----END ");
            taken += 1;
            lines.push(TAKEN.to_owned());
        } else if let Some((before, _)) = line.split_once(LAST_APPLIED) {
            taken += 1;
            lines.push(format!("{before}{LAST_APPLIED}: {TAKEN}"));
        } else {
            lines.push(without_tokens(line, &mut taken));
        }
    }
    (lines.join("\n"), taken)
}

fn without_tokens(line: &str, taken: &mut u64) -> String {
    if !line.contains("eyJ") && !line.to_ascii_lowercase().contains("bearer") {
        return line.to_owned();
    }
    let mut after_bearer = false;
    let words = line.split(' ').map(|word| {
        let secret = (after_bearer && word.len() >= 8) || holds_web_token(word);
        after_bearer = word.to_ascii_lowercase().ends_with("bearer");
        if secret {
            *taken += 1;
            TAKEN
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Three parts of base64url joined by dots, the first the encoding of `{"` (RFC 7519, section 3).
fn holds_web_token(word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    word.split(|c| !part(c)).any(|run| {
        let token = run.find("eyJ").and_then(|at| run.get(at..)).unwrap_or_default();
        token.len() >= 20 && token.matches('.').count() >= 2
    })
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn credentials_are_taken_out_and_the_rest_stays() {
        let table = [
            ("pods \"a\" not found", "pods \"a\" not found", 0),
            ("Authorization: Bearer abcdefgh1234 was sent", "Authorization: Bearer [redacted] was sent", 1),
            ("a bearer of news", "a bearer of news", 0),
            ("x token=eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl y", "x [redacted] y", 1),
            ("eyJust a word", "eyJust a word", 0),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nb",
                "a\n[redacted]\nb",
                1,
            ),
            (
                "Annotations:  kubectl.kubernetes.io/last-applied-configuration: {\"env\":\"s3cret\"}",
                "Annotations:  kubectl.kubernetes.io/last-applied-configuration: [redacted]",
                1,
            ),
        ];
        for (text, wanted, taken) in table {
            assert_eq!(redact(text), (wanted.to_owned(), taken), "{text}");
        }
    }
}
