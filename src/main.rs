//! The thin binary: parse, run, and map one error to one exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use kubepermit::cli::{self, Cli};

fn main() -> ExitCode {
    // First of all: this process may be one of the embedded cluster's launchers, which must not have a second
    // thread before its namespaces are made.
    if let Some(code) = kubepermit::embedded::sandbox::launcher::run_if_asked() {
        return code;
    }
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("the async runtime cannot start")),
    };
    let end = runtime.block_on(cli.run());
    // A read of standard input may still be waiting in a thread that nothing can wake.
    runtime.shutdown_background();
    end.unwrap_or_else(|error| fail(&error))
}

/// Says what went wrong, with its causes, once.
fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "kubepermit: {error:#}");
    ExitCode::from(cli::exit::REFUSED)
}
