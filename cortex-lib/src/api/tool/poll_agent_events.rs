//! `poll_agent_events`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Access, Command, Effect, Granted, Tool};
use std::time::Duration;

use crate::error::{Code, Result};
use crate::ids::AgentId;
use crate::limits::POLL_WAIT_MAX;
use crate::store::{AgentEventFilter, Event, ReadTx};

/// Read the agent events (created, updated, state changed, removed, the end of each turn with its result, and each message that was refused) after a cursor. Pass the `next_after` of the previous call as after; leave it out to read from the oldest event kept. With `wait_ms` the call waits for an event and returns as soon as one comes: cheaper than asking again and again.
/// Cost: reads only. Next: `get_agent_status` for the whole agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollAgentEvents {
    /// The `next_after` of the previous call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// At most this many events.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: u16,
    /// Only the events of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Milliseconds to wait for an event when there is none.
    #[serde(default)]
    #[schemars(range(max = 30000))]
    pub wait_ms: u32,
}

/// A page of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentEvents {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Events that were lost because the cursor was too old.
    pub dropped: u64,
    /// Pass it as after in the next call.
    pub next_after: u64,
}

fn hundred() -> u16 {
    100
}

impl Command for PollAgentEvents {
    type Output = AgentEvents;
    const NAME: &'static str = "poll_agent_events";
    const ACCESS: Access = Access::EVERYONE;
    const EFFECT: Effect = Effect::Reads;
    const ERRORS: &'static [Code] = &[Code::AgentNotFound];

    async fn call(self, cx: Granted<'_>) -> Result<Self::Output> {
        let core = cx.core();
        if let Some(id) = &self.agent_id {
            core.store().read(|tx| cx.agent(tx, id))?;
        }
        let filter = AgentEventFilter {
            project_id: cx.project_scope().cloned(),
            agent_id: self.agent_id.clone(),
        };
        let look = |tx: &ReadTx<'_>| tx.agent_events(&filter, self.after, usize::from(self.limit));
        let wait = Duration::from_millis(self.wait_ms.into()).min(POLL_WAIT_MAX);
        let found = core
            .wait_for(wait, |tx| {
                let page = look(tx)?;
                Ok((!page.events.is_empty() || page.dropped > 0).then_some(page))
            })
            .await?;
        let page = match found {
            Some(page) => page,
            None => core.store().read(look)?,
        };
        Ok(AgentEvents { events: page.events, dropped: page.dropped, next_after: page.next_after })
    }
}

impl Tool for PollAgentEvents {}
