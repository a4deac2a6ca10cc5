//! The argv of a read: a verb, then `--flag=value` tokens, then `--`, then names.
//!
//! kubectl takes flags anywhere, abbreviates them, joins them (`-As`), reads `_` for `-`, and lets the last of
//! two win. None of that is of use here: each token is written by this program, in one spelling, and a
//! caller's text is only ever the value of a flag or a name behind `--`.

use crate::plan::kubectl::{KubectlSettings, Verb};

/// The flags that exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Context,
    Namespace,
    AllNamespaces,
    RequestTimeout,
    CacheDir,
    Output,
    Selector,
    FieldSelector,
    ShowEvents,
    Container,
    Tail,
    LimitBytes,
    Previous,
    Since,
}

impl Flag {
    fn as_str(self) -> &'static str {
        match self {
            Self::Context => "--context",
            Self::Namespace => "--namespace",
            Self::AllNamespaces => "--all-namespaces",
            Self::RequestTimeout => "--request-timeout",
            Self::CacheDir => "--cache-dir",
            Self::Output => "--output",
            Self::Selector => "--selector",
            Self::FieldSelector => "--field-selector",
            Self::ShowEvents => "--show-events",
            Self::Container => "--container",
            Self::Tail => "--tail",
            Self::LimitBytes => "--limit-bytes",
            Self::Previous => "--previous",
            Self::Since => "--since",
        }
    }
}

/// An argv in the making.
pub(super) struct Argv {
    flags: Vec<String>,
    tokens: Vec<String>,
}

impl Argv {
    /// The verb and what stands on every command. `namespace` is `None` for all of them.
    pub(super) fn new(verb: Verb, namespace: Option<&str>, settings: &KubectlSettings) -> Self {
        let argv = Self { flags: Vec::new(), tokens: vec![verb.as_str().to_owned()] };
        let argv = argv.with(Flag::Context, &settings.context);
        let argv = match namespace {
            Some(namespace) => argv.with(Flag::Namespace, namespace),
            None => argv.with(Flag::AllNamespaces, "true"),
        };
        argv.with(Flag::RequestTimeout, &format!("{}s", settings.request_timeout_s))
            .with(Flag::CacheDir, &settings.cache_dir)
    }

    /// One more flag.
    pub(super) fn with(mut self, flag: Flag, value: &str) -> Self {
        self.tokens.push(format!("{}={value}", flag.as_str()));
        self.flags.push(flag.as_str().to_owned());
        self
    }

    /// One more flag, if there is a value for it.
    pub(super) fn with_some(self, flag: Flag, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(flag, value),
            None => self,
        }
    }

    /// The flags without their values, and all tokens, with the names at their end.
    pub(super) fn ending(mut self, names: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
        self.tokens.push("--".to_owned());
        self.tokens.extend(names);
        (self.flags, self.tokens)
    }
}
