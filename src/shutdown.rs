//! When to stop: SIGINT, SIGTERM, and SIGHUP (the terminal was closed).

use std::time::Duration;

/// How long calls may go on after a signal before they are cancelled. MCP clients over stdio send SIGTERM when they
/// close, and kill two seconds later (the official SDKs): by then the jobs must be gone.
pub const GRACE: Duration = Duration::from_secs(1);

/// Returns when the process is asked to stop.
pub async fn requested() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // A handler that cannot be installed leaves the signal's default: the process ends.
        let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
        else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
    #[cfg(not(unix))]
    {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
