//! The life of an agent: from its creation through its sessions to its removal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Refusal, Step};
use crate::ids::{AttemptId, SessionId, TurnId};

/// What an agent may be. Fixed at its creation.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Role {
    /// Runs tasks.
    #[default]
    Worker,
    /// Coordinates other agents through the tools of Cortex; never runs a task.
    Orchestrator,
}

/// How a person and Cortex talk to an agent.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Interaction {
    /// In turns with a result that a program reads.
    #[default]
    Structured,
    /// In a terminal that a person attaches to.
    Terminal,
}

/// Whether an agent is meant to run. Stored, so that a core that comes back knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Started by somebody and not stopped since.
    Running,
    /// Not started, stopped, or its start failed.
    #[default]
    Stopped,
}

/// Where an agent stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Never started.
    Created,
    /// Its session is being opened.
    Starting {
        /// The session.
        session: SessionId,
    },
    /// It takes input. A turn that a person sent directly leaves it here.
    Ready {
        /// The session.
        session: SessionId,
        /// The direct turn that runs.
        turn: Option<TurnId>,
    },
    /// It runs an attempt.
    Busy {
        /// The session.
        session: SessionId,
        /// The attempt.
        attempt: AttemptId,
    },
    /// Its session lives and takes nothing new.
    Paused {
        /// The session.
        session: SessionId,
        /// The direct turn that still runs.
        turn: Option<TurnId>,
    },
    /// Its session is being ended.
    Stopping {
        /// The session.
        session: SessionId,
    },
    /// It was stopped.
    Stopped,
    /// Its start failed.
    Failed,
    /// Its session died by itself.
    Crashed,
}

/// An agent's state by its name alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum AgentStatus {
    /// Never started.
    Created,
    /// Its session is being opened.
    Starting,
    /// It takes input.
    Ready,
    /// It runs a task.
    Busy,
    /// Its session lives and takes nothing new.
    Paused,
    /// Its session is being ended.
    Stopping,
    /// It was stopped.
    Stopped,
    /// Its start failed.
    Failed,
    /// Its session died by itself.
    Crashed,
}

impl AgentStatus {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Starting => "STARTING",
            Self::Ready => "READY",
            Self::Busy => "BUSY",
            Self::Paused => "PAUSED",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
            Self::Crashed => "CRASHED",
        }
    }

    /// Whether it has a session: only then it uses a process and cannot be changed.
    pub const fn is_live(self) -> bool {
        match self {
            Self::Starting | Self::Ready | Self::Busy | Self::Paused | Self::Stopping => true,
            Self::Created | Self::Stopped | Self::Failed | Self::Crashed => false,
        }
    }
}

/// What happens to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentInput {
    /// Somebody starts it; this is its session if it really starts.
    Start(SessionId),
    /// The session is open.
    Opened(SessionId),
    /// The session could not be opened.
    OpenFailed(SessionId),
    /// Somebody stops it.
    Stop,
    /// The core ends its session and wants a new one: it did not let go of a turn in time.
    Recycle,
    /// The session is closed.
    Closed(SessionId),
    /// The session died by itself.
    SessionDied(SessionId),
    /// The scheduler gives it an attempt.
    Assign(AttemptId),
    /// The attempt has let go of it.
    Release(AttemptId),
    /// A person sends it a turn.
    BeginTurn(TurnId),
    /// That turn is over.
    EndTurn(TurnId),
    /// A person pauses it.
    Pause,
    /// A person lets it go on.
    Resume,
    /// The core that had its session is gone.
    CoreRestarted,
}

/// What the world owes an agent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentDuty {
    /// Open its session.
    OpenSession(SessionId),
    /// End its session.
    CloseSession(SessionId),
}

impl AgentState {
    /// Its name alone.
    pub const fn status(&self) -> AgentStatus {
        match self {
            Self::Created => AgentStatus::Created,
            Self::Starting { .. } => AgentStatus::Starting,
            Self::Ready { .. } => AgentStatus::Ready,
            Self::Busy { .. } => AgentStatus::Busy,
            Self::Paused { .. } => AgentStatus::Paused,
            Self::Stopping { .. } => AgentStatus::Stopping,
            Self::Stopped => AgentStatus::Stopped,
            Self::Failed => AgentStatus::Failed,
            Self::Crashed => AgentStatus::Crashed,
        }
    }

