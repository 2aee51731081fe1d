//! Planted defects. Each is a way in which Cortex could be wrong, and the simulation has to find it: else it proves
//! nothing when it finds nothing.
//!
//! The product has no switches for them. What a wrong core would write is written by a trigger in the database, or
//! by a statement between two lives; a wrong store is a fate of its commits; a wrong driver or machine is a disguise
//! of the scripted one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::Result;
use cortex_lib::ids::{AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    Git, HealthReport, Host, Opened, Runtime, RuntimeInfo, ScriptedWorld, Session, SessionEvent,
    SessionSpec, ToolAnswer, Turn, VerificationOutcome, VerificationRequest, Verifier,
};
use cortex_lib::store::Fate;
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::lying_git::LyingGit;
use super::promises::Promise;

/// A defect, and the promise that it breaks.
#[derive(Debug)]
pub struct Defect {
    /// What is wrong, as a sentence.
    pub name: &'static str,
    pub promise: Promise,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// A trigger in the database, from its first life on.
    Trigger(&'static str),
    /// A statement before every life.
    BeforeLife(&'static str),
    /// What becomes of every fifth commit.
    EveryFifthCommit(Fate),
    /// Every life finds the disk as the first one found it.
    OldDisk,
    /// A driver or a machine that lies.
    Port(Lie),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    SweepTakesStrangers,
    CloseLeavesAll,
    LateAnswersCount,
    RemovalsLeaveAll,
    RemovalsTakeAll,
    KeepingStages,
    AnswersTwice,
}

/// All planted defects.
pub const DEFECTS: &[Defect] = &[
    Defect {
        name: "the disk says that it keeps what it forgets without power",
        promise: Promise::NothingIsLost,
        how: How::OldDisk,
    },
    Defect {
        name: "a commit fails and nobody hears it",
        promise: Promise::NothingIsLost,
        how: How::EveryFifthCommit(Fate::Forget),
    },
    Defect {
        name: "a cancelled task is answered and not written",
        promise: Promise::NothingIsLost,
        how: How::Trigger(
            "BEFORE UPDATE ON task WHEN NEW.status = 'CANCELLED' BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "a decision of a person is dropped when the task goes on",
        promise: Promise::NothingIsLost,
        how: How::Trigger(
            "AFTER UPDATE ON task WHEN NEW.status = 'RUNNING' BEGIN
                UPDATE task SET decisions = '[]' WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "an attempt that failed stays live",
        promise: Promise::NothingRunsTwice,
        how: How::Trigger(
            "BEFORE UPDATE ON attempt WHEN NEW.ended_at IS NOT NULL AND NEW.state LIKE '%failed%'
                BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "a late answer counts for the turn that runs now",
        promise: Promise::NothingRunsTwice,
        how: How::Port(Lie::LateAnswersCount),
    },
    Defect {
        name: "a task starts before what it depends on",
        promise: Promise::NothingRunsTwice,
        how: How::Trigger(
            "AFTER INSERT ON task WHEN NEW.depends_on <> '[]' BEGIN
                UPDATE task SET status = 'READY', state = json_set(state, '$.phase', 'ready')
                WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "a start forgets the sessions of the life before",
        promise: Promise::NothingIsLeftBehind,
        how: How::BeforeLife("UPDATE session SET ended_at = 1 WHERE ended_at IS NULL"),
    },
    Defect {
        name: "an agent that is told to stop counts as stopped at once",
        promise: Promise::NothingIsLeftBehind,
        how: How::Trigger(
            "AFTER UPDATE ON agent WHEN NEW.status = 'STOPPING' BEGIN
                UPDATE agent SET status = 'STOPPED', state = '\"stopped\"'
                WHERE agent_id = NEW.agent_id; END",
        ),
    },
    Defect {
        name: "a driver says that a session is closed and its program lives on",
        promise: Promise::NothingIsLeftBehind,
        how: How::Port(Lie::CloseLeavesAll),
    },
    Defect {
        name: "the deadline of an attempt is forgotten",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER INSERT ON timer WHEN NEW.kind = 'attempt_deadline' BEGIN
                DELETE FROM timer WHERE subject = NEW.subject AND kind = NEW.kind; END",
        ),
    },
    Defect {
        name: "retries are not counted",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER UPDATE ON task WHEN NEW.status = 'READY' BEGIN
                UPDATE task SET state = json_set(state, '$.retries', 0)
                WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "a task is not told that what it depends on has completed",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "BEFORE UPDATE ON task WHEN OLD.status = 'CREATED' AND NEW.status = 'READY'
                AND NEW.depends_on <> '[]' BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "a clean-up takes what is not Cortex's",
        promise: Promise::NothingOfOthersIsTouched,
        how: How::Port(Lie::SweepTakesStrangers),
    },
    Defect {
        name: "an agent works in another folder than its project's",
        promise: Promise::NothingOfOthersIsTouched,
        how: How::Trigger(
            "AFTER INSERT ON project BEGIN
                UPDATE project SET root = '/home/somebody' WHERE project_id = NEW.project_id; END",
        ),
    },
    Defect {
        name: "a message ends in a code that nobody declares",
        promise: Promise::AnswersAreDeclared,
        how: How::Trigger("BEFORE INSERT ON turn BEGIN SELECT RAISE(ABORT, 'planted'); END"),
    },
    Defect {
        name: "an event is lost",
        promise: Promise::EventsAgreeWithRows,
        how: How::Trigger(
            "AFTER INSERT ON event WHEN NEW.kind = 'task.changed' BEGIN
                DELETE FROM event WHERE seq = NEW.seq; END",
        ),
    },
    Defect {
        name: "a pause is told and not written",
        promise: Promise::EventsAgreeWithRows,
        how: How::Trigger(
            "BEFORE UPDATE ON agent WHEN NEW.status = 'PAUSED' BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "a pause that interrupts spends a retry",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER UPDATE ON task WHEN NEW.status = 'READY' AND OLD.status = 'RUNNING' BEGIN
                UPDATE task SET state = json_set(state, '$.retries',
                json_extract(state, '$.retries') + 1) WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "a backoff is for ever",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER UPDATE ON task WHEN json_extract(NEW.hold, '$.until.at') < '3' BEGIN
                UPDATE task SET hold = json_set(hold, '$.until.at', '3026-09-21T14:13:20.000Z')
                WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "a generation goes back",
        promise: Promise::EventsAgreeWithRows,
        how: How::Trigger(
            "AFTER UPDATE ON objective WHEN NEW.generation > OLD.generation AND OLD.generation > 0
                BEGIN UPDATE objective SET generation = 0
                WHERE objective_id = NEW.objective_id; END",
        ),
    },
    Defect {
        name: "an approved proposal is made work of, and the work does not know it",
        promise: Promise::NothingRunsTwice,
        how: How::Trigger(
            "AFTER INSERT ON objective WHEN NEW.proposal_id IS NOT NULL BEGIN
                UPDATE objective SET proposal_id = NULL
                WHERE objective_id = NEW.objective_id; END",
        ),
    },
    Defect {
        name: "a rejected proposal waits again",
        promise: Promise::NothingIsLost,
        how: How::Trigger(
            "AFTER UPDATE ON proposal WHEN NEW.status = 'rejected' BEGIN
                UPDATE proposal SET status = 'pending', state = '\"pending\"', resolution = NULL,
                decided = NULL WHERE proposal_id = NEW.proposal_id; END",
        ),
    },
    Defect {
        name: "a message outlives the attempt that it is for",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "BEFORE UPDATE ON message WHEN NEW.status = 'EXPIRED'
                AND NEW.to_execution_id IS NOT NULL BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "an acknowledged message comes back",
        promise: Promise::NothingIsLost,
        how: How::Trigger(
            "AFTER UPDATE ON message WHEN NEW.status = 'ACKED' BEGIN
                UPDATE message SET status = 'WAITING', acked_at = NULL
                WHERE sequence = NEW.sequence; END",
        ),
    },
    Defect {
        name: "every message waits in the inbox of the last reader",
        promise: Promise::AnswersAreDeclared,
        how: How::Trigger(
            "AFTER INSERT ON message BEGIN UPDATE message SET reader_id = NEW.reader_id; END",
        ),
    },
    Defect {
        name: "the clock of messages is forgotten",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER INSERT ON timer WHEN NEW.kind = 'messages_due' BEGIN
                DELETE FROM timer WHERE kind = 'messages_due'; END",
        ),
    },
    Defect {
        name: "another commit is integrated than the one that was verified",
        promise: Promise::NothingOfOthersIsTouched,
        how: How::Trigger(
            "AFTER UPDATE ON task WHEN NEW.integration IS NOT NULL BEGIN
                UPDATE task SET integration = json_set(integration, '$.commit', 'another')
                WHERE task_id = NEW.task_id; END",
        ),
    },
    Defect {
        name: "a worktree counts as removed and stands",
        promise: Promise::NothingIsLeftBehind,
        how: How::Port(Lie::RemovalsLeaveAll),
    },
    Defect {
        name: "a worktree goes that is not proved to be Cortex's",
        promise: Promise::NothingOfOthersIsTouched,
        how: How::Port(Lie::RemovalsTakeAll),
    },
    Defect {
        name: "a result is staged that nobody asked for",
        promise: Promise::NothingOfOthersIsTouched,
        how: How::Port(Lie::KeepingStages),
    },
    Defect {
        name: "a request waits on when its turn has ended",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "BEFORE UPDATE ON approval WHEN NEW.status = 'cancelled'
                BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
    Defect {
        name: "an answer is given twice",
        promise: Promise::NothingRunsTwice,
        how: How::Port(Lie::AnswersTwice),
    },
    Defect {
        name: "what a person denied is allowed",
        promise: Promise::NothingIsLost,
        how: How::Trigger(
            "AFTER UPDATE ON approval WHEN NEW.status = 'denied' AND NEW.decided_by = 'user'
                BEGIN UPDATE approval SET status = 'allowed', state = '{\"allowed\":\"owed\"}'
                WHERE approval_id = NEW.approval_id; END",
        ),
    },
    Defect {
        name: "the patience with a person is forgotten",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "AFTER INSERT ON timer WHEN NEW.kind = 'approval_due' BEGIN
                DELETE FROM timer WHERE subject = NEW.subject AND kind = NEW.kind; END",
        ),
    },
    Defect {
        name: "the time of a task stands when its request was answered",
        promise: Promise::NothingWaitsForEver,
        how: How::Trigger(
            "BEFORE UPDATE ON attempt WHEN OLD.time_left IS NOT NULL AND NEW.time_left IS NULL
                BEGIN SELECT RAISE(IGNORE); END",
        ),
    },
];

impl Defect {
    /// Plants what stands in the database of a store that is there.
    pub fn plant(&self, path: &Path) {
        let conn = Connection::open(path).unwrap();
        match self.how {
            How::Trigger(what) => {
                conn.execute_batch(&format!("CREATE TRIGGER IF NOT EXISTS planted {what}"))
                    .unwrap();
            }
            How::BeforeLife(what) => conn.execute_batch(what).unwrap(),
            How::OldDisk => {
                drop(conn);
                let first = path.with_extension("first");
                let (from, to) = if first.exists() { (&*first, path) } else { (path, &*first) };
                fs_err::copy(from, to).unwrap();
            }
            How::EveryFifthCommit(_) | How::Port(_) => {}
        }
    }

    /// What becomes of every fifth commit.
    pub fn every_fifth_commit(&self) -> Option<Fate> {
        match self.how {
            How::EveryFifthCommit(fate) => Some(fate),
            How::Trigger(_) | How::BeforeLife(_) | How::OldDisk | How::Port(_) => None,
        }
    }

    /// The machine and the drivers of a life, as they lie.
    pub fn disguise(
        &self,
        world: &ScriptedWorld,
        host: Arc<dyn Host>,
        runtimes: Vec<Arc<dyn Runtime>>,
    ) -> (Arc<dyn Host>, Vec<Arc<dyn Runtime>>) {
        match self.how {
            How::Port(Lie::SweepTakesStrangers) => {
                (Arc::new(Sweeper { host, world: world.clone() }), runtimes)
            }
            How::Port(
                lie @ (Lie::RemovalsLeaveAll | Lie::RemovalsTakeAll | Lie::KeepingStages),
            ) => (Arc::new(LyingGit { host, world: world.clone(), lie }), runtimes),
            How::Port(lie) => {
                let lying = |inner| Arc::new(LyingRuntime { inner, lie }) as Arc<dyn Runtime>;
                (host, runtimes.into_iter().map(lying).collect())
            }
            _ => (host, runtimes),
        }
    }
}

/// Sweeps strangers too.
#[derive(Debug)]
struct Sweeper {
    host: Arc<dyn Host>,
    world: ScriptedWorld,
}

#[async_trait]
impl Verifier for Sweeper {
    async fn verify(&self, request: VerificationRequest) -> VerificationOutcome {
        self.host.verify(request).await
    }
}

#[async_trait]
impl Host for Sweeper {
    async fn sweep(&self, markers: Vec<String>) -> usize {
        self.host.sweep(markers.into_iter().chain(self.world.strangers()).collect()).await
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.host.is_folder(path)
    }

    fn make_scratch(&self, session: &SessionId) -> Result<PathBuf> {
        self.host.make_scratch(session)
    }

    fn remove_scratch(&self, session: &SessionId) {
        self.host.remove_scratch(session);
    }

    fn git(&self) -> &dyn Git {
        self.host.git()
    }

    fn worktrees(&self) -> PathBuf {
        self.host.worktrees()
    }

    fn objects(&self, attempt: &AttemptId) -> PathBuf {
        self.host.objects(attempt)
    }

    fn keep_objects_of(&self, live: &BTreeSet<AttemptId>) {
        self.host.keep_objects_of(live);
    }
}

#[derive(Debug)]
struct LyingRuntime {
    inner: Arc<dyn Runtime>,
    lie: Lie,
}

#[async_trait]
impl Runtime for LyingRuntime {
    fn info(&self) -> &RuntimeInfo {
        self.inner.info()
    }

    async fn check(&self) -> HealthReport {
        self.inner.check().await
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        let mut opened = self.inner.open(spec).await?;
        let current = Arc::new(Mutex::new(None));
        let (told, heard) = mpsc::channel(256);
        let mut events = std::mem::replace(&mut opened.events, heard);
        let (lie, turn) = (self.lie, Arc::clone(&current));
        drop(tokio::spawn(async move {
            while let Some(mut event) = events.recv().await {
                if let (SessionEvent::TurnEnded(end), Lie::LateAnswersCount) = (&mut event, lie) {
                    let now = turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    end.turn_id = now.unwrap_or_else(|| end.turn_id.clone());
                }
                if told.send(event).await.is_err() {
                    return;
                }
            }
        }));
        opened.session = Arc::new(LyingSession { inner: opened.session, lie, current });
        Ok(opened)
    }
}

#[derive(Debug)]
struct LyingSession {
    inner: Arc<dyn Session>,
    lie: Lie,
    /// The turn that was sent last.
    current: Arc<Mutex<Option<TurnId>>>,
}

#[async_trait]
impl Session for LyingSession {
    async fn send(&self, turn: Turn) -> Result<()> {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn.id.clone());
        self.inner.send(turn).await
    }

    async fn interrupt(&self, turn: &TurnId) -> Result<()> {
        self.inner.interrupt(turn).await
    }

    async fn answer(&self, request_id: &str, answer: ToolAnswer) -> Result<()> {
        if self.lie == Lie::AnswersTwice {
            self.inner.answer(request_id, answer.clone()).await?;
        }
        self.inner.answer(request_id, answer).await
    }

    async fn close(&self, grace: Duration) {
        if self.lie != Lie::CloseLeavesAll {
            self.inner.close(grace).await;
        }
    }
}
