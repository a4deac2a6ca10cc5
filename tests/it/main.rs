//! The integration tests: one binary, so that it links once.

mod cli;
mod fail_closed;
mod sandbox;
mod session;
mod stdio;
