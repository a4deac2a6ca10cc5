//! kubectl's output as a result: rendered, cleaned, and cut by the end that matters less.

use jiff::Timestamp;

use crate::executor::kubectl::ReadText;
use crate::executor::kubectl::capture::Captured;
use crate::executor::kubectl::events::EventList;
use crate::executor::kubectl::failure::{ReadFailure, ReadReason};
use crate::executor::kubectl::pods::PodList;
use crate::output::{self, Cleaned, Cut};
use crate::plan::Presentation;

/// The heading of the part of `describe` that must survive.
const EVENTS: &str = "\nEvents:";

/// Makes the result of a read that kubectl ended with success.
///
/// # Errors
/// A list that is too large to be held.
pub(super) fn present(
    presentation: Presentation,
    all_namespaces: bool,
    stdout: Captured,
    stderr: &[u8],
    limit: usize,
) -> Result<ReadText, ReadFailure> {
    let rendered = match presentation {
        Presentation::Pods => pods(&stdout.bytes, all_namespaces),
        Presentation::Events => events(&stdout.bytes, all_namespaces),
        Presentation::Logs | Presentation::Describe => None,
    };
    let (cleaned, before) = match rendered {
        Some(text) => (output::clean(&text), 0),
        None if stdout.omitted > 0 && is_list(presentation) && stdout.bytes.starts_with(b"{") => {
            return Err(ReadFailure::of(ReadReason::TooLarge));
        }
        None => (output::clean_bytes(&stdout.bytes), stdout.omitted),
    };
    Ok(match presentation {
        Presentation::Pods => {
            cut_end(cleaned, before, limit, "narrow the query with a namespace or a selector")
        }
        Presentation::Events => cut_end(
            cleaned,
            before,
            limit,
            "these are the oldest; narrow the query with a namespace, warnings_only, for_kind or for_name",
        ),
        Presentation::Logs => logs(cleaned, before, limit, stderr),
        Presentation::Describe => describe(cleaned, before, limit),
    })
}

fn is_list(presentation: Presentation) -> bool {
    match presentation {
        Presentation::Pods | Presentation::Events => true,
        Presentation::Logs | Presentation::Describe => false,
    }
}

fn pods(json: &[u8], namespaces: bool) -> Option<String> {
    let list: PodList = serde_json::from_slice(json).ok()?;
    list.is_list().then(|| list.render(namespaces, Timestamp::now()))
}

fn events(json: &[u8], namespaces: bool) -> Option<String> {
    let list: EventList = serde_json::from_slice(json).ok()?;
    list.is_list().then(|| list.render(namespaces, Timestamp::now()))
}

/// The start, and a last line that says what is missing.
fn cut_end(cleaned: Cleaned, before: u64, limit: usize, hint: &str) -> ReadText {
    let Cut { mut text, omitted } = output::keep_start(&cleaned.text, limit);
    let omitted = omitted + before;
    if omitted > 0 {
        text.push_str(&format!("\n{}", marker(omitted, hint)));
    }
    ReadText { output: text, omitted_characters: omitted, replaced_characters: cleaned.replaced }
}

/// The newest lines, and a first line that says what is missing.
fn logs(cleaned: Cleaned, before: u64, limit: usize, stderr: &[u8]) -> ReadText {
    let Cut { text, omitted } = output::keep_end(&cleaned.text, limit);
    let omitted = omitted + before;
    let mut output = String::new();
    // kubectl says on standard error which of several containers it took.
    let chosen = String::from_utf8_lossy(stderr);
    if let Some(chosen) = chosen.lines().find(|line| line.starts_with("Defaulted container ")) {
        let chosen: String = output::clean(chosen).text.chars().take(500).collect();
        output.push_str(&format!("[{chosen}]\n"));
    }
    if omitted > 0 {
        let hint = "these are the oldest; narrow the query with fewer tail_lines or with since_seconds";
        output.push_str(&format!("{}\n", marker(omitted, hint)));
    }
    if text.is_empty() && omitted == 0 {
        output.push_str("No output.\n");
    }
    output.push_str(&text);
    ReadText { output, omitted_characters: omitted, replaced_characters: cleaned.replaced }
}

/// The object's head and its events; what lies between goes first.
fn describe(cleaned: Cleaned, before: u64, limit: usize) -> ReadText {
    let (text, _) = output::redact(&cleaned.text);
    let replaced_characters = cleaned.replaced;
    if before == 0 && text.chars().nth(limit).is_none() {
        return ReadText { output: text, omitted_characters: 0, replaced_characters };
    }
    let (head, events) = match text.rfind(EVENTS).and_then(|at| text.split_at_checked(at)) {
        Some((head, events)) => (head, events.trim_start_matches('\n')),
        None => (text.as_str(), ""),
    };
    // Many events leave a quarter to the head; the newest events are the last.
    let events = output::keep_end(events, limit - limit / 4);
    let head = output::keep_start(head, limit.saturating_sub(events.text.chars().count()));
    let omitted = before + head.omitted + events.omitted;
    let hint = "ask for a smaller object, or for its events with list_events";
    let output = format!("{}\n{}\n{}", head.text, marker(omitted, hint), events.text);
    ReadText { output, omitted_characters: omitted, replaced_characters }
}

fn marker(omitted: u64, hint: &str) -> String {
    format!("… truncated ({omitted} more characters); {hint}")
}

#[cfg(test)]
mod tests;
