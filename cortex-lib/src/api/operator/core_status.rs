//! `core_status`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted};
use crate::engine::CoreState;
use crate::error::{Code, Result};

/// Tell where the core stands: its state, its version and how much it has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreStatus {}

/// Where the core stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreStatusReply {
    /// Where it stands.
    pub state: CoreState,
    /// The version that runs.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Sessions that live.
    pub live_sessions: u32,
    /// Objectives that have not ended.
    pub open_objectives: usize,
    /// The number of the newest event.
    pub newest_event: u64,
    /// Where its MCP endpoint is, when it serves one.
    pub mcp_url: Option<String>,
}

impl Command for CoreStatus {
    type Output = CoreStatusReply;
    const NAME: &'static str = "core_status";
    const ACCESS: Access = Access::USER;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        core.store().read(|tx| {
            Ok(CoreStatusReply {
                state: core.state(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                live_sessions: tx.live_session_count()?,
                open_objectives: tx.open_objectives()?.len(),
                newest_event: tx.newest_seq()?,
                mcp_url: core.endpoint().map(str::to_owned),
            })
        })
    }
}
