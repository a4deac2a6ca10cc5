//! MCP on the wire: stdio by rmcp, and the translation between its types and the pipeline's.

mod handler;
mod lines;
mod message;
mod stdio;
mod wire;

pub use stdio::{ServeError, serve};
pub use wire::Usable;

use crate::schema::Catalogue;

/// The tools as `tools/list` shows them to a caller who may use these things.
#[must_use]
pub fn listing(catalogue: &Catalogue, usable: &Usable) -> Vec<rmcp::model::Tool> {
    catalogue.definitions().map(|definition| wire::tool(definition, usable)).collect()
}
