//! The same CLI through Cortex: by the session of its driver alone, and by a whole core.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, SendMessage, StartAgent};
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::domain::event::EventKind;
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId, TurnId};
use cortex_lib::port::{
    HealthReport, Opened, Runtime, RuntimeInfo, Session, SessionEvent, SessionSpec, Steered,
    ToolAnswer, Turn, TurnOutcome,
};
use cortex_lib::settings::Settings;
use cortex_lib::store::Feed;
use tokio::sync::mpsc;

use crate::bare::{OfCore, Seat, Took};
use crate::place::Place;

/// A session of the driver.
#[derive(Debug)]
pub(crate) struct ByDriver {
    opened: Opened,
    turns: u32,
}

impl ByDriver {
    pub(crate) async fn open(place: &Place, driver: &dyn Runtime) -> Result<Self> {
        Ok(Self { opened: place.open(driver).await?, turns: 0 })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.opened.facts.pid
    }

    pub(crate) async fn close(self) {
        self.opened.session.close(Duration::from_secs(5)).await;
    }
}

#[async_trait]
impl Seat for ByDriver {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        let began = Instant::now();
        self.turns += 1;
        let id = TurnId::new(format!("turn-{}", self.turns));
        let turn = Turn { id, attempt_id: None, instruction: text.to_owned() };
        self.opened.session.send(turn).await?;
        loop {
            match self.opened.events.recv().await.context("the session has ended")? {
                SessionEvent::ToolRequest(request) => {
                    self.opened.session.answer(&request.request_id, ToolAnswer::Allow).await?;
                }
                SessionEvent::TurnEnded(end) => {
                    let TurnOutcome::Succeeded { .. } = end.outcome else { bail!("{end:?}") };
                    return Ok(Took::whole(began.elapsed()));
                }
                _ => {}
            }
        }
    }
}

/// A core with agents.
#[derive(Debug)]
pub(crate) struct Core {
    cortex: Cortex,
    project: ProjectId,
    runtime_id: RuntimeId,
    stamps: Stamps,
}

/// An agent of a core.
#[derive(Debug)]
pub(crate) struct ByCore {
    cortex: Cortex,
    agent: AgentId,
    events: Feed,
    stamps: Stamps,
}

impl Core {
    /// Opens a core that keeps its data here.
    pub(crate) async fn open(place: &Place, data: &Path) -> Result<Self> {
        Self::of(place.driver(), place.home.project(), data).await
    }

    /// The same on this runtime, with a project of this folder.
    pub(crate) async fn of(inner: Arc<dyn Runtime>, root: PathBuf, data: &Path) -> Result<Self> {
        let (stamps, runtime_id) = (Stamps::default(), inner.info().id.clone());
        let runtime = Stopwatch { inner, stamps: stamps.clone() };
        let mut settings = Settings::default();
        settings.approvals.rules.push(Rule {
            id: "everything".to_owned(),
            tool: "*".to_owned(),
            input: None,
            agent: None,
            decide: Decide::Allow,
        });
        let builder = Cortex::builder(data).settings(settings).runtime(Arc::new(runtime));
        let cortex = builder.open().await?;
        let add = AddProject { name: "turns".to_owned(), root, verification: None };
        let project = cortex.as_user().call(add).await?.project.project_id;
        Ok(Self { cortex, project, runtime_id, stamps })
    }

    /// Another agent that is up.
    pub(crate) async fn agent(&self, name: &str) -> Result<ByCore> {
        let user = self.cortex.as_user();
        let create = CreateAgent::new(&self.project, name, self.runtime_id.as_str());
        let agent = user.call(create).await?.agent.agent_id;
        user.call(StartAgent { agent_id: agent.clone() }).await?;
        let status = user.call(cortex_lib::api::operator::CoreStatus {}).await?;
        let events = self.cortex.events(Some(status.newest_event));
        Ok(ByCore { cortex: self.cortex.clone(), agent, events, stamps: self.stamps.clone() })
    }

    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.cortex.shutdown().await?)
    }
}

