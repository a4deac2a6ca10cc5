//! What the main container's process is given: its argv, its environment, its wall clock.

#[cfg(test)]
pub(in crate::plan) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::budgets::Budgets;
use crate::plan::{MAX_REASONS, quote};
use crate::refusal::Reason;

/// Linux's `MAX_ARG_STRLEN` (32 pages of 4 KiB) counts the terminating NUL; a longer string fails at exec.
const MAX_STRING_BYTES: usize = 128 * 1024 - 1;
/// The API server's bound for a pod's `activeDeadlineSeconds`.
const MAX_DEADLINE_S: u64 = i32::MAX as u64;

/// Checks the argv.
///
/// # Errors
/// The reasons, at most [`MAX_REASONS`], with code `command.invalid`.
pub(in crate::plan) fn command(command: &[String]) -> Result<(), Vec<Reason>> {
    let invalid = |what: String, field: String| {
        Reason::new(
            "command.invalid",
            what,
            field,
            "write the program and its arguments, for example [\"sh\", \"-c\", \"ls\"]",
        )
    };
    match command.first() {
        None => {
            return Err(vec![invalid("the command is empty".to_owned(), "/command".to_owned())]);
        }
        Some(program) if program.is_empty() => {
            return Err(vec![invalid(
                "the program of the command is empty".to_owned(),
                "/command/0".to_owned(),
            )]);
        }
        Some(_) => {}
    }
    let reasons: Vec<Reason> = command
        .iter()
        .enumerate()
        .filter_map(|(index, argument)| {
            let fault = string(argument, argument.len())?;
            Some(invalid(format!("argument {index} of the command {fault}"), format!("/command/{index}")))
        })
        .take(MAX_REASONS)
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// Checks the names and values of the environment.
///
/// # Errors
/// The reasons, at most [`MAX_REASONS`]: `env.name`, `env.value`.
pub(in crate::plan) fn env(env: &BTreeMap<String, String>) -> Result<(), Vec<Reason>> {
    let reasons: Vec<Reason> = env
        .iter()
        .filter_map(|(name, value)| name_fault(name).or_else(|| value_fault(name, value)))
        .take(MAX_REASONS)
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

/// The command's wall clock: absent and 0 mean the default. The ceiling is the policy's.
///
/// # Errors
/// A reason with code `timeout.invalid` when no pod can be given that deadline.
pub(in crate::plan) fn timeout(requested: Option<u64>, default_s: u64) -> Result<Duration, Reason> {
    let seconds = match requested {
        None | Some(0) => default_s,
        Some(seconds) => seconds,
    };
    let timeout = Duration::from_secs(seconds);
    if Budgets::JOB.deadline(timeout).as_secs() > MAX_DEADLINE_S {
        return Err(Reason::new(
            "timeout.invalid",
            format!("a timeout of {seconds} s is more than Kubernetes can hold"),
            "/timeout_s",
            "write fewer seconds, or leave it out for the default",
        ));
    }
    Ok(timeout)
}

/// Keeps the kubelet from expanding `$(NAME)` and `$$` in a string, so that the process is given exactly
/// what the caller wrote and the policy judged.
///
/// The kubelet reads `$$` as one dollar sign and `$(NAME)` as a reference to a variable of the container
/// (Kubernetes API reference, `Container.command` and `EnvVar.value`); any other dollar sign stands for itself.
pub(in crate::plan) fn literal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        escaped.push(c);
        if c == '$' && matches!(rest.peek(), Some('$' | '(')) {
            escaped.push('$');
        }
    }
    escaped
}

fn name_fault(name: &str) -> Option<Reason> {
    let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let valid =
        name.bytes().next().is_some_and(first) && name.bytes().all(|b| first(b) || b.is_ascii_digit());
    let what = if !valid {
        "is not letters, digits and `_`, not starting with a digit"
    } else if name.starts_with("KUBERNETES_") {
        "starts with `KUBERNETES_`, which is Kubernetes' own"
    } else {
        return None;
    };
    Some(Reason::new(
        "env.name",
        format!("environment variable name {} {what}", quote(name)),
        env_field(name),
        "write a name such as `MY_VARIABLE`",
    ))
}

fn value_fault(name: &str, value: &str) -> Option<Reason> {
    // One string `NAME=value` is what exec is given.
    let fault = string(value, name.len().saturating_add(1).saturating_add(value.len()))?;
    Some(Reason::new(
        "env.value",
        format!("the value of environment variable {} {fault}", quote(name)),
        env_field(name),
        "put large or binary content into a file",
    ))
}

/// A JSON pointer (RFC 6901) to the variable; a name that is no name may be of any length.
fn env_field(name: &str) -> String {
    let short: String = name.chars().take(128).collect();
    format!("/env/{}", short.replace('~', "~0").replace('/', "~1"))
}

fn string(text: &str, bytes: usize) -> Option<&'static str> {
    if text.contains('\0') {
        Some("has a NUL character")
    } else if bytes > MAX_STRING_BYTES {
        Some("is longer than 131071 bytes, the most that Linux takes")
    } else {
        None
    }
}
