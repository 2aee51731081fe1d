//! Where a case happens: the stage of the subject, and the sessions that are opened on it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cortex_lib::domain::capability::Capability;
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::Result as CortexResult;
use cortex_lib::ids::{AgentId, SessionId};
use cortex_lib::port::SessionSpec;
use tempfile::TempDir;
use tokio::time::{interval, timeout};

use super::case::Stop;
use super::live::Live;
use super::scenario::Scenario;
use super::subject::{Ability, Stage, Subject};
use super::world;

/// How often the world is looked at while a case waits for it.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a case has of its subject.
pub(super) struct Bench<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) capabilities: &'a BTreeSet<Capability>,
}

impl Bench<'_> {
    /// A place for the scenario.
    pub(super) async fn stage(&self, scenario: &Scenario) -> Result<Place, Stop> {
        if self.subject.is_live() && !scenario.is_for_any_model() {
            return Err(Stop::NotShown("a real model cannot be made to do it".to_owned()));
        }
        let stage = self.subject.stage(scenario).await.map_err(Stop::Failed)?;
        let scratch = tempfile::Builder::new().prefix("cortex-conformance-").tempdir()?;
        let patience = self.subject.patience();
        Ok(Place { stage, scratch, patience, sessions: AtomicUsize::new(0) })
    }

    /// Whether the driver claims it.
    pub(super) fn claims(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// Whether its agent can do it.
    pub(super) fn is_able(&self, ability: Ability) -> bool {
        self.subject.abilities().contains(&ability)
    }
}

/// A stage with what the suite puts beside it.
pub(super) struct Place {
    pub(super) stage: Box<dyn Stage>,
    pub(super) patience: Duration,
    scratch: TempDir,
    /// Names the folders of sessions. Atomic, because a place is shared by what runs at once.
    sessions: AtomicUsize,
}

impl Place {
    /// A path in the project.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.stage.project().join(name)
    }

    /// What a session is opened with, unless a case changes it.
    pub(super) fn spec(&self) -> Result<SessionSpec, Stop> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let scratch = self.scratch.path().join(number.to_string());
        fs_err::create_dir(&scratch)?;
        Ok(SessionSpec {
            agent_id: Some(AgentId::new(format!("agent-{number}"))),
            ..SessionSpec::new(session_id(), self.stage.project(), scratch)
        })
    }

    /// A session that opens.
    pub(super) async fn open(&self) -> Result<Live, Stop> {
        self.open_with(|_| {}).await
    }

    /// A session that opens with something else.
    pub(super) async fn open_with(
        &self,
        change: impl FnOnce(&mut SessionSpec),
    ) -> Result<Live, Stop> {
        let mut spec = self.spec()?;
        change(&mut spec);
        Ok(self.try_open(spec).await??)
    }

    /// A session that may be refused.
    pub(super) async fn try_open(&self, spec: SessionSpec) -> Result<CortexResult<Live>, Stop> {
        let id = spec.session_id.clone();
        let runtime = self.stage.runtime();
        let opened = timeout(self.patience, runtime.open(spec)).await;
        let opened =
            opened.map_err(|_| Stop::Failed("a session does not open in time".to_owned()))?;
        Ok(opened.map(|opened| Live::new(id, opened, self.patience)))
    }

    /// Fails if something of the session lives.
    pub(super) fn nothing_lives(&self, session: &SessionId) -> Result<(), Stop> {
        match self.stage.alive(session) {
            left if left.is_empty() => Ok(()),
            left => Err(Stop::Failed(format!("left behind: {}", left.join("; ")))),
        }
    }

    /// Waits until nothing of the session lives.
    pub(super) async fn until_gone(&self, session: &SessionId) -> Result<(), Stop> {
        let gone = || self.stage.alive(session).is_empty().then_some(());
        self.until("the end of all that a session started", gone).await
    }

    /// Waits until something is so.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        look: impl Fn() -> Option<T>,
    ) -> Result<T, Stop> {
        let waiting = async {
            let mut ticks = interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                if let Some(found) = look() {
                    return found;
                }
            }
        };
        timeout(self.patience, waiting)
            .await
            .map_err(|_| Stop::Failed(format!("{what} does not come")))
    }

    /// Everything that the model was sent so far, as one text; nothing when that cannot be told.
    pub(super) fn heard(&self) -> Option<String> {
        let heard = self.stage.heard()?;
        Some(heard.into_iter().flat_map(|one| one.texts).collect::<Vec<_>>().join("\n"))
    }
}

/// A session that was never there before. Its processes carry it.
pub(super) fn session_id() -> SessionId {
    let env: &dyn Env = &SystemEnv::new();
    SessionId::new(env.mint())
}

/// A command that nobody else on this machine runs: so its processes are known by it, whatever they carry.
pub(super) struct Sleep(pub(super) String);

impl Sleep {
    pub(super) fn new() -> Self {
        let unique: String =
            session_id().as_str().chars().filter(char::is_ascii_digit).rev().take(9).collect();
        Self(format!("sleep 86{unique}"))
    }

    /// How many run.
    pub(super) fn running(&self) -> usize {
        world::running(&self.0)
    }
}
