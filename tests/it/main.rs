//! The integration tests: one binary, so that it links once.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

mod cli;
mod clone;
mod cluster;
mod confined;
mod doctor;
mod embedded;
mod fail_closed;
mod handles;
mod jobs;
mod panic;
mod reads;
mod sandbox;
mod session;
mod stand_in;
mod stdio;
mod variables;
