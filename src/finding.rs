//! What an examination found: one line of `kubepermit doctor`.

use std::borrow::Cow;

/// How good or bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It could not be looked at, or does not matter here; the finding says why.
    Skipped,
    /// It works, and had better be otherwise.
    Warning,
    /// Something that is configured will not work.
    Failed,
}

/// One thing that was looked at. Holds no secret: it is made for a terminal and for a bug report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check's stable name, `area.thing`.
    pub check: &'static str,
    /// What of several things of that kind: a namespace, a right, a file. Empty when there is only one.
    pub about: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was seen.
    pub found: String,
    /// What to do; empty when nothing has to be done.
    pub remedy: Cow<'static, str>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, found.into(), "".into())
    }

    /// Not looked at, and why.
    pub fn skipped(check: &'static str, why: impl Into<String>) -> Self {
        Self::new(check, Verdict::Skipped, why.into(), "".into())
    }

    /// Works, and had better be otherwise.
    pub fn warning(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(check, Verdict::Warning, found.into(), remedy.into())
    }

    /// Does not work.
    pub fn failed(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(check, Verdict::Failed, found.into(), remedy.into())
    }

    /// The same, of one of several things.
    #[must_use]
    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    fn new(check: &'static str, verdict: Verdict, found: String, remedy: Cow<'static, str>) -> Self {
        Self { check, about: String::new(), verdict, found, remedy }
    }
}

impl Verdict {
    /// The word in the JSON document.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}
