//! Logs: human-readable lines on standard error, never on standard output.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging. `filter` is in `tracing`'s syntax (`info`, `kubepermit=debug`); rmcp is held at warnings,
/// since it logs every request with its arguments at debug level.
///
/// # Errors
/// The filter's fault, for a reader.
pub fn start(filter: &str) -> Result<(), String> {
    let base = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse(filter)
        .map_err(|error| format!("KUBEPERMIT_LOG (--log): `{filter}` is not a log filter: {error}"))?;
    let quiet = ["rmcp=warn", "kube=warn", "hyper=warn", "tower=warn"];
    let filter =
        quiet.into_iter().filter_map(|directive| directive.parse().ok()).fold(base, EnvFilter::add_directive);
    // A second start (in tests) keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
    Ok(())
}
