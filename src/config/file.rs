//! The optional YAML file: one key a setting.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::config::Setting;
use crate::strict;

/// The largest configuration file that is read.
const MOST_BYTES: u64 = 1024 * 1024;

/// Reads the file's settings, each as text.
///
/// # Errors
/// Sentences, each naming the file and the key.
pub(super) fn read(path: &Path) -> Result<BTreeMap<Setting, String>, Vec<String>> {
    let name = path.display();
    let fault = |fault: &dyn Display| format!("--config {name}: {fault}");
    let mut text = String::new();
    // Bounded by what is read, not by what the file says of its size: a device says nothing.
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES.saturating_add(1)).read_to_string(&mut text))
        .map_err(|error| vec![fault(&error)])?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(vec![fault(&format!("larger than {MOST_BYTES} bytes"))]);
    }
    let mut settings =
        parse(&text).map_err(|faults| faults.iter().map(|line| fault(line)).collect::<Vec<_>>())?;
    // A path in the file is meant from the file, and never from wherever the program was started: an agent's
    // repository may be there.
    let place = std::path::absolute(path).map_err(|error| vec![fault(&error)])?;
    for (setting, value) in &mut settings {
        if setting.is_path(value) && Path::new(value.as_str()).is_relative() && !value.is_empty() {
            *value = place.with_file_name(value.as_str()).display().to_string();
        }
    }
    Ok(settings)
}

fn parse(text: &str) -> Result<BTreeMap<Setting, String>, Vec<String>> {
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    let Value::Object(entries) = strict::yaml::<Value>(text).map_err(|error| vec![error.to_string()])? else {
        return Err(vec!["not a map of settings".to_owned()]);
    };
    let mut settings = BTreeMap::new();
    let mut faults = Vec::new();
    for (key, value) in entries {
        let Some(setting) = Setting::ALL.into_iter().find(|setting| setting.flag().replace('-', "_") == key)
        else {
            faults.push(format!("there is no setting `{key}`"));
            continue;
        };
        let text = match (setting, &value) {
            // What the variable has as JSON.
            (Setting::JobExtraEnv, Value::Object(_)) => Some(value.to_string()),
            _ => scalar(&value),
        };
        match text {
            Some(text) => {
                settings.insert(setting, text);
            }
            None => faults.push(format!("`{key}` has to be a text, a number or a list of texts")),
        }
    }
    if faults.is_empty() { Ok(settings) } else { Err(faults) }
}

/// A scalar as it would be typed; a list becomes the comma-separated form that variables use.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            items.iter().map(Value::as_str).collect::<Option<Vec<_>>>().map(|items| items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_their_flags_names() {
        let settings =
            parse("namespace: jobs\nmax_timeout_s: 30\nallowed_images: [busybox:1.36, 'a/b:1']\n").unwrap();
        assert_eq!(settings[&Setting::Namespace], "jobs");
        assert_eq!(settings[&Setting::MaxTimeoutS], "30");
        assert_eq!(settings[&Setting::AllowedImages], "busybox:1.36,a/b:1");
    }

    #[test]
    fn every_fault_is_reported() {
        let faults = parse("nmaespace: jobs\npolicies: {a: b}\n").unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("nmaespace"));
        assert!(parse("namespace: a\nnamespace: b\n").is_err(), "a repeated key");
        assert!(parse("- a\n").is_err());
    }
}
