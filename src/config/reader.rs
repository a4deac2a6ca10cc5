//! Turns typed text into values and collects every fault on the way.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::config::{ConfigErrors, Setting, Typed, file};
use crate::plan::{ImageReference, checks, quantity};

pub(super) struct Reader<'a> {
    typed: &'a Typed,
    file: BTreeMap<Setting, String>,
    faults: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(typed: &'a Typed) -> Self {
        let (file, faults) = match typed.file.as_deref().map(file::read) {
            None => (BTreeMap::new(), Vec::new()),
            Some(Ok(file)) => (file, Vec::new()),
            Some(Err(faults)) => (BTreeMap::new(), faults),
        };
        Self { typed, file, faults }
    }

    /// The configuration, or everything that is wrong with it.
    pub(super) fn finish<T>(self, config: T) -> Result<T, ConfigErrors> {
        if self.faults.is_empty() { Ok(config) } else { Err(ConfigErrors(self.faults)) }
    }

    /// Notes a fault of `setting`.
    pub(super) fn fault(&mut self, setting: Setting, fault: &str) {
        self.faults.push(format!("{} (--{}): {fault}", setting.variable(), setting.flag()));
    }

    /// The text of a setting; `None` when it is not set.
    pub(super) fn text(&self, setting: Setting) -> Option<String> {
        let value = self.typed.values.get(&setting).or_else(|| self.file.get(&setting))?;
        (setting.empty_is_a_value() || !value.trim().is_empty()).then(|| value.trim().to_owned())
    }

    /// A whole number of at least `least`.
    pub(super) fn whole(&mut self, setting: Setting, default: u64, least: u64) -> u64 {
        let Some(text) = self.text(setting) else { return default };
        // Kubernetes counts seconds in an int64 and the schema stops at 2^31 - 1; larger caps are slips.
        match text.parse::<u64>() {
            Ok(number) if number >= least && number <= 2_147_483_647 => number,
            Ok(_) | Err(_) => {
                self.fault(setting, &format!("`{text}` is not a whole number from {least} to 2147483647"));
                default
            }
        }
    }

    /// A DNS-1123 label: namespaces and label values that we set.
    pub(super) fn label(&mut self, setting: Setting, typed: Option<String>, default: &str) -> String {
        let Some(text) = typed else { return default.to_owned() };
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let fits = text.len() <= 63
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            && edge(text.chars().next())
            && edge(text.chars().next_back());
        if !fits {
            self.fault(
                setting,
                &format!("`{text}` is not a name as Kubernetes takes it: at most 63 of a-z, 0-9 and -, not - at an end"),
            );
        }
        text
    }

    /// The name of an object as Kubernetes takes it; `None` when it is not set.
    pub(super) fn object_name(&mut self, setting: Setting) -> Option<String> {
        let text = self.text(setting)?;
        if let Err(fault) = checks::object_name(&text) {
            self.fault(setting, &format!("`{text}` {fault}"));
        }
        Some(text)
    }

    /// A cpu quantity, in millicores.
    pub(super) fn cpu(&mut self, setting: Setting, default: &str) -> u64 {
        self.quantity(setting, default, |text| quantity::cpu_millis(text).map_err(|error| error.to_string()))
    }

    /// A memory quantity, in bytes.
    pub(super) fn memory(&mut self, setting: Setting, default: &str) -> u64 {
        self.quantity(setting, default, |text| {
            quantity::memory_bytes(text).map_err(|error| error.to_string())
        })
    }

    fn quantity(
        &mut self,
        setting: Setting,
        default: &str,
        parse: impl Fn(&str) -> Result<u64, String>,
    ) -> u64 {
        let text = self.text(setting).unwrap_or_else(|| default.to_owned());
        parse(&text).unwrap_or_else(|fault| {
            self.fault(setting, &fault);
            1
        })
    }

    /// One image reference.
    pub(super) fn image(&mut self, setting: Setting, default: &str) -> String {
        let text = self.text(setting).unwrap_or_else(|| default.to_owned());
        self.check_image(setting, &text);
        text
    }

    /// A comma-separated list; `None` when it is not set, empty when set but empty.
    pub(super) fn list(&self, setting: Setting) -> Option<Vec<String>> {
        let text = self.text(setting)?;
        Some(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }

    /// A comma-separated list of image references; `None` when it is not set, empty when set but empty.
    pub(super) fn images(&mut self, setting: Setting) -> Option<Vec<String>> {
        let images = self.list(setting)?;
        for image in &images {
            self.check_image(setting, image);
        }
        Some(images)
    }

    fn check_image(&mut self, setting: Setting, text: &str) {
        if let Err(reason) = ImageReference::from_str(text) {
            self.fault(setting, &format!("`{text}`: {}", reason.message));
        }
    }
}
