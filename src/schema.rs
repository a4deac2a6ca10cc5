//! Untrusted JSON to [`ToolCall`]: the tool catalogue, its compiled validators, and the only door to a call.

mod arguments;
mod call;
mod catalogue;
mod validation;

pub use call::{
    Arguments, CancelJob, CloneRequest, DescribeResource, FetchJob, InputFile, ListEvents, ListPods, Origin,
    PodLogs, RequestedLimits, RunJob, SubmitJob, ToolCall,
};
pub use catalogue::{Catalogue, CatalogueError, ToolDefinition};
