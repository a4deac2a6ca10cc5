//! Which files of a job come back: globs of paths below the work directory.

#[cfg(test)]
mod tests;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::plan::path::is_unprintable;
use crate::plan::{MAX_REASONS, quote};
use crate::refusal::Reason;

/// Which files come back.
#[derive(Debug, Clone)]
pub enum WantedArtifacts {
    /// Those that are new or changed.
    Changed,
    /// Those that match, changed or not.
    Matching(Patterns),
    /// None. The pod needs no helper container then.
    None,
}

/// Globs, at least one.
#[derive(Debug, Clone)]
pub struct Patterns {
    written: Vec<String>,
    set: GlobSet,
}

impl WantedArtifacts {
    /// Parses the globs of a call; `None` where it gives none. `*`, `?` and `[…]` stay within a component, `**` does not, `{a,b}` is either.
    ///
    /// # Errors
    /// The reasons, at most ten, with code `artifacts.pattern`.
    pub fn parse(written: Option<&[String]>) -> Result<Self, Vec<Reason>> {
        let Some(written) = written else {
            return Ok(Self::Changed);
        };
        let mut set = GlobSetBuilder::new();
        let mut reasons = Vec::new();
        for (index, pattern) in written.iter().enumerate() {
            match glob(pattern) {
                Ok(glob) => {
                    set.add(glob);
                }
                Err(what) => reasons.push(reason(format!("/artifacts/{index}"), pattern, &what)),
            }
            if reasons.len() >= MAX_REASONS {
                break;
            }
        }
        if !reasons.is_empty() {
            return Err(reasons);
        }
        if written.is_empty() {
            return Ok(Self::None);
        }
        let set = set.build().map_err(|error| {
            vec![reason("/artifacts".to_owned(), "artifacts", &format!("is too much: {}", error.kind()))]
        })?;
        Ok(Self::Matching(Patterns { written: written.to_vec(), set }))
    }

    /// Whether nothing is to be collected.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The name in the policy's input.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Matching(_) => "matching",
            Self::None => "none",
        }
    }

    /// What a call would have to give for this.
    #[must_use]
    pub fn written(&self) -> Option<Vec<String>> {
        match self {
            Self::Changed => None,
            Self::Matching(patterns) => Some(patterns.written.clone()),
            Self::None => Some(Vec::new()),
        }
    }

    /// The globs as written; none unless files are chosen by them.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        match self {
            Self::Matching(patterns) => &patterns.written,
            Self::Changed | Self::None => &[],
        }
    }
}

impl Patterns {
    /// Whether the file at `path`, relative to the work directory, is asked for: by a glob for it, or for a directory
    /// that it is in.
    #[must_use]
    pub fn ask_for(&self, path: &str) -> bool {
        let directories = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        std::iter::once(path).chain(directories).any(|path| self.set.is_match(path))
    }
}

fn glob(pattern: &str) -> Result<globset::Glob, String> {
    let inside = pattern.strip_prefix("./").unwrap_or(pattern);
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    if inside.starts_with('/') || pattern.starts_with('/') {
        return Err("is absolute".to_owned());
    }
    if inside.is_empty() || inside == "." {
        return Err("names no file".to_owned());
    }
    if inside.split('/').any(str::is_empty) {
        return Err("has an empty component".to_owned());
    }
    if inside.chars().any(is_unprintable) {
        return Err("has a control character".to_owned());
    }
    // Also within braces: `{a,..}/b`.
    if inside.split(['/', '{', ',', '}']).any(|part| part == "..") {
        return Err("has a `..` component".to_owned());
    }
    let glob = GlobBuilder::new(inside).literal_separator(true).backslash_escape(true).build();
    glob.map_err(|error| format!("is not a glob: {}", error.kind()))
}

fn reason(field: String, pattern: &str, what: &str) -> Reason {
    Reason::new(
        "artifacts.pattern",
        format!("artifact pattern {} {what}", quote(pattern)),
        field,
        "write a path or glob relative to the work directory, for example `out/*.json` or `**/*.log`",
    )
}
