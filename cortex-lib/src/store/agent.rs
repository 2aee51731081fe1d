//! Agents, and the one door of their state.

use rusqlite::named_params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::column::{Json, json, json_or_none, word};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::agent::{AgentInput, AgentState, Interaction, Role, Wanted};
use crate::domain::event::EventKind;
use crate::domain::text::reason;
use crate::domain::usage::Usage;
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, CorrelationId, ProjectId, RuntimeId};
use crate::time::Timestamp;

/// An agent as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// The agent.
    pub id: AgentId,
    /// The project it works in.
    pub project_id: ProjectId,
    /// Unique in its project.
    pub name: String,
    /// What it runs on.
    pub runtime_id: RuntimeId,
    /// The model, when one is named.
    pub model: Option<String>,
    /// What it may be.
    pub role: Role,
    /// How it is talked to.
    pub interaction: Interaction,
    /// What is appended to the runtime's system prompt.
    pub instructions: Option<String>,
    /// Whether it gets skills.
    pub skills: bool,
    /// Where it stands.
    pub state: AgentState,
    /// Whether it is meant to run.
    pub wanted: Wanted,
    /// Why it last failed.
    pub last_failure: Option<LastFailure>,
    /// The native session that it can go on with.
    pub native_session_id: Option<String>,
    /// What all its turns used.
    pub usage: Usage,
    /// Since when it has nothing to do.
    pub idle_since: Timestamp,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Why an agent last failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LastFailure {
    /// The stable reason.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// What to do next.
    pub remediation: String,
    /// Ties it to the log.
    pub correlation_id: CorrelationId,
    /// When.
    pub at: Timestamp,
}

/// Why an agent's state changes: what its event says, and what its row keeps.
#[derive(Clone, Debug)]
pub enum Why {
    /// Nothing went wrong.
    Because(&'static str),
    /// Something did.
    Failed(Error),
}

const COLUMNS: &str = "agent_id, project_id, name, runtime_id, model, role, interaction, instructions, skills, state, \
                       wanted, last_failure, native_session_id, usage, idle_since, created_at, updated_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Agent> {
    Ok(Agent {
        id: row.get("agent_id")?,
        project_id: row.get("project_id")?,
        name: row.get("name")?,
        runtime_id: row.get("runtime_id")?,
        model: row.get("model")?,
        role: word(row, "role")?,
        interaction: word(row, "interaction")?,
        instructions: row.get("instructions")?,
        skills: row.get("skills")?,
        state: json(row, "state")?,
        wanted: word(row, "wanted")?,
        last_failure: json_or_none(row, "last_failure")?,
        native_session_id: row.get("native_session_id")?,
        usage: json(row, "usage")?,
        idle_since: row.get("idle_since")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

impl ReadTx<'_> {
    /// Agents of a project, or all, oldest first.
    pub fn agents(&self, project: Option<&ProjectId>) -> Result<Vec<Agent>> {
        // Two queries: SQLite would prepare one with `?1 IS NULL OR` anew for every look.
        let of_project = if project.is_some() { "AND project_id = ?1" } else { "" };
        let query = format!(
            "SELECT {COLUMNS} FROM agent WHERE removed_at IS NULL {of_project} ORDER BY created_at, agent_id"
        );
        self.rows(&query, rusqlite::params_from_iter(project), from_row)
    }

    /// Agents whose session is being opened or ended, oldest first: the only ones to which the world owes something.
    pub fn agents_in_motion(&self) -> Result<Vec<Agent>> {
        let query = format!(
            "SELECT {COLUMNS} FROM agent WHERE status IN ('STARTING', 'STOPPING') AND removed_at IS NULL
             ORDER BY created_at, agent_id"
        );
        self.rows(&query, [], from_row)
    }

    /// One agent.
    ///
    /// # Errors
    ///
    /// `agent.not_found`.
    pub fn agent(&self, id: &AgentId) -> Result<Agent> {
        let query =
            format!("SELECT {COLUMNS} FROM agent WHERE agent_id = ?1 AND removed_at IS NULL");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::AgentNotFound, format!("there is no agent {id}"))
                .with("agent_id", id.as_str())
        })
    }

    /// The name of an agent, also of a removed one.
    pub fn agent_name(&self, id: &AgentId) -> Result<Option<String>> {
        self.row("SELECT name FROM agent WHERE agent_id = ?1", [id], |row| row.only())
    }
}

