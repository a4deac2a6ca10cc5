//! The program as a launcher: started again by the gateway, it runs one container and ends with it.
//!
//! ```text
//! gateway --spawn--> supervisor --spawn--> container --exec--> the command
//!         <--socket: order, reports, lifeline-->
//! ```
//!
//! Two processes, because a process cannot move itself into a new PID namespace, and because the supervisor must
//! stay outside of what it supervises. `fork` and `pre_exec` are `unsafe`, so each step is a start of the same
//! program under a hidden first argument.

use std::process::ExitCode;

/// Does a launcher's work if the arguments ask for it; `None` if they don't.
///
/// Call it before anything else in `main`: namespaces can only be made by a process with a single thread.
#[cfg(target_os = "linux")]
pub fn run_if_asked() -> Option<ExitCode> {
    use super::wire::{HIDDEN_WORD, ROLE_CONTAINER, ROLE_SUPERVISE};

    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != HIDDEN_WORD {
        return None;
    }
    let rest: Option<Vec<String>> = arguments.map(|argument| argument.into_string().ok()).collect();
    Some(match rest.unwrap_or_default().as_slice() {
        [role, socket] if role == ROLE_SUPERVISE => super::supervisor::run(socket),
        [role, order, status] if role == ROLE_CONTAINER => super::container::run(order, status),
        _ => ExitCode::from(2),
    })
}

/// Elsewhere there are no launchers.
#[cfg(not(target_os = "linux"))]
pub fn run_if_asked() -> Option<ExitCode> {
    None
}
