//! A runtime that follows scripts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::script::{Opening, Script};
use super::session::ScriptedSession;
use super::wait;
use super::world::{Asked, ScriptedWorld};
use crate::domain::capability::Capability;
use crate::error::Result;
use crate::ids::RuntimeId;
use crate::port::{
    Health, HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, Session, SessionFacts,
    SessionSpec, Turn,
};

pub(super) type Turns = Arc<dyn Fn(&Turn) -> Script + Send + Sync>;
type Openings = Arc<dyn Fn(&SessionSpec) -> Opening + Send + Sync>;

/// A runtime whose sessions follow scripts.
///
/// As it is made, it can do everything but terminals and input during a turn, every session opens at once, and
/// every turn is answered at once with `done`.
#[derive(Clone)]
#[must_use = "a runtime does nothing until a core has it"]
pub struct ScriptedRuntime {
    info: RuntimeInfo,
    health: HealthReport,
    world: ScriptedWorld,
    turns: Turns,
    openings: Openings,
    close_takes: Duration,
}

impl fmt::Debug for ScriptedRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedRuntime").field("info", &self.info).finish_non_exhaustive()
    }
}

impl ScriptedRuntime {
    /// A runtime called `id`, in a world of its own.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        let lacks = [Capability::TerminalSession, Capability::InteractiveInput];
        let capabilities = Capability::ALL.iter().copied().filter(|one| !lacks.contains(one));
        Self {
            info: RuntimeInfo {
                name: format!("Scripted {id}"),
                id: RuntimeId::new(id),
                capabilities: capabilities.collect(),
                process_strategy: ProcessStrategy::ProcessPerSession,
                default_model: None,
                models: None,
            },
            health: HealthReport {
                health: Health::Healthy,
                version: Some("1".to_owned()),
                executable: None,
                logged_in: Some(true),
                message: None,
                remediation: None,
            },
            world: ScriptedWorld::new(),
            turns: Arc::new(|_| Script::new().answer("done")),
            openings: Arc::new(|_| Opening::AT_ONCE),
            close_takes: Duration::ZERO,
        }
    }

    /// The world it is in. Default: one of its own.
    pub fn in_world(mut self, world: &ScriptedWorld) -> Self {
        self.world = world.clone();
        self
    }

    /// What each turn does. Default: it is answered at once with `done`.
    pub fn turn(mut self, script: impl Fn(&Turn) -> Script + Send + Sync + 'static) -> Self {
        self.turns = Arc::new(script);
        self
    }

    /// How each session opens. Default: at once.
    pub fn opening(
        mut self,
        opening: impl Fn(&SessionSpec) -> Opening + Send + Sync + 'static,
    ) -> Self {
        self.openings = Arc::new(opening);
        self
    }

    /// How long a session takes to close, if its grace allows. Default: no time.
    pub fn close_takes(mut self, time: Duration) -> Self {
        self.close_takes = time;
        self
    }

    /// What it can do. Default: all but `terminal_session` and `interactive_input`.
    pub fn capabilities(mut self, capabilities: impl IntoIterator<Item = Capability>) -> Self {
        self.info.capabilities = capabilities.into_iter().collect::<BTreeSet<_>>();
        self
    }

    /// What it can do besides.
    pub fn with(mut self, capability: Capability) -> Self {
        self.info.capabilities.insert(capability);
        self
    }

    /// What it cannot do, of what it can.
    pub fn without(mut self, capability: Capability) -> Self {
        self.info.capabilities.remove(&capability);
        self
    }

    /// The model it takes when an agent names none. Default: it does not say.
    pub fn default_model(mut self, model: impl Into<String>) -> Self {
        self.info.default_model = Some(model.into());
        self
    }

    /// What a check finds. Default: healthy.
    pub fn health(mut self, report: HealthReport) -> Self {
        self.health = report;
        self
    }

    /// The world it is in, with the record of all that was asked.
    pub fn world(&self) -> &ScriptedWorld {
        &self.world
    }
}

#[async_trait]
impl Runtime for ScriptedRuntime {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        self.health.clone()
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        self.world.note(Asked::Open(spec.clone()));
        spec.require_offered(&self.info)?;
        // From here on something lives; it ends when this is dropped.
        let process = self.world.start(spec.session_id.as_str());
        match (self.openings)(&spec) {
            Opening::After(time) => wait(time).await,
            Opening::Fail(time, error) => {
                wait(time).await;
                return Err(error);
            }
            Opening::Never => std::future::pending().await,
        }
        let resumed = spec.resume.is_some();
        let native = spec.resume.unwrap_or_else(|| format!("native-{}", spec.session_id));
        let takes_input = self.info.capabilities.contains(&Capability::InteractiveInput);
        let (session, events) = ScriptedSession::new(
            (spec.session_id, spec.cwd, takes_input),
            self.world.clone(),
            process,
            Arc::clone(&self.turns),
            self.close_takes,
        );
        self.world.remember(spec.agent_id, &session);
        let model = spec.model.or_else(|| self.info.default_model.clone());
        let facts = SessionFacts {
            native_session_id: self
                .info
                .capabilities
                .contains(&Capability::Resume)
                .then_some(native),
            pid: None,
            resumed,
            version: self.health.version.clone(),
            model,
        };
        Ok(Opened { session: session as Arc<dyn Session>, events, facts, terminal: None })
    }
}
