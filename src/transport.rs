//! MCP on the wire: stdio by rmcp, and the translation between its types and the pipeline's.

mod handler;
mod lines;
mod message;
mod stdio;
mod wire;

pub use stdio::{ServeError, serve};
use wire::Usable;

use crate::pipeline::Judge;

/// The tools as `tools/list` shows them to a caller with these roles.
#[must_use]
pub fn listing(judge: &Judge, roles: &[String]) -> Vec<rmcp::model::Tool> {
    let usable = Usable { images: judge.images(roles), namespaces: judge.readable_namespaces(roles) };
    judge.catalogue().definitions().map(|definition| wire::tool(definition, &usable)).collect()
}
