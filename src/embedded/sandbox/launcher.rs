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

use std::ffi::OsString;
use std::process::ExitCode;

use super::wire::{HIDDEN_WORD, ROLE_CONTAINER, ROLE_SUPERVISE};
use super::{container, supervisor};

/// Does a launcher's work if the arguments ask for it; `None` if they don't.
///
/// Call it before anything else in `main`: namespaces can only be made by a process with a single thread.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != HIDDEN_WORD {
        return None;
    }
    let rest: Vec<OsString> = arguments.collect();
    let rest: Vec<&str> = rest.iter().filter_map(|argument| argument.to_str()).collect();
    Some(match rest.as_slice() {
        [ROLE_SUPERVISE, socket] => supervisor::run(socket),
        [ROLE_CONTAINER, order, status] => container::run(order, status),
        _ => ExitCode::from(2),
    })
}
