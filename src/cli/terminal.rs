//! Standard output: for people on a terminal, for programs in a pipe, and for the protocol alone.

use std::io::{self, IsTerminal, Write};

/// Whether a person reads standard output.
pub(super) fn person_reads() -> bool {
    io::stdout().is_terminal()
}

/// Prints a text and a line break on standard output. A reader that left (`| head`) is not an error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.write_all(b"\n"))
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A progress line on standard error that the next one overwrites; nothing where nobody looks.
#[derive(Clone, Copy)]
pub(super) struct ProgressLine {
    shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    /// Shows `text` in place of what was shown.
    pub(super) fn show(&self, text: &str) {
        if self.shown {
            // Carriage return, then "erase in line" (ECMA-48 EL).
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.show("");
    }
}

/// Takes standard output for the protocol: what is written to descriptor 1 from now on (by a library, say)
/// goes to standard error, so that nothing but JSON-RPC can reach the client.
#[cfg(unix)]
pub(super) fn protocol_output() -> io::Result<tokio::fs::File> {
    use std::os::fd::AsFd;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    nix::unistd::dup2_stdout(io::stderr().as_fd())?;
    Ok(tokio::fs::File::from_std(std::fs::File::from(output)))
}

/// Elsewhere, standard output itself.
#[cfg(not(unix))]
pub(super) fn protocol_output() -> io::Result<tokio::io::Stdout> {
    Ok(tokio::io::stdout())
}
