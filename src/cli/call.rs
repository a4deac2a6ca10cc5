//! `kubepermit call`: one call through the whole pipeline, without an agent.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::caller::Caller;
use crate::cli::terminal::{self, ProgressLine};
use crate::cli::{GatewayOptions, exit};
use crate::executor::{Found, Status};
use crate::output::clean;
use crate::pipeline::{Preview, Request};
use crate::plan::Plan;
use crate::refusal::Reason;
use crate::reply::Reply;
use crate::strict::{self, StrictError};
use crate::{config, shutdown, telemetry};

/// More than any call needs, and less than would hurt.
const MOST_ARGUMENT_BYTES: u64 = 64 * 1024 * 1024;

pub(super) async fn run(
    options: &GatewayOptions,
    tool: &str,
    arguments: &str,
    dry_run: bool,
) -> anyhow::Result<ExitCode> {
    telemetry::start(options.log()).map_err(anyhow::Error::msg)?;
    let (arguments, fault) = read(arguments)?;
    let config = config::Config::read(&options.typed(), &config::Environment::read())?;
    let request = Request { caller: Caller::at_command_line(), tool: tool.to_owned(), arguments, fault };
    if dry_run {
        return show_preview(&App::judge(&config)?.preview(&request).await).map(ExitCode::from);
    }
    let app = App::start(config).await?;
    for notice in app.notices() {
        tracing::info!("{notice}");
    }
    let line = ProgressLine::new();
    let cancelled = CancellationToken::new();
    let gateway = app.gateway();
    let call = gateway.call(request, Box::new(move |step| line.show(step.as_str())), cancelled.clone());
    tokio::pin!(call);
    let reply = loop {
        tokio::select! {
            reply = &mut call => break reply,
            () = shutdown::requested() => {
                if cancelled.is_cancelled() {
                    anyhow::bail!("ended at once; the job expires");
                }
                cancelled.cancel();
            }
        }
    };
    line.clear();
    let code = show_reply(&reply)?;
    app.stop().await;
    Ok(ExitCode::from(code))
}

/// The arguments, and the fault that makes them refused: a repeated key, which a JSON value cannot show.
fn read(arguments: &str) -> anyhow::Result<(Value, Option<Reason>)> {
    let text = match arguments.strip_prefix('@') {
        None => arguments.as_bytes().to_vec(),
        Some(place) => {
            let mut text = Vec::new();
            let read = if place == "-" {
                std::io::stdin().lock().take(MOST_ARGUMENT_BYTES).read_to_end(&mut text)
            } else {
                std::fs::File::open(place)
                    .and_then(|file| file.take(MOST_ARGUMENT_BYTES).read_to_end(&mut text))
            };
            read.with_context(|| format!("the arguments cannot be read from `{place}`"))?;
            text
        }
    };
    match strict::json(&text) {
        Ok(value) => Ok((value, None)),
        Err(StrictError::Duplicate(pointer)) => {
            let text = "the key is given twice, so its value is ambiguous";
            Ok((Value::Null, Some(Reason::new("schema.duplicate_key", text, pointer, "give it once"))))
        }
        Err(error) => {
            Err(error).context("the arguments have to be one JSON object, or @FILE for a file that holds it")
        }
    }
}

fn show_reply(reply: &Reply) -> anyhow::Result<u8> {
    let (code, document) = match reply {
        Reply::Job { outcome, .. } => {
            let code = match outcome.status {
                Status::Succeeded => exit::SUCCESS,
                Status::Failed | Status::Timeout | Status::Error => exit::FAILED,
            };
            (code, reply.result())
        }
        Reply::Read { outcome, .. } => match &outcome.end {
            Ok(_) => (exit::SUCCESS, reply.result()),
            Err(_) => (exit::FAILED, reply.error_document()),
        },
        Reply::Submitted { .. } => (exit::SUCCESS, reply.result()),
        Reply::Handle { found, .. } => match found {
            Found::Running => (exit::SUCCESS, reply.result()),
            Found::Ended(end) if end.is_success() => (exit::SUCCESS, reply.result()),
            Found::Ended(_) => (exit::FAILED, reply.result()),
            Found::Unknown | Found::Elsewhere | Found::Unreachable(_) | Found::NoRoom => {
                (exit::FAILED, reply.error_document())
            }
        },
        Reply::Refused { .. } => (exit::REFUSED, reply.error_document()),
        Reply::Unrecorded { .. } | Reply::Broken { .. } => (exit::FAILED, reply.error_document()),
    };
    if terminal::person_reads() {
        terminal::print(&text(reply))?;
    } else {
        terminal::print(&serde_json::to_string_pretty(&document.unwrap_or_default())?)?;
    }
    Ok(code)
}