impl WriteTx<'_> {
    /// Creates an agent.
    ///
    /// # Errors
    ///
    /// `agent.name_taken`.
    pub fn insert_agent(&mut self, agent: &Agent) -> Result<()> {
        self.check_agent_name(agent)?;
        self.execute("INSERT INTO agent (agent_id, project_id, name, runtime_id, model, role, interaction, instructions, skills,
                                    state, status, wanted, usage, idle_since, created_at, updated_at)
                 VALUES (:id, :project, :name, :runtime, :model, :role ->> '$', :interaction ->> '$', :instructions, :skills,
                         :state, :status, :wanted ->> '$', :usage, :idle, :created, :updated)", named_params! {
                ":id": agent.id,
                ":project": agent.project_id,
                ":name": agent.name,
                ":runtime": agent.runtime_id,
                ":model": agent.model,
                ":role": Json(agent.role),
                ":interaction": Json(agent.interaction),
                ":instructions": agent.instructions,
                ":skills": agent.skills,
                ":state": Json(&agent.state),
                ":status": agent.state.status().as_str(),
                ":wanted": Json(agent.wanted),
                ":usage": Json(agent.usage),
                ":idle": agent.idle_since,
                ":created": agent.created_at,
                ":updated": agent.updated_at,
            })?;
        let data =
            json!({ "name": agent.name, "runtime_id": agent.runtime_id, "role": agent.role });
        self.tell_agent(EventKind::AgentCreated, agent, data)
    }

    /// Stores what a person changed about an agent.
    ///
    /// # Errors
    ///
    /// `agent.name_taken`.
    pub fn update_agent(&mut self, agent: &Agent) -> Result<()> {
        self.check_agent_name(agent)?;
        let now = self.now();
        self.execute("UPDATE agent SET name = :name, runtime_id = :runtime, model = :model, instructions = :instructions,
                                  skills = :skills, native_session_id = :native, updated_at = :now
                 WHERE agent_id = :id", named_params! {
                ":id": agent.id,
                ":name": agent.name,
                ":runtime": agent.runtime_id,
                ":model": agent.model,
                ":instructions": agent.instructions,
                ":skills": agent.skills,
                ":native": agent.native_session_id,
                ":now": now,
            })?;
        self.tell_agent(
            EventKind::AgentUpdated,
            agent,
            json!({ "name": agent.name, "runtime_id": agent.runtime_id }),
        )
    }

    /// Takes an agent off the lists and frees its name. Its history stays.
    pub fn remove_agent(&mut self, agent: &Agent) -> Result<()> {
        let now = self.now();
        self.execute("UPDATE agent SET removed_at = ?2 WHERE agent_id = ?1", (&agent.id, now))?;
        self.tell_agent(EventKind::AgentRemoved, agent, json!({ "name": agent.name }))
    }

    /// Adds what a turn used.
    pub fn add_agent_usage(&mut self, id: &AgentId, used: Usage) -> Result<()> {
        if used.is_empty() {
            return Ok(());
        }
        let usage = self.agent(id)?.usage.plus(used);
        self.execute("UPDATE agent SET usage = ?2 WHERE agent_id = ?1", (id, Json(usage)))
    }

    /// The one door of an agent's state.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `agent.state_conflict`.
    #[expect(clippy::needless_pass_by_value, reason = "an input is spent by the step it makes")]
    pub(crate) fn step_agent(
        &mut self,
        id: &AgentId,
        input: AgentInput,
        why: &Why,
    ) -> Result<Agent> {
        let mut agent = self.agent(id)?;
        let next = match agent.state.step(input.clone()) {
            Ok(Step::To(next)) => next,
            Ok(Step::Stay) => return self.keep_down(agent, &input),
            Err(refusal) => return Err(conflict(&agent, &input, refusal)),
        };
        let (from, to, now) = (agent.state.status(), next.status(), self.now());
        agent.wanted = match input {
            AgentInput::Start(_) => Wanted::Running,
            AgentInput::Stop | AgentInput::OpenFailed(_) => Wanted::Stopped,
            _ => agent.wanted,
        };
        agent.last_failure = match why {
            Why::Failed(error) => Some(self.last_failure(error, now)),
            Why::Because(_) if matches!(input, AgentInput::Opened(_)) => None,
            Why::Because(_) => agent.last_failure,
        };
        if to.is_live() && next.direct_turn().is_none() {
            agent.idle_since = now;
        }
        (agent.state, agent.updated_at) = (next, now);
        self.execute("UPDATE agent SET state = :state, status = :status, wanted = :wanted ->> '$', last_failure = :failure,
                                  idle_since = :idle, updated_at = :now
                 WHERE agent_id = :id", named_params! {
                ":id": agent.id,
                ":state": Json(&agent.state),
                ":status": to.as_str(),
                ":wanted": Json(agent.wanted),
                ":failure": agent.last_failure.as_ref().map(Json),
                ":idle": agent.idle_since,
                ":now": now,
            })?;
        if from != to {
            let why = match why {
                Why::Because(word) => (*word).to_owned(),
                Why::Failed(error) => reason(error.message()),
            };
            self.tell_agent(
                EventKind::AgentStateChanged,
                &agent,
                json!({ "from": from, "to": to, "reason": why }),
            )?;
        }
        Ok(agent)
    }

    /// What a person stops stays down, also when it is down already or on its way there to come back.
    fn keep_down(&self, mut agent: Agent, input: &AgentInput) -> Result<Agent> {
        if *input == AgentInput::Stop && agent.wanted != Wanted::Stopped {
            agent.wanted = Wanted::Stopped;
            let query = "UPDATE agent SET wanted = ?2 ->> '$' WHERE agent_id = ?1";
            self.execute(query, (&agent.id, Json(agent.wanted)))?;
        }
        Ok(agent)
    }

    fn last_failure(&self, error: &Error, at: Timestamp) -> LastFailure {
        LastFailure {
            code: error.code(),
            message: reason(error.message()),
            remediation: error.remediation().to_owned(),
            correlation_id: error
                .correlation_id()
                .cloned()
                .unwrap_or_else(|| CorrelationId::new(self.env().mint())),
            at,
        }
    }

    fn check_agent_name(&self, agent: &Agent) -> Result<()> {
        let taken: Option<AgentId> = self.row(
            "SELECT agent_id FROM agent WHERE project_id = ?1 AND name = ?2 AND removed_at IS NULL",
            (&agent.project_id, &agent.name),
            |row| row.only(),
        )?;
        match taken {
            Some(id) if id != agent.id => {
                let message = format!("agent {id} of this project has the name {:?}", agent.name);
                Err(Error::new(Code::AgentNameTaken, message).with("agent_id", id.as_str()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn tell_agent(
        &mut self,
        kind: EventKind,
        agent: &Agent,
        data: serde_json::Value,
    ) -> Result<()> {
        self.emit(NewEvent {
            kind,
            project_id: Some(agent.project_id.clone()),
            agent_id: Some(agent.id.clone()),
            data,
        })
    }
}

fn conflict(agent: &Agent, input: &AgentInput, refusal: Refusal) -> Error {
    let status = agent.state.status();
    let what = match (refusal, input) {
        (Refusal::Stale, _) => "that session is over",
        (_, AgentInput::Start(_)) => "it cannot be started now",
        (_, AgentInput::BeginTurn(_)) => "it takes no message now",
        (_, AgentInput::Pause) => "it cannot be paused now",
        (_, AgentInput::Resume) => "it cannot be resumed now",
        (_, _) => "its state forbids that",
    };
    let remedy = match (input, status.is_live()) {
        (AgentInput::Start(_), true) if status == crate::domain::agent::AgentStatus::Paused => {
            "Resume it."
        }
        (AgentInput::Start(_), _) => "Wait until it has stopped, then start it.",
        (AgentInput::BeginTurn(_) | AgentInput::Pause, false) => "Start it first.",
        (AgentInput::BeginTurn(_), true) => {
            "Wait until it is READY; cancel_task ends the task it runs."
        }
        (_, _) => Code::AgentStateConflict.remedy(),
    };
    Error::new(
        Code::AgentStateConflict,
        format!("agent {} is {}: {what}", agent.name, status.as_str()),
    )
    .remedy(remedy)
    .with("agent_id", agent.id.as_str())
    .with("state", status.as_str())
}
