//! What agents print, as it comes. It is shown, not stored.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::ids::{AgentId, AttemptId, TaskId, TurnId};
use crate::limits::OUTPUT_LAG_MAX;
use crate::port::OutputKind;

/// Something that an agent printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Who.
    pub agent_id: AgentId,
    /// In which turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// For which task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// In which attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<AttemptId>,
    /// What sort of output.
    pub kind: OutputKind,
    /// The text.
    pub text: String,
}

/// What is watched of the output of all agents.
#[derive(Debug)]
pub struct OutputFeed(broadcast::Receiver<Output>);

impl OutputFeed {
    /// The next output; `None` when the core is gone. A watcher that lags behind loses the oldest.
    pub async fn next(&mut self) -> Option<Output> {
        loop {
            match self.0.recv().await {
                Ok(output) => return Some(output),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Where output comes from.
#[derive(Clone, Debug)]
pub(crate) struct OutputBus(broadcast::Sender<Output>);

impl OutputBus {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(OUTPUT_LAG_MAX).0)
    }

    pub(crate) fn subscribe(&self) -> OutputFeed {
        OutputFeed(self.0.subscribe())
    }

    /// Shows output to whoever watches.
    pub(crate) fn show(&self, output: Output) {
        // Nobody has to watch.
        drop(self.0.send(output));
    }
}
