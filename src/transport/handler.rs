//! The MCP server: rmcp's handler over the gateway.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::audit;
use crate::caller::Caller;
use crate::executor::Progress;
use crate::pipeline::{Gateway, OnProgress, Request};
use crate::refusal::Reason;
use crate::transport::message::RepeatedKey;
use crate::transport::{listing, wire};

const INSTRUCTIONS: &str = "kubepermit runs commands in throwaway Kubernetes pods and reads a cluster, under a policy. \
     To find out what is wrong in a cluster: list_events first, then describe_resource, then pod_logs (with previous \
     when it restarted). A refused call says which rule it broke and what to change; change that and call again. Refusals are not errors of the cluster, \
     and repeating the same call gives the same answer.";

/// The methods of MCP that this server knows: rmcp hands one whose params do not parse to
/// `on_custom_request`, like a method that does not exist.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/list", "tools/call"];

/// One session's server.
#[derive(Clone)]
pub(super) struct Server {
    gateway: Arc<Gateway>,
}

impl Server {
    pub(super) fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("kubepermit", env!("CARGO_PKG_VERSION")).with_title("kubepermit"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(Some(&context));
        Ok(ListToolsResult::with_all_items(listing(self.gateway.judge(), caller.roles())))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = caller(Some(&context));
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        if !self.gateway.judge().catalogue().has(&params.name) {
            let text = format!("Unknown tool: {}", wire::shown(&params.name));
            let reason = Reason::new("schema.unknown_tool", "there is no tool of this name", "", "");
            let content = audit::unparsed(arguments.to_string().as_bytes());
            self.gateway.record_stray(caller, &params.name, content, reason).await;
            return Err(ErrorData::invalid_params(text, None));
        }
        let progress = report(context.peer.clone(), context.meta.get_progress_token());
        let fault = context.extensions.get::<RepeatedKey>().map(|RepeatedKey(reason)| reason.clone());
        let request = Request { caller, tool: params.name.into_owned(), arguments, fault };
        let reply = self.gateway.call(request, progress, context.ct.clone()).await;
        wire::answer(&reply).map(Into::into)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if !METHODS.contains(&request.method.as_str()) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, wire::shown(&request.method), None));
        }
        let content =
            audit::unparsed(request.params.as_ref().map(Value::to_string).unwrap_or_default().as_bytes());
        let text = wire::bad_params(&request.method, request.params.as_ref());
        if request.method == "tools/call" {
            let reason = Reason::new("message.params", text.clone(), "", "");
            self.gateway.record_stray(caller(Some(&context)), "", content, reason).await;
        }
        Err(ErrorData::invalid_params(text, None))
    }
}

/// Over stdio the caller is whoever started this process; what the client says of itself is a label.
fn caller(context: Option<&RequestContext<RoleServer>>) -> Caller {
    let client = context.and_then(RequestContext::client_info);
    Caller::over_stdio(
        client.map(|client| format!("{} {}", wire::shown(&client.name), wire::shown(&client.version))),
    )
}

/// Forwards a job's progress to a client that asked for it. Nobody waits for the client: one that does not read
/// misses steps, and must not hold up its own job.
fn report(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> OnProgress {
    let Some(token) = token else { return Box::new(|_| {}) };
    let (sender, mut receiver) = mpsc::channel::<Progress>(16);
    tokio::spawn(async move {
        let mut step = 0.0;
        while let Some(progress) = receiver.recv().await {
            step += 1.0;
            let params = ProgressNotificationParam::new(token.clone(), step).with_message(progress.as_str());
            if peer.notify_progress(params).await.is_err() {
                return;
            }
        }
    });
    Box::new(move |progress| {
        let _ = sender.try_send(progress);
    })
}
