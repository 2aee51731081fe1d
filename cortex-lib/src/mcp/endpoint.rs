//! The tools of one core as MCP shows them. Everything it says comes from the catalogue.

use std::borrow::Cow;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use hyper::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, ErrorData, Extensions, Implementation,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
    ServerResult, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::guard::VERSIONS;
use super::outline;
use super::progress::Progress;
use crate::api::{Caller, Catalogue, Cx, Effect, ToolDef, Wait};
use crate::engine::Core;
use crate::error::{Code, Error, Result};
use crate::ids::CorrelationId;
use crate::limits::MCP_FRESH;

/// The method that runs a tool.
pub(super) const CALL: &str = "tools/call";
/// The methods that exist. Parameters that do not fit one of them are the caller's mistake.
const METHODS: [&str; 4] = ["initialize", "ping", "tools/list", CALL];
/// Those of the versions in which each message stands for itself.
const STATELESS_METHODS: [&str; 3] = ["server/discover", "tools/list", CALL];

/// Answers the messages of callers that the guard let in.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    core: Core,
    catalogue: Catalogue,
    shown: Arc<[(&'static ToolDef, Tool)]>,
    stopping: CancellationToken,
}

impl Endpoint {
    pub(super) fn new(core: Core, catalogue: Catalogue, stopping: CancellationToken) -> Self {
        let shown = catalogue.tools.iter().map(|tool| (tool, show(tool))).collect();
        Self { core, catalogue, shown, stopping }
    }

    /// Runs a tool. `gone` ends when nobody waits for the answer any more.
    pub(super) async fn run(
        &self,
        caller: Caller,
        name: String,
        args: Value,
        gone: CancellationToken,
    ) -> Result<Box<RawValue>> {
        let cx = Cx::with_catalogue(caller, self.core.clone(), self.catalogue);
        let tool = self.catalogue.tools.iter().find(|tool| tool.name == name);
        let is_ended = |tool: &ToolDef| matches!(tool.effect, Effect::Reads | Effect::WritesLast);
        if tool.is_none_or(is_ended) {
            return tokio::select! { biased;
                () = gone.cancelled() => Err(self.closed("nobody waits for the answer")),
                () = self.stopping.cancelled() => Err(self.closed("the endpoint stops")),
                answer = caught(&self.core, &cx, &name, args) => answer,
            };
        }
        // A change that has begun is finished, whether its caller stays or not.
        let core = self.core.clone();
        let mut change = Box::pin(async move { caught(&core, &cx, &name, args).await });
        if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(change.as_mut().poll(cx))).await {
            return answer;
        }
        let (answer, answered) = oneshot::channel();
        self.core.supervisor().spawn(async move {
            // The caller may be gone.
            drop(answer.send(change.await));
        });
        answered.await.unwrap_or_else(|_| Err(self.closed("the call was given up")))
    }

    /// How long a tool may take, if that is worth telling.
    pub(super) fn wait(&self, name: &str) -> Option<Wait> {
        self.catalogue.tools.iter().find(|tool| tool.name == name)?.wait
    }

    fn closed(&self, why: &str) -> Error {
        signed(&self.core, Error::new(Code::CoreStopped, why))
    }

    async fn answer(
        &self,
        name: String,
        args: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let caller = caller(&context.extensions)?;
        let progress = Progress::wanted(self.wait(&name), context);
        let answer = self.run(caller, name, args, context.ct.clone());
        let answer = match progress {
            None => answer.await,
            Some(progress) => tokio::select! { biased;
                answer = answer => answer,
                never = progress.tell() => match never {},
            },
        };
        match answer {
            Ok(said) => serde_json::from_str(said.get())
                .map(CallToolResult::structured)
                .map_err(|error| ErrorData::internal_error(error.to_string(), None)),
            Err(error) if error.code() == Code::ToolNotFound => {
                Err(ErrorData::invalid_params(error.message().to_owned(), None))
            }
            Err(error) => Ok(CallToolResult::structured_error(failure(&error))),
        }
    }
}

