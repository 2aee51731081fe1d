//! What the examples share: a runtime in a few lines, and [`LineAgent`], a complete driver.

mod lines;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::domain::{capability::Capability, usage::Usage};
use cortex_lib::ids::{RuntimeId, TurnId};
use cortex_lib::port::{
    Health, HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, Session, SessionEvent,
    SessionFacts, SessionSpec, ToolAnswer, Turn, TurnEnd, TurnOutcome,
};
use cortex_lib::{Code, Error, Result};
use tokio::sync::mpsc;

pub use lines::LineAgent;

/// A runtime whose agents return their instruction in capital letters.
#[derive(Debug)]
pub struct Shout {
    info: RuntimeInfo,
}

impl Shout {
    /// The id of the runtime.
    pub const ID: &str = "shout";
}

impl Default for Shout {
    fn default() -> Self {
        Self {
            info: RuntimeInfo {
                id: RuntimeId::new(Self::ID),
                name: "Shout".to_owned(),
                capabilities: BTreeSet::from([Capability::StructuredSession]),
                process_strategy: ProcessStrategy::ProcessPerSession,
                default_model: None,
                models: None,
            },
        }
    }
}

#[async_trait]
impl Runtime for Shout {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        HealthReport {
            health: Health::Healthy,
            version: None,
            executable: None,
            logged_in: None,
            message: None,
            remediation: None,
        }
    }

    async fn open(&self, _: SessionSpec) -> Result<Opened> {
        let (sender, events) = mpsc::channel(8);
        let session = Arc::new(ShoutSession { events: sender });
        Ok(Opened { session, events, facts: SessionFacts::default(), terminal: None })
    }
}

#[derive(Debug)]
struct ShoutSession {
    events: mpsc::Sender<SessionEvent>,
}

#[async_trait]
impl Session for ShoutSession {
    async fn send(&self, turn: Turn) -> Result<()> {
        let outcome = TurnOutcome::Succeeded { text: turn.instruction.to_uppercase() };
        let end = TurnEnd { turn_id: turn.id, outcome, usage: Usage::default() };
        let sent = self.events.send(SessionEvent::TurnEnded(end)).await;
        sent.map_err(|_| Error::new(Code::RuntimeSessionEnded, "the session is over"))
    }

    async fn interrupt(&self, _: &TurnId) -> Result<()> {
        // A turn is over as soon as it was accepted.
        Ok(())
    }

    async fn answer(&self, _: &str, _: ToolAnswer) -> Result<()> {
        // It uses no tools, so nothing waits for an answer.
        Ok(())
    }

    async fn close(&self, _: Duration) {}
}