    /// Its session, while it has one.
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Starting { session }
            | Self::Ready { session, .. }
            | Self::Busy { session, .. }
            | Self::Paused { session, .. }
            | Self::Stopping { session } => Some(session),
            Self::Created | Self::Stopped | Self::Failed | Self::Crashed => None,
        }
    }

    /// The direct turn that runs.
    pub const fn direct_turn(&self) -> Option<&TurnId> {
        match self {
            Self::Ready { turn, .. } | Self::Paused { turn, .. } => turn.as_ref(),
            Self::Created
            | Self::Starting { .. }
            | Self::Busy { .. }
            | Self::Stopping { .. }
            | Self::Stopped
            | Self::Failed
            | Self::Crashed => None,
        }
    }

    fn stopping(session: &SessionId) -> Self {
        Self::Stopping { session: session.clone() }
    }

    /// What an input does to its session: opening, closing, dying.
    fn step_session(&self, input: &AgentInput) -> Result<Step<Self>, Refusal> {
        use AgentInput as I;

        let of_this = |session: &SessionId| self.session() == Some(session);
        Ok(Step::To(match (self, input) {
            (_, I::Opened(s) | I::OpenFailed(s) | I::Closed(s) | I::SessionDied(s))
                if !of_this(s) =>
            {
                return Err(Refusal::Stale);
            }
            (Self::Starting { session }, I::Opened(_)) => {
                Self::Ready { session: session.clone(), turn: None }
            }
            (Self::Starting { .. }, I::OpenFailed(_) | I::SessionDied(_)) => Self::Failed,
            // It was stopped while it started: what the start says now only ends it.
            (Self::Stopping { .. }, I::Closed(_) | I::SessionDied(_) | I::OpenFailed(_)) => {
                Self::Stopped
            }
            (Self::Stopping { .. }, I::Opened(_)) => return Ok(Step::Stay),
            (
                Self::Ready { .. } | Self::Busy { .. } | Self::Paused { .. },
                I::SessionDied(_) | I::Closed(_),
            ) => Self::Crashed,
            (_, I::CoreRestarted) if self.status().is_live() => Self::Stopped,
            (_, I::CoreRestarted) => return Ok(Step::Stay),
            (_, _) => return Err(Refusal::WrongState),
        }))
    }
}

impl Machine for AgentState {
    type Input = AgentInput;
    type Duty = AgentDuty;

    fn step(&self, input: AgentInput) -> Result<Step<Self>, Refusal> {
        use AgentInput as I;

        Ok(Step::To(match (self, &input) {
            (Self::Created | Self::Stopped | Self::Failed | Self::Crashed, I::Start(session)) => {
                Self::Starting { session: session.clone() }
            }
            (Self::Starting { .. } | Self::Ready { .. } | Self::Busy { .. }, I::Start(_)) => {
                return Ok(Step::Stay);
            }

            (
                Self::Starting { session }
                | Self::Ready { session, .. }
                | Self::Busy { session, .. }
                | Self::Paused { session, .. },
                I::Stop | I::Recycle,
            ) => Self::stopping(session),
            (
                Self::Created
                | Self::Stopping { .. }
                | Self::Stopped
                | Self::Failed
                | Self::Crashed,
                I::Stop | I::Recycle,
            ) => {
                return Ok(Step::Stay);
            }

            (Self::Ready { session, turn: None }, I::Assign(attempt)) => {
                Self::Busy { session: session.clone(), attempt: attempt.clone() }
            }
            (Self::Busy { session, attempt }, I::Release(released)) if attempt == released => {
                Self::Ready { session: session.clone(), turn: None }
            }
            // Its session has ended meanwhile, and the attempt with it.
            (_, I::Release(_)) => return Ok(Step::Stay),

            (Self::Ready { session, turn: None }, I::BeginTurn(turn)) => {
                Self::Ready { session: session.clone(), turn: Some(turn.clone()) }
            }
            (Self::Ready { session, turn: Some(turn) }, I::EndTurn(ended)) if turn == ended => {
                Self::Ready { session: session.clone(), turn: None }
            }
            (Self::Paused { session, turn: Some(turn) }, I::EndTurn(ended)) if turn == ended => {
                Self::Paused { session: session.clone(), turn: None }
            }
            (_, I::EndTurn(_)) => return Ok(Step::Stay),

            (Self::Ready { session, turn }, I::Pause) => {
                Self::Paused { session: session.clone(), turn: turn.clone() }
            }
            (Self::Paused { session, turn }, I::Resume) => {
                Self::Ready { session: session.clone(), turn: turn.clone() }
            }
            (Self::Paused { .. }, I::Pause) | (Self::Ready { .. }, I::Resume) => {
                return Ok(Step::Stay);
            }

            (
                _,
                I::Opened(_)
                | I::OpenFailed(_)
                | I::Closed(_)
                | I::SessionDied(_)
                | I::CoreRestarted
                | I::Start(_)
                | I::Assign(_)
                | I::BeginTurn(_)
                | I::Pause
                | I::Resume,
            ) => return self.step_session(&input),
        }))
    }