#[async_trait]
impl Seat for ByCore {
    async fn turn(&mut self, text: &str) -> Result<Took> {
        let began = Instant::now();
        let message = SendMessage { agent_id: self.agent.clone(), message: text.to_owned() };
        let user = self.cortex.as_user();
        // The end is heard whether the call has returned or not.
        let sent = async { user.call(message).await.map(drop).map_err(anyhow::Error::from) };
        let events = &mut self.events;
        let ended = async {
            loop {
                let event = events.next().await?.context("the core has stopped")?;
                match event.kind {
                    EventKind::SessionTurnCompleted
                        if event.agent_id.as_ref() == Some(&self.agent) =>
                    {
                        return anyhow::Ok(began.elapsed());
                    }
                    EventKind::SessionTurnFailed => bail!("{}", event.data),
                    _ => {}
                }
            }
        };
        let ((), whole) = tokio::try_join!(sent, ended)?;
        let core = self.stamps.take(began, began + whole);
        Ok(Took { whole, result: whole, core })
    }
}

/// When the driver got a turn, when it said that it was over, and how long requests waited.
#[derive(Clone, Debug, Default)]
struct Stamps(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    sent: Option<Instant>,
    ended: Option<Instant>,
    asked: Option<Instant>,
    answering: Duration,
}

impl Stamps {
    fn note(&self, what: impl FnOnce(&mut Times, Instant)) {
        // Never held over an await.
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
    }

    fn take(&self, began: Instant, heard: Instant) -> Option<OfCore> {
        let times = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Some(OfCore {
            before: times.sent?.saturating_duration_since(began),
            after: heard.saturating_duration_since(times.ended?),
            answering: times.answering,
        })
    }
}

/// A driver with a clock between it and the core.
#[derive(Debug)]
struct Stopwatch {
    inner: Arc<dyn Runtime>,
    stamps: Stamps,
}

#[async_trait]
impl Runtime for Stopwatch {
    fn info(&self) -> &RuntimeInfo {
        self.inner.info()
    }

    async fn check(&self) -> HealthReport {
        self.inner.check().await
    }

    async fn open(&self, spec: SessionSpec) -> cortex_lib::Result<Opened> {
        let mut opened = self.inner.open(spec).await?;
        let (sender, events) = mpsc::channel(opened.events.max_capacity());
        let mut inner = std::mem::replace(&mut opened.events, events);
        let stamps = self.stamps.clone();
        tokio::spawn(async move {
            while let Some(event) = inner.recv().await {
                match &event {
                    SessionEvent::TurnEnded(_) => stamps.note(|times, now| times.ended = Some(now)),
                    SessionEvent::ToolRequest(_) => {
                        stamps.note(|times, now| times.asked = Some(now));
                    }
                    _ => {}
                }
                if sender.send(event).await.is_err() {
                    break;
                }
            }
        });
        let watched = Watched { inner: Arc::clone(&opened.session), stamps: self.stamps.clone() };
        opened.session = Arc::new(watched);
        Ok(opened)
    }
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn Session>,
    stamps: Stamps,
}

#[async_trait]
impl Session for Watched {
    async fn send(&self, turn: Turn) -> cortex_lib::Result<()> {
        self.stamps.note(|times, now| times.sent = Some(now));
        self.inner.send(turn).await
    }

    async fn steer(&self, turn: &TurnId, text: String) -> cortex_lib::Result<Steered> {
        self.inner.steer(turn, text).await
    }

    async fn interrupt(&self, turn: &TurnId) -> cortex_lib::Result<()> {
        self.inner.interrupt(turn).await
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> cortex_lib::Result<()> {
        self.stamps.note(|times, now| {
            let waited = times.asked.take().map(|asked| now.saturating_duration_since(asked));
            times.answering += waited.unwrap_or_default();
        });
        self.inner.answer(request_id, answer).await
    }

    async fn close(&self, grace: Duration) {
        self.inner.close(grace).await;
    }
}
