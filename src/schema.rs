//! Untrusted JSON to [`ToolCall`]: the tool catalogue, its compiled validators, and the only door to a call.

mod call;

pub use call::{Arguments, InputFile, RequestedLimits, RunJob, ToolCall};
