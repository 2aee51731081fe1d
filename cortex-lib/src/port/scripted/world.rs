//! What is outside of the core: processes that live on when it dies, and the record of all that it asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::git::GitFate;
use super::repository::Repositories;
use super::session::ScriptedSession;
use crate::ids::{AgentId, AttemptId, SessionId, TurnId};
use crate::port::{SessionEvent, SessionSpec, ToolAnswer, Turn, VerificationRequest};

/// Something that the core asked of the world.
#[derive(Clone, Debug)]
pub enum Asked {
    /// To open a session.
    Open(SessionSpec),
    /// To run a turn.
    Turn(SessionId, Turn),
    /// To give a turn that runs more to go on.
    Steer(SessionId, TurnId, String),
    /// To interrupt a turn.
    Interrupt(SessionId, TurnId),
    /// To go on after a tool request.
    Answer(SessionId, String, ToolAnswer),
    /// To close a session.
    Close(SessionId),
    /// To verify a result.
    Verify(VerificationRequest),
    /// To do something with git: the method, and the folder it is about.
    Git(&'static str, PathBuf),
    /// To end what an earlier life left.
    Sweep(Vec<String>),
}

/// What is outside of the core. Clones are the same world; it outlives cores.
#[derive(Clone, Debug, Default)]
pub struct ScriptedWorld {
    /// A lock, because many sessions and a test share it; it is held for a look or a note.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    life: u64,
    processes: BTreeSet<String>,
    sessions: BTreeMap<SessionId, (Option<AgentId>, Weak<ScriptedSession>)>,
    scratch: BTreeSet<SessionId>,
    objects: BTreeSet<AttemptId>,
    gone: BTreeSet<PathBuf>,
    no_scratch: bool,
    git: Repositories,
    git_fates: BTreeMap<&'static str, GitFate>,
    strangers: BTreeSet<String>,
    asked: Vec<Asked>,
    overlaps: Vec<TurnId>,
}

impl ScriptedWorld {
    /// An empty world.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The core dies on the spot. Call it before its runtime is dropped: what it had started lives on.
    pub fn lose_core(&self) {
        let mut inner = self.lock();
        inner.life = inner.life.saturating_add(1);
        inner.sessions.clear();
    }

    /// The markers of the processes that live: sessions and verifications.
    pub fn processes(&self) -> BTreeSet<String> {
        self.lock().processes.clone()
    }

    /// The sessions whose folders are there.
    pub fn scratch(&self) -> BTreeSet<SessionId> {
        self.lock().scratch.clone()
    }

    /// The attempts for which a look at the files of a project was kept.
    pub fn objects(&self) -> BTreeSet<AttemptId> {
        self.lock().objects.clone()
    }

    /// Puts a process and a folder there, both called `name`, that are not Cortex's. Nothing of Cortex may end
    /// or remove them.
    pub fn add_stranger(&self, name: impl Into<String>) {
        self.lock().strangers.insert(name.into());
    }

    /// What is there that is not Cortex's.
    pub fn strangers(&self) -> BTreeSet<String> {
        self.lock().strangers.clone()
    }

    /// Everything that was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// The turns that were sent so far, in order.
    pub fn turns(&self) -> Vec<Turn> {
        let turn = |asked: &Asked| match asked {
            Asked::Turn(_, turn) => Some(turn.clone()),
            _ => None,
        };
        self.lock().asked.iter().filter_map(turn).collect()
    }

    /// The turns that were sent into a session in which another one ran.
    pub fn overlaps(&self) -> Vec<TurnId> {
        self.lock().overlaps.clone()
    }

    pub(super) fn note_overlap(&self, turn: &TurnId) {
        self.lock().overlaps.push(turn.clone());
    }

    /// What turns that ran were given to go on so far, in order, whether they heard it or not.
    pub fn steers(&self) -> Vec<(TurnId, String)> {
        let steer = |asked: &Asked| match asked {
            Asked::Steer(_, turn, text) => Some((turn.clone(), text.clone())),
            _ => None,
        };
        self.lock().asked.iter().filter_map(steer).collect()
    }

    /// The turns that were interrupted so far, in order.
    pub fn interrupts(&self) -> Vec<TurnId> {
        let turn = |asked: &Asked| match asked {
            Asked::Interrupt(_, turn) => Some(turn.clone()),
            _ => None,
        };
        self.lock().asked.iter().filter_map(turn).collect()
    }

    /// The sessions that were asked for so far, in order.
    pub fn openings(&self) -> Vec<SessionSpec> {
        let spec = |asked: &Asked| match asked {
            Asked::Open(spec) => Some(spec.clone()),
            _ => None,
        };
        self.lock().asked.iter().filter_map(spec).collect()
    }