impl ServerHandler for Endpoint {
    fn get_info(&self) -> ServerConfig {
        let [newest, ..] = &VERSIONS;
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("cortex", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(newest.clone())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(&context.extensions)?;
        let usable = self.shown.iter().filter(|(tool, _)| tool.access.admits(&caller));
        let list = ListToolsResult::with_all_items(usable.map(|(_, tool)| tool.clone()).collect());
        Ok(if is_stateless(&context) {
            list.with_ttl_ms(fresh_ms()).with_cache_scope(CacheScope::Private)
        } else {
            list
        })
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let found = DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info());
        Ok(found.with_ttl_ms(fresh_ms()).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = call.arguments.map_or(Value::Null, Value::Object);
        Ok(self.answer(call.name.into_owned(), args, &context).await?.into())
    }

    /// Also what does not fit the parameters of a known method comes here.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let stateless = is_stateless(&context);
        let methods = if stateless { &STATELESS_METHODS[..] } else { &METHODS };
        if !methods.contains(&method.as_str()) {
            let message = format!("there is no method {}", clip(&method));
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        }
        let params = params.unwrap_or_default();
        let name = params.get("name").and_then(Value::as_str);
        let args = params.get("arguments").filter(|args| !args.is_object() && !args.is_null());
        let (Some(name), Some(args), CALL) = (name, args, method.as_str()) else {
            let message = format!("the parameters do not fit {method}");
            return Err(ErrorData::invalid_params(message, None));
        };
        // Arguments of a wrong type are refused by the tool like all other wrong arguments.
        let result = self.answer(name.to_owned(), args.clone(), &context).await?;
        let mut result = ServerResult::CallToolResult(result);
        if !stateless {
            result.strip_result_type_for_legacy_peer();
        }
        let result = serde_json::to_value(result)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(CustomResult::new(result))
    }
}

/// How a tool says that it failed.
pub(super) fn failure(error: &Error) -> Value {
    json!({ "error": error.to_wire() })
}

/// Runs a tool whose panic must not leave its caller without an answer.
async fn caught(core: &Core, cx: &Cx, name: &str, args: Value) -> Result<Box<RawValue>> {
    let answer = AssertUnwindSafe(cx.call_raw(name, args)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        let error = signed(core, Error::new(Code::Defect, format!("{name} panicked")));
        let id = error.correlation_id().map(CorrelationId::as_str);
        tracing::error!(correlation_id = id, command = name, "a tool panicked");
        Err(error)
    })
}

fn signed(core: &Core, error: Error) -> Error {
    error.correlated(|| CorrelationId::new(core.env().mint()))
}

/// Who calls, as the guard found out. Nobody is anybody by default.
fn caller(extensions: &Extensions) -> Result<Caller, ErrorData> {
    extensions
        .get::<Parts>()
        .and_then(|head| head.extensions.get::<Caller>())
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("nobody found out who calls", None))
}

/// Whether a message is of a version that has no `initialize`: each message stands for itself.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// How long a client may keep what it was told about the endpoint.
fn fresh_ms() -> u64 {
    MCP_FRESH.as_secs() * 1_000
}

fn show(tool: &ToolDef) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(tool.effect == Effect::Reads)
        .destructive(false)
        .idempotent(matches!(tool.effect, Effect::Reads | Effect::WritesOnce));
    Tool::new(tool.name, tool.description().to_owned(), object(tool.input_schema()))
        .with_raw_output_schema(Arc::new(outline::of(tool.output_schema())))
        .with_annotations(hints)
}

fn object(schema: &Value) -> Arc<Map<String, Value>> {
    Arc::new(schema.as_object().cloned().unwrap_or_default())
}

/// What is shown of a name that a caller made up.
fn clip(name: &str) -> String {
    name.chars().take(64).collect()
}
