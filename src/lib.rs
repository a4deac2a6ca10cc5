//! kubepermit: a policy gateway between agents and Kubernetes.
//!
//! ```text
//! transport -> schema -> plan -> policy -> audit(intent) -> executor -> audit(outcome) -> reply
//!  Caller      ToolCall   Plan   Permit     durable first    Outcome     durable first    bounded, cleaned
//! ```
//!
//! Each stage accepts only what the stage before it made, so no step can be skipped. `ARCHITECTURE.md`
//! tells why; `pipeline.rs` is the product in one function.

// The vocabulary that every stage shares.
pub mod caller;
pub mod finding;
pub mod ids;
pub mod output;
pub mod refusal;
pub mod reply;
pub mod strict;

// The stages, in the order in which a call meets them.
pub mod audit;
pub mod executor;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod schema;
pub mod transport;

// The program around them.
pub mod app;
pub mod cli;
pub mod config;
pub mod embedded;
pub mod shutdown;
pub mod telemetry;