    /// The attempts whose results were verified so far, in order.
    pub fn verifications(&self) -> Vec<AttemptId> {
        let attempt = |asked: &Asked| match asked {
            Asked::Verify(request) => Some(request.attempt_id.clone()),
            _ => None,
        };
        self.lock().asked.iter().filter_map(attempt).collect()
    }

    /// The session of an agent that lives in this life.
    pub fn session_of(&self, agent: &AgentId) -> Option<SessionId> {
        let inner = self.lock();
        let lives = |id: &SessionId| inner.processes.contains(id.as_str());
        inner
            .sessions
            .iter()
            .rev()
            .find(|(id, (owner, _))| owner.as_ref() == Some(agent) && lives(id))
            .map(|(id, _)| id.clone())
    }

    /// Lets a session of this life say something. Returns whether anybody could hear it.
    pub async fn emit(&self, session: &SessionId, event: SessionEvent) -> bool {
        match self.session(session) {
            Some(session) => session.say(event).await,
            None => false,
        }
    }

    /// Lets a session of this life die by itself.
    pub async fn kill(&self, session: &SessionId, message: &str) {
        if let Some(session) = self.session(session) {
            session.die(Some(message.to_owned())).await;
        }
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<Arc<ScriptedSession>> {
        self.lock().sessions.get(id).and_then(|(_, session)| session.upgrade())
    }

    /// Takes a folder away.
    pub fn remove_folder(&self, path: impl Into<PathBuf>) {
        self.lock().gone.insert(path.into());
    }

    /// Puts a folder back.
    pub fn restore_folder(&self, path: &Path) {
        self.lock().gone.remove(path);
    }

    /// What becomes of every call of a method of git from now on.
    pub fn git_fate(&self, method: &'static str, fate: GitFate) {
        self.lock().git_fates.insert(method, fate);
    }

    pub(super) fn git_fate_of(&self, method: &'static str) -> GitFate {
        self.lock().git_fates.get(method).cloned().unwrap_or_default()
    }

    pub(super) fn with_git<T>(&self, work: impl FnOnce(&mut Repositories) -> T) -> T {
        work(&mut self.lock().git)
    }

    pub(super) fn note(&self, asked: Asked) {
        self.lock().asked.push(asked);
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        !self.lock().gone.contains(path)
    }

    /// Whether folders for sessions can be made. Default: they can.
    pub fn allow_scratch(&self, allowed: bool) {
        self.lock().no_scratch = !allowed;
    }

    /// Makes the folder of a session. Returns whether that is possible.
    pub(super) fn put_scratch(&self, session: &SessionId) -> bool {
        let mut inner = self.lock();
        if !inner.no_scratch {
            inner.scratch.insert(session.clone());
        }
        !inner.no_scratch
    }

    pub(super) fn put_objects(&self, attempt: &AttemptId) {
        self.lock().objects.insert(attempt.clone());
    }

    pub(super) fn keep_objects_of(&self, live: &BTreeSet<AttemptId>) {
        self.lock().objects.retain(|attempt| live.contains(attempt));
    }

    pub(super) fn remove_scratch(&self, session: &SessionId) {
        let mut inner = self.lock();
        inner.scratch.remove(session);
        inner.strangers.remove(session.as_str());
    }

    pub(super) fn sweep(&self, markers: Vec<String>) -> usize {
        let mut inner = self.lock();
        let mut ended = 0_usize;
        for marker in &markers {
            let found = inner.processes.remove(marker) | inner.strangers.remove(marker);
            ended = ended.saturating_add(usize::from(found));
        }
        inner.asked.push(Asked::Sweep(markers));
        ended
    }

    pub(super) fn remember(&self, agent: Option<AgentId>, session: &Arc<ScriptedSession>) {
        let (id, weak) = (session.id().clone(), Arc::downgrade(session));
        self.lock().sessions.insert(id, (agent, weak));
    }

    /// Starts a process. It ends with what is returned, unless the core was lost before.
    pub(super) fn start(&self, marker: &str) -> Process {
        let mut inner = self.lock();
        inner.processes.insert(marker.to_owned());
        let marker = marker.to_owned();
        Process { world: self.clone(), marker, life: inner.life, attached: AtomicBool::new(true) }
    }
}

/// A process of this life.
#[derive(Debug)]
pub(super) struct Process {
    world: ScriptedWorld,
    marker: String,
    life: u64,
    attached: AtomicBool,
}

impl Process {
    /// From here on it ends only when it is told to: a core that forgets it leaves it behind.
    pub(super) fn detach(&self) {
        self.attached.store(false, Ordering::Relaxed);
    }

    /// It ends.
    pub(super) fn end(&self) {
        let mut inner = self.world.lock();
        if inner.life == self.life {
            inner.processes.remove(&self.marker);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.attached.load(Ordering::Relaxed) {
            self.end();
        }
    }
}
