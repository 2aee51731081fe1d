//! `start_agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::reply::AgentReply;
use crate::api::{Access, Command, Effect, Granted, Tool, Wait};
use crate::domain::agent::AgentStatus;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, SessionId};
use crate::limits::{CLOSE_GRACE, START_TIMEOUT};
use crate::store::ReadTx;

/// Start a created or stopped agent and wait until it is READY. If the start fails, the call fails and the agent is FAILED with the reason in `last_failure`. An agent that is STARTING, READY or BUSY is returned as it is, at once.
/// Cost: at most 60 seconds, and a process that lives until `stop_agent`. Next: `create_objective` for work, `send_message` for a single turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartAgent {
    /// The agent.
    pub agent_id: AgentId,
}

/// How the start of this session came out. None: it goes on.
fn settled(tx: &ReadTx<'_>, id: &AgentId, session: &SessionId) -> Result<Option<Result<()>>> {
    let agent = tx.agent(id)?;
    let ours = agent.state.session() == Some(session);
    Ok(match agent.state.status() {
        AgentStatus::Starting if ours => None,
        AgentStatus::Ready | AgentStatus::Busy | AgentStatus::Paused if ours => Some(Ok(())),
        AgentStatus::Failed | AgentStatus::Crashed => Some(Err(match agent.last_failure {
            Some(failure) => Error::new(failure.code, failure.message)
                .remedy(failure.remediation)
                .with("agent_id", id.as_str())
                .correlated(|| failure.correlation_id),
            None => {
                Error::new(Code::RuntimeStartFailed, format!("agent {} did not start", agent.name))
            }
        })),
        _ => {
            let message = format!("agent {} was stopped while it started", agent.name);
            Some(Err(Error::new(Code::AgentStartCancelled, message).with("agent_id", id.as_str())))
        }
    })
}

impl Command for StartAgent {
    type Output = AgentReply;
    const NAME: &'static str = "start_agent";
    const ACCESS: Access = Access::USER_OR_ORCHESTRATOR;
    const EFFECT: Effect = Effect::WritesOnce;
    const ERRORS: &'static [Code] = &[
        Code::AgentNotFound,
        Code::AgentStateConflict,
        Code::AgentStartCancelled,
        Code::AgentOrchestratorNeedsStructured,
        Code::McpDisabled,
        Code::ProjectInvalidRoot,
        Code::ResourceLimitReached,
        Code::RuntimeNotFound,
        Code::RuntimeNotInstalled,
        Code::RuntimeNotLoggedIn,
        Code::RuntimeStartFailed,
        Code::RuntimeStartTimedOut,
        Code::RuntimeCapabilityMissing,
        Code::RuntimeProtocol,
        Code::RuntimeSessionEnded,
        Code::DataDirUnusable,
    ];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        core.store().read(|tx| cx.agent(tx, &self.agent_id))?;
        let (id, settings) = (self.agent_id.clone(), core.settings());
        let (was_live, started) = core
            .store()
            .write(move |tx| {
                let was_live = tx.agent(&id)?.state.status().is_live();
                Ok((was_live, tx.start_agent(&id, &settings)?))
            })
            .await?;
        if !was_live && let Some(session) = started.state.session() {
            let wait = START_TIMEOUT.saturating_add(CLOSE_GRACE);
            let settled = core.wait_for(wait, |tx| settled(tx, &self.agent_id, session)).await?;
            settled.unwrap_or_else(|| {
                Err(Error::new(Code::RuntimeStartTimedOut, "the agent did not get ready in time"))
            })?;
        }
        cx.agent_reply(&self.agent_id)
    }
}

impl Tool for StartAgent {
    const WAIT: Option<Wait> =
        Some(Wait { what: "The agent starts", at_most: START_TIMEOUT.saturating_add(CLOSE_GRACE) });
}