    fn owes(&self) -> Option<AgentDuty> {
        match self {
            Self::Starting { session } => Some(AgentDuty::OpenSession(session.clone())),
            Self::Stopping { session } => Some(AgentDuty::CloseSession(session.clone())),
            Self::Created
            | Self::Ready { .. }
            | Self::Busy { .. }
            | Self::Paused { .. }
            | Self::Stopped
            | Self::Failed
            | Self::Crashed => None,
        }
    }

    /// An agent ends only by its removal, which takes its row away.
    fn is_final(&self) -> bool {
        false
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::machine::walk;

    pub(in crate::domain) fn inputs() -> Vec<AgentInput> {
        let mut all = vec![
            AgentInput::Stop,
            AgentInput::Recycle,
            AgentInput::Pause,
            AgentInput::Resume,
            AgentInput::CoreRestarted,
        ];
        for id in ["1", "2"] {
            let (s, a, t) = (SessionId::new(id), AttemptId::new(id), TurnId::new(id));
            all.extend([
                AgentInput::Start(s.clone()),
                AgentInput::Opened(s.clone()),
                AgentInput::OpenFailed(s.clone()),
                AgentInput::Closed(s.clone()),
                AgentInput::SessionDied(s),
                AgentInput::Assign(a.clone()),
                AgentInput::Release(a),
                AgentInput::BeginTurn(t.clone()),
                AgentInput::EndTurn(t),
            ]);
        }
        all
    }

    #[test]
    fn every_reachable_edge_obeys_the_laws() {
        let seen = walk(AgentState::Created, &inputs(), false, |from, input, to| {
            // The store finds what is owed by these two.
            let in_motion = matches!(to.status(), AgentStatus::Starting | AgentStatus::Stopping);
            assert_eq!(to.owes().is_some(), in_motion, "{to:?}");
            // A session is never swapped for another one while it lives.
            if let (Some(before), Some(after)) = (from.session(), to.session()) {
                assert_eq!(before, after, "{from:?} --{input:?}--> {to:?}");
            }
            // Only a start gives a session, and only to an agent without one.
            if from.session().is_none() && to.session().is_some() {
                assert!(matches!(input, AgentInput::Start(_)), "{from:?} --{input:?}--> {to:?}");
            }
            // S-058, S-064: work reaches only an agent that is READY and does nothing.
            if matches!(input, AgentInput::Assign(_) | AgentInput::BeginTurn(_)) {
                assert!(
                    matches!(from, AgentState::Ready { turn: None, .. }),
                    "{from:?} --{input:?}--> {to:?}"
                );
            }
        });
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (24, 140, 274),
            "the lifecycle changed: is that meant?"
        );
    }

    /// The table of calls by state (`decisions.md`, Transitions), cell by cell: `x` refused, `=` unchanged.
    #[test]
    fn the_call_table_holds() {
        let s = SessionId::new("s");
        let ready = |turn: Option<&str>| AgentState::Ready {
            session: s.clone(),
            turn: turn.map(TurnId::new),
        };
        let states = [
            AgentState::Created,
            AgentState::Starting { session: s.clone() },
            ready(None),
            ready(Some("t")),
            AgentState::Busy { session: s.clone(), attempt: AttemptId::new("a") },
            AgentState::Paused { session: s.clone(), turn: None },
            AgentState::Stopping { session: s.clone() },
            AgentState::Stopped,
        ];
        let table = [
            (AgentInput::Start(SessionId::new("new")), "STARTING = = = = x x STARTING"),
            (AgentInput::Stop, "= STOPPING STOPPING STOPPING STOPPING STOPPING = ="),
            (AgentInput::Recycle, "= STOPPING STOPPING STOPPING STOPPING STOPPING = ="),
            (AgentInput::BeginTurn(TurnId::new("t2")), "x x READY x x x x x"),
            (AgentInput::Pause, "x x PAUSED PAUSED x = x x"),
            (AgentInput::Resume, "x x = = x READY x x"),
            (
                AgentInput::SessionDied(s.clone()),
                "x FAILED CRASHED CRASHED CRASHED CRASHED STOPPED x",
            ),
            (AgentInput::CoreRestarted, "= STOPPED STOPPED STOPPED STOPPED STOPPED STOPPED ="),
        ];
        for (input, row) in table {
            let seen: Vec<_> = states
                .iter()
                .map(|state| match state.step(input.clone()) {
                    Ok(Step::To(next)) => next.status().as_str(),
                    Ok(Step::Stay) => "=",
                    Err(_) => "x",
                })
                .collect();
            assert_eq!(seen.join(" "), row, "{input:?}");
        }
    }
}
