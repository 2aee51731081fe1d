//! Agents and their sessions.

use super::AttemptReport;
use crate::domain::agent::{AgentInput, AgentState, AgentStatus, Wanted};
use crate::domain::attempt::{AttemptInput, AttemptState, Cause, EndReason};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, SessionId};
use crate::port::SessionFacts;
use crate::settings::Settings;
use crate::store::{Agent, ReadTx, Why, WriteTx};

/// How a session ended.
#[derive(Clone, Debug)]
pub enum SessionEnd {
    /// Cortex closed it.
    Closed,
    /// It died by itself.
    Died(Error),
    /// The core that had it is gone.
    CoreGone,
}

impl WriteTx<'_> {
    /// Starts an agent: from here on its session is owed. A live agent stays as it is.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`, `resource.limit_reached`.
    pub fn start_agent(&mut self, id: &AgentId, settings: &Settings) -> Result<Agent> {
        let before = self.agent(id)?;
        let max = settings.resources.max_active_processes;
        if !before.state.status().is_live() && self.live_session_count()? >= max {
            let message =
                format!("{max} sessions live, as many as resources.max_active_processes allows");
            return Err(
                Error::new(Code::ResourceLimitReached, message).with("agent_id", id.as_str())
            );
        }
        let session = SessionId::new(self.env().mint());
        let agent =
            self.step_agent(id, AgentInput::Start(session.clone()), &Why::Because("start"))?;
        if agent.state.session() == Some(&session) {
            self.insert_session(&session, id, &agent.runtime_id, None)?;
        }
        Ok(agent)
    }

    /// Stops an agent: from here on the end of its session is owed. What runs on it ends CANCELLED.
    ///
    /// # Errors
    ///
    /// `agent.not_found`.
    pub fn stop_agent(&mut self, id: &AgentId, settings: &Settings) -> Result<Agent> {
        let before = self.agent(id)?;
        let agent = self.step_agent(id, AgentInput::Stop, &Why::Because("stop"))?;
        let report = AttemptReport::default();
        let end = AttemptInput::End(EndReason::AgentStopped);
        if let AgentState::Busy { attempt, .. } = &before.state {
            self.attempt_input(attempt, end, &report, settings)?;
        }
        // A session of its own may outlive the agent's. It is ended as that is: without asking its turn first.
        let running = self.live_attempts()?.into_iter().filter(|attempt| {
            attempt.agent_id == *id && attempt.is_isolated() && attempt.state.holds_agent()
        });
        for attempt in running.collect::<Vec<_>>() {
            let ending = self.attempt_input(&attempt.id, end, &report, settings)?;
            if matches!(ending.state, AttemptState::Ending(_)) {
                self.attempt_input(&attempt.id, AttemptInput::GraceOver, &report, settings)?;
            }
        }
        if let Some(turn) = before.state.direct_turn()
            && let Some(turn) = self.direct_turn(turn)?
        {
            self.cut_direct_turn(&turn, &interrupted("the agent was stopped"))?;
        }
        Ok(agent)
    }

    /// Pauses a READY agent: its session takes nothing new.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`.
    pub fn pause_agent(&mut self, id: &AgentId) -> Result<Agent> {
        self.step_agent(id, AgentInput::Pause, &Why::Because("pause"))
    }

    /// Lets a paused agent go on.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`.
    pub fn resume_agent(&mut self, id: &AgentId) -> Result<Agent> {
        self.step_agent(id, AgentInput::Resume, &Why::Because("resume"))
    }

    /// Notes that a session is open. Returns whether somebody still waits for it: else it is to be closed.
    pub fn session_opened(
        &mut self,
        id: &SessionId,
        facts: &SessionFacts,
        settings: &Settings,
    ) -> Result<bool> {
        let Some(session) = self.session(id)? else { return Ok(false) };
        self.set_session_facts(id, facts.native_session_id.as_deref(), facts.pid, facts.resumed)?;
        if let Some(attempt) = &session.attempt_id {
            let report = AttemptReport::default();
            return match self.attempt_input(attempt, AttemptInput::SessionOpened, &report, settings)
            {
                Ok(_) => Ok(true),
                Err(error) if error.code() == Code::AttemptStale => Ok(false),
                Err(error) => Err(error),
            };
        }
        match self.step_agent(
            &session.agent_id,
            AgentInput::Opened(id.clone()),
            &Why::Because("ready"),
        ) {
            Ok(agent) => Ok(agent.state.status() == AgentStatus::Ready),
            Err(error) if error.code() == Code::AgentStateConflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes that a session could not be opened. Nothing of it lives.
    pub fn session_open_failed(
        &mut self,
        id: &SessionId,
        error: Error,
        settings: &Settings,
    ) -> Result<()> {
        let Some(session) = self.session(id)? else { return Ok(()) };
        self.end_session(id)?;
        if let Some(attempt) = &session.attempt_id {
            let report = AttemptReport {
                message: Some(error.message().to_owned()),
                ..AttemptReport::default()
            };
            let failed = AttemptInput::TurnFailed(start_cause(error.code()));
            return match self.attempt_input(attempt, failed, &report, settings) {
                Err(error) if error.code() != Code::AttemptStale => Err(error),
                Ok(_) | Err(_) => Ok(()),
            };
        }
        let stopped = self.agent(&session.agent_id)?.state.status() == AgentStatus::Stopping;
        let why = if stopped { Why::Because("stopped") } else { Why::Failed(error) };
        stale_is_fine(self.step_agent(&session.agent_id, AgentInput::OpenFailed(id.clone()), &why))
    }

    /// Notes that a session is over, with all that ran in it.
    pub fn session_over(
        &mut self,
        id: &SessionId,
        end: &SessionEnd,
        settings: &Settings,
    ) -> Result<()> {
        let Some(session) = self.session(id)?.filter(|session| session.ended_at.is_none()) else {
            return Ok(());
        };
        // What dies while it is being closed is closed: drivers tell the end of a program in either case.
        let closing = self
            .agent(&session.agent_id)
            .is_ok_and(|agent| agent.state.status() == AgentStatus::Stopping);
        let end = match end {
            SessionEnd::Died(_) if closing => &SessionEnd::Closed,
            end => end,
        };
        self.end_session(id)?;
        self.end_approvals_of_session(id, end)?;
        self.cut_steers(id)?;
        let attempts: Vec<_> =
            self.live_attempts()?.into_iter().filter(|attempt| attempt.session_id == *id).collect();
        let turns: Vec<_> =
            self.live_direct_turns()?.into_iter().filter(|turn| turn.session_id == *id).collect();
        let lost_a_turn =
            attempts.iter().any(|attempt| attempt.state.holds_agent()) || !turns.is_empty();

        let (input, why) = match end {
            SessionEnd::Closed => (AgentInput::Closed(id.clone()), Why::Because("stopped")),
            SessionEnd::Died(error) => {
                (AgentInput::SessionDied(id.clone()), Why::Failed(error.clone()))
            }
            SessionEnd::CoreGone if lost_a_turn => {
                (AgentInput::CoreRestarted, Why::Failed(lost_with_the_core()))
            }
            SessionEnd::CoreGone => (AgentInput::CoreRestarted, Why::Because("the core restarted")),
        };
        // The session of one attempt says nothing about its agent, whose own conversation lives on.
        let is_its_own = session.attempt_id.is_none();
        if is_its_own {
            stale_is_fine(self.step_agent(&session.agent_id, input, &why))?;
        }
        let closed = is_its_own && matches!(end, SessionEnd::Closed);

        let (input, failure) = match end {
            SessionEnd::Closed => {
                (AttemptInput::SessionLost, interrupted("its session was closed"))
            }
            SessionEnd::Died(error) => (
                AttemptInput::SessionLost,
                TurnFailed { cause: Cause::Crashed.as_str(), message: error.message().to_owned() },
            ),
            SessionEnd::CoreGone => (
                AttemptInput::CoreLost,
                TurnFailed {
                    cause: "recovery.outcome_unknown",
                    message: lost_with_the_core().message().to_owned(),
                },
            ),
        };
        for attempt in attempts {
            let report = AttemptReport {
                message: Some(failure.message.clone()),
                ..AttemptReport::default()
            };
            self.attempt_input(&attempt.id, input, &report, settings)?;
        }
        for turn in turns {
            self.cut_direct_turn(&turn, &failure)?;
        }
        if closed { self.begin_anew(&session.agent_id, settings) } else { Ok(()) }
    }

    /// Starts an agent again whose session the core ended by itself. A limit that was reached meanwhile keeps it
    /// down; a person can start it.
    fn begin_anew(&mut self, id: &AgentId, settings: &Settings) -> Result<()> {
        let agents = self.agents_to_restore()?;
        if !agents.iter().any(|agent| agent.id == *id && agent.state == AgentState::Stopped) {
            return Ok(());
        }
        match self.start_agent(id, settings) {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Code::ResourceLimitReached => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends the session of an agent that did not let go of a turn, to begin a new one. One that a person paused
    /// does not come back by itself: it would take tasks again.
    pub(crate) fn recycle_agent(&mut self, id: &AgentId, settings: &Settings) -> Result<()> {
        let agent = self.agent(id)?;
        if agent.state.status() == AgentStatus::Paused {
            return self.stop_agent(id, settings).map(drop);
        }
        let why = Why::Because("did not let go of a turn");
        self.step_agent(id, AgentInput::Recycle, &why).map(drop)
    }

    /// Removes an agent for good.
    ///
    /// # Errors
    ///
    /// `agent.state_conflict` while it has a session, `agent.in_use` while an unended task is pinned to it or an
    /// attempt still ends on it (H-25).
    pub fn retire_agent(&mut self, id: &AgentId) -> Result<()> {
        let agent = self.agent(id)?;
        let status = agent.state.status();
        if status.is_live() {
            let message = format!(
                "agent {} is {}: only one without a session can be removed",
                agent.name,
                status.as_str()
            );
            return Err(Error::new(Code::AgentStateConflict, message)
                .remedy("Stop it first.")
                .with("agent_id", id.as_str()));
        }
        let mut tasks: Vec<String> =
            self.open_tasks_pinned_to(id)?.into_iter().map(|task| task.id.to_string()).collect();
        let live = self.live_attempts()?;
        tasks.extend(
            live.into_iter()
                .filter(|attempt| attempt.agent_id == *id)
                .map(|attempt| attempt.task_id.to_string()),
        );
        if tasks.is_empty() {
            self.expire_messages_to_agent(id)?;
            self.drop_rules_of_agent(&agent.project_id, id)?;
            return self.remove_agent(&agent);
        }
        let message = format!("agent {} is still needed by {} tasks", agent.name, tasks.len());
        Err(Error::new(Code::AgentInUse, message)
            .with("agent_id", id.as_str())
            .with("task_ids", tasks))
    }
}

impl ReadTx<'_> {
    /// The attempt that a session was opened for alone, once that is over or was told to end: what still comes from
    /// there counts no more, while a newer attempt may run.
    pub(crate) fn stale_attempt_of(&self, id: &SessionId) -> Result<Option<AttemptId>> {
        let Some(attempt) = self.session(id)?.and_then(|session| session.attempt_id) else {
            return Ok(None);
        };
        let state = self.attempt(&attempt)?.map(|attempt| attempt.state);
        let counts = state.is_some_and(|state| state.may_act());
        Ok((!counts).then_some(attempt))
    }

    /// Agents that are meant to run and have no session.
    pub fn agents_to_restore(&self) -> Result<Vec<Agent>> {
        let agents = self.agents(None)?;
        Ok(agents
            .into_iter()
            .filter(|agent| agent.wanted == Wanted::Running && !agent.state.status().is_live())
            .collect())
    }
}

/// Why a turn has no result, as its event says it.
#[derive(Clone, Debug)]
pub struct TurnFailed {
    /// The class.
    pub cause: &'static str,
    /// What happened.
    pub message: String,
}

/// The class of a failed start of a session that is for one attempt alone.
fn start_cause(code: Code) -> Cause {
    match code {
        Code::RuntimeNotInstalled
        | Code::RuntimeNotLoggedIn
        | Code::RuntimeCapabilityMissing
        | Code::RuntimeRefused => Cause::Refused,
        Code::RuntimeStartTimedOut => Cause::Transient,
        Code::RuntimeSessionEnded => Cause::Crashed,
        Code::ProjectInvalidRoot => Cause::InvalidRoot,
        Code::WorkspaceUnavailable | Code::WorkspaceUnowned => Cause::WorkspaceUnavailable,
        _ => Cause::Error,
    }
}

fn interrupted(message: &str) -> TurnFailed {
    TurnFailed { cause: "interrupted", message: message.to_owned() }
}

fn lost_with_the_core() -> Error {
    Error::new(
        Code::RuntimeSessionEnded,
        "Cortex went down while a turn ran; how far it came is not known",
    )
}

/// What comes from a session that no longer counts changes nothing.
fn stale_is_fine(result: Result<Agent>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.code(), Code::AgentStateConflict | Code::AgentNotFound) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
