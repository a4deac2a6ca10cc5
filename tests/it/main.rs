//! The integration tests: one binary, so that it links once.

mod cli;
mod fail_closed;
mod jobs;
mod sandbox;
mod session;
mod stdio;
