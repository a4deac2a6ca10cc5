//! The thin binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: this process may be one of the embedded cluster's launchers, which must not have a second
    // thread before its namespaces are made.
    if let Some(code) = kubepermit::embedded::sandbox::launcher::run_if_asked() {
        return code;
    }
    ExitCode::SUCCESS
}
