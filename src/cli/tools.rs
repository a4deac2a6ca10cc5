//! `kubepermit tools`: the tools as a client sees them.

use std::process::ExitCode;

use serde_json::Value;

use crate::app::App;
use crate::cli::{GatewayOptions, terminal};
use crate::{config, telemetry, transport};

pub(super) async fn run(options: &GatewayOptions) -> anyhow::Result<ExitCode> {
    telemetry::start(options.log()).map_err(anyhow::Error::msg)?;
    let config = config::Config::read(&options.typed(), &config::Environment::read())?;
    let tools = serde_json::to_value(transport::listing(&App::judge(&config)?, &[]))?;
    if terminal::person_reads() {
        for tool in tools.as_array().into_iter().flatten() {
            terminal::print(&text(tool))?;
        }
    } else {
        terminal::print(&serde_json::to_string_pretty(&serde_json::json!({ "tools": tools }))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool for a reader: its name, what it does, and its arguments.
fn text(tool: &Value) -> String {
    let at = |pointer: &str| tool.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut lines =
        vec![format!("{}: {}", at("/name"), at("/title")), String::new(), at("/description").to_owned()];
    lines.push(String::new());
    let required: Vec<&str> = tool
        .pointer("/inputSchema/required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = tool.pointer("/inputSchema/properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let need = if required.contains(&name.as_str()) { ", required" } else { "" };
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        lines.push(format!("  {name} ({kind}{need}): {about}"));
    }
    lines.join("\n")
}