/// A reply for a reader.
fn text(reply: &Reply) -> String {
    if let Some(text) = reply.text() {
        return text.trim_end_matches('\n').to_owned();
    }
    if let (Reply::Submitted { .. } | Reply::Handle { .. }, Some(result)) = (reply, reply.result()) {
        return printable(&serde_json::to_string_pretty(&result).unwrap_or_default());
    }
    let Reply::Job { id, image, outcome } = reply else {
        return printable(&reply.error_text().unwrap_or_default());
    };
    let mut lines = Vec::new();
    if outcome.truncated.output {
        lines.push(format!("[{} bytes of output before this were dropped]", outcome.omitted_bytes));
    }
    if !outcome.output.is_empty() {
        lines.push(printable(outcome.output.trim_end_matches('\n')));
        lines.push(String::new());
    }
    let reason = outcome.reason.map(|reason| format!(" ({})", reason.as_str())).unwrap_or_default();
    lines.push(format!(
        "{}{reason}: exit code {}, {:.1} s, {image}",
        outcome.status.as_str(),
        outcome.exit_code,
        outcome.duration.as_secs_f64(),
    ));
    if !outcome.message.is_empty() {
        lines.push(printable(&outcome.message));
    }
    for artifact in &outcome.artifacts {
        let name = printable_name(&artifact.name);
        match std::str::from_utf8(&artifact.content) {
            Ok(content) if content.len() <= 200 && !content.trim_end().contains('\n') => {
                lines.push(format!(
                    "  {name} ({} bytes): {}",
                    artifact.content.len(),
                    printable(content.trim_end())
                ));
            }
            _ => lines.push(format!("  {name} ({} bytes)", artifact.content.len())),
        }
    }
    if outcome.truncated.artifacts {
        lines.push("  [files are missing: they are over the cap, or could not be collected]".to_owned());
    }
    lines.push(format!("decision {id}"));
    lines.join("\n")
}

/// A stranger's text, fit for a terminal.
fn printable(text: &str) -> String {
    clean(text).text
}

/// The same on one line, for a name.
fn printable_name(name: &str) -> String {
    printable(name).replace('\n', "\\n").replace('\t', "\\t")
}

fn show_preview(preview: &Preview) -> anyhow::Result<u8> {
    let (manifest, argv) = match &preview.plan {
        Some(Plan::Job(job)) => (Some(job.manifest()), None),
        Some(Plan::Kubectl(read)) => (None, Some(read.argv())),
        Some(Plan::Handle(_)) | None => (None, None),
    };
    let code = if preview.refusal.is_some() { exit::REFUSED } else { exit::SUCCESS };
    let document = json!({
        "decision_id": preview.id,
        "allow": preview.refusal.is_none(),
        "refusal": preview.refusal,
        "warn": preview.decision.as_ref().map(|decision| &decision.warn),
        "policy_revision": preview.decision.as_ref().map(|decision| &decision.revision),
        "manifest": manifest,
        "argv": argv,
    });
    if !terminal::person_reads() {
        terminal::print(&serde_json::to_string_pretty(&document)?)?;
        return Ok(code);
    }
    match &preview.refusal {
        Some(refusal) => terminal::print(&printable(&refusal.to_string()))?,
        None => terminal::print("allowed; this is what would run:")?,
    }
    if let Some(manifest) = manifest {
        terminal::print(&serde_yaml::to_string(manifest)?)?;
    }
    if let Some(argv) = argv {
        terminal::print(&format!("kubectl {}", argv.join(" ")))?;
    }
    Ok(code)
}
