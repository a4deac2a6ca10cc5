//! Logs: human-readable lines on standard error, never on standard output.

use std::io::{self, Stderr, Write};

use tracing_subscriber::EnvFilter;

/// Logs its messages with their arguments, so it is held down whatever is asked for.
const HELD: &str = "rmcp=error";

/// Libraries that are quiet unless the filter names them. A target counts as a prefix, so `kube` would name this
/// program too. kube's client logs transport faults that the call tells better.
const QUIET: [(&str, &str); 4] =
    [("kube_client", "off"), ("kube_runtime", "warn"), ("hyper", "warn"), ("tower", "warn")];

/// Starts logging. `filter` is in `tracing`'s syntax (`info`, `kubepermit=debug`).
///
/// # Errors
/// The filter's fault, for a reader.
pub fn start(filter: &str) -> Result<(), String> {
    let quiet = QUIET.into_iter().filter(|(target, _)| !filter.contains(target));
    let quiet: String = quiet.map(|(target, level)| format!(",{target}={level}")).collect();
    let filter = EnvFilter::builder()
        .parse(format!("{filter}{quiet},{HELD}"))
        .map_err(|error| format!("KUBEPERMIT_LOG (--log): `{filter}` is not a log filter: {error}"))?;
    // A second start (in tests) keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Unfailing(std::io::stderr()))
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .try_init();
    Ok(())
}

/// Standard error whose reader may be gone: a log line is lost then, and nothing else.
struct Unfailing(Stderr);

impl Write for Unfailing {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
