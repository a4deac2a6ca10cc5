//! Identifiers that kubepermit mints.

use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Names one `tools/call` from its arrival to its reply: in the policy's input, in both audit records, in
/// the result, and in the Job's name and labels.
///
/// "Decision id" is OPA's term. A UUID of version 7, so that ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId(Uuid);

impl DecisionId {
    /// A fresh id.
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id that a Job carries in its label: of a call that an earlier process, or another one, decided.
    /// `None` when the text is not one.
    #[must_use]
    pub fn recovered(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        // Exactly as it is written there: a label in another spelling is not ours.
        (id.hyphenated().to_string() == text).then_some(Self(id))
    }

    /// When it was minted, in seconds of the Unix epoch: a UUID of version 7 says so.
    #[must_use]
    pub fn minted_at(&self) -> u64 {
        self.0.get_timestamp().map_or(0, |time| time.to_unix().0)
    }

    /// The id as 32 hexadecimal digits: fit for a Kubernetes object name.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DecisionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a caller gets for a job in the background, and the only thing that leads back to it: `job-` and 32
/// hexadecimal digits, as the reference server writes it.
///
/// A secret: it is told to its caller once. The cluster, the records and the policy know its digest alone.
#[derive(Clone, PartialEq, Eq)]
pub struct JobToken(String);

impl JobToken {
    const PREFIX: &'static str = "job-";

    /// A fresh token: 122 bits from the operating system's generator.
    #[must_use]
    pub fn mint() -> Self {
        Self(format!("{}{}", Self::PREFIX, Uuid::new_v4().simple()))
    }

    /// The token that a caller gives back. `None` when it cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        is_hex(digits, 32).then(|| Self(text.to_owned()))
    }

    /// The token itself, for its caller alone.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What stands for it everywhere else.
    #[must_use]
    pub fn digest(&self) -> String {
        short_digest("kubepermit.io/token", &self.0)
    }
}

impl fmt::Debug for JobToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobToken(digest {})", self.digest())
    }
}

/// Which job in the background, and whose: the digests of its token and of its caller. Another caller's token
/// leads to another key, and so to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleKey {
    token: String,
    owner: String,
}

impl HandleKey {
    /// The key of `token` in the hands of the caller with the digest `owner`.
    #[must_use]
    pub fn new(token: &JobToken, owner: &str) -> Self {
        Self { token: token.digest(), owner: owner.to_owned() }
    }

    /// The key that a Job's labels carry. `None` when they are not digests.
    #[must_use]
    pub fn recovered(token: &str, owner: &str) -> Option<Self> {
        (is_hex(token, 32) && is_hex(owner, 32))
            .then(|| Self { token: token.to_owned(), owner: owner.to_owned() })
    }

    /// Digest of the token: 32 hexadecimal digits.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Digest of the caller: 32 hexadecimal digits.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

/// One running process of the gateway, among several that may share an instance's name: each client of a
/// stdio server starts a process of its own. 16 hexadecimal digits, fit for a label and an object's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(String);

impl ProcessId {
    /// A fresh id.
    #[must_use]
    pub fn mint() -> Self {
        let id = Uuid::new_v4().simple().to_string();
        Self(id.chars().take(16).collect())
    }

    /// The id that a label or a Lease carries. `None` when the text is not one.
    #[must_use]
    pub fn recovered(text: &str) -> Option<Self> {
        is_hex(text, 16).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text is this many hexadecimal digits, in lower case.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The first 128 bits of a SHA-256 in hexadecimal: fit for a label's value, which holds at most 63 characters.
/// `purpose` keeps digests of the same text for different purposes apart.
#[must_use]
pub fn short_digest(purpose: &str, text: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(text.as_bytes());
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(32);
    digits
}

#[cfg(test)]
mod tests {
    use super::{DecisionId, HandleKey, JobToken, ProcessId};

    #[test]
    fn a_token_is_its_own_text_only() {
        let token = JobToken::mint();
        assert_eq!(JobToken::parse(token.reveal()), Some(token.clone()));
        assert_ne!(token, JobToken::mint());
        assert!(!format!("{token:?}").contains(token.reveal().get(4..).unwrap()));
        let good = "job-0123456789abcdef0123456789abcdef";
        assert!(JobToken::parse(good).is_some());
        // printf 'kubepermit.io/token\0job-0123456789abcdef0123456789abcdef' | sha256sum | cut -c1-32
        assert_eq!(JobToken::parse(good).unwrap().digest(), "be5380de36984c2dd274f6f8fb3b14b1");
        for bad in [
            "",
            "job-",
            "job-0123456789ABCDEF0123456789abcdef",
            "0123456789abcdef0123456789abcdef",
            "job-0123456789abcdef0123456789abcde",
            "job-0123456789abcdef0123456789abcdef0",
            "Job-0123456789abcdef0123456789abcdef",
        ] {
            assert!(JobToken::parse(bad).is_none(), "{bad}");
        }
        let [a, b] = ["a", "b"].map(|owner| HandleKey::new(&token, owner));
        assert_ne!(a, b);
    }

    #[test]
    fn ids_are_read_back_only_as_they_were_written() {
        let id = DecisionId::mint();
        assert_eq!(DecisionId::recovered(&id.to_string()), Some(id));
        assert_eq!(DecisionId::recovered(&id.hex()), None);
        assert_eq!(DecisionId::recovered(&id.to_string().to_uppercase()), None);
        let process = ProcessId::mint();
        assert_eq!(ProcessId::recovered(process.as_str()), Some(process));
        assert_eq!(ProcessId::recovered("../../etc/passwd"), None);
    }

    #[test]
    fn an_id_says_when_it_was_minted() {
        // RFC 9562, appendix A.6: 2022-02-22T14:22:22-05:00.
        let id = DecisionId::recovered("017f22e2-79b0-7cc3-98c4-dc0c0c07398f").unwrap();
        assert_eq!(id.minted_at(), 1_645_557_742);
    }
}
