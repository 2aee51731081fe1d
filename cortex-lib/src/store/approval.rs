//! Tool requests of agents, and the one door of their state.

use std::path::PathBuf;

use rusqlite::named_params;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde_json::{Value, json};

use super::column::{Json, json, json_or_none};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::approval::{
    Answers, ApprovalInput, ApprovalState, ApprovalStatus, DecidedBy, Question,
};
use crate::domain::event::EventKind;
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, ApprovalId, AttemptId, ProjectId, SessionId, TaskId, TurnId};
use crate::limits::APPROVALS_KEPT;
use crate::time::Timestamp;

/// A tool that an agent wanted to use, or what it asked its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The request.
    pub id: ApprovalId,
    /// The project of the agent.
    pub project_id: ProjectId,
    /// Who asks.
    pub agent_id: AgentId,
    /// In which session.
    pub session_id: SessionId,
    /// In which turn.
    pub turn_id: TurnId,
    /// The attempt that the turn runs; none: a person sent it directly.
    pub attempt_id: Option<AttemptId>,
    /// Its task.
    pub task_id: Option<TaskId>,
    /// The runtime's name of the request.
    pub request_id: String,
    /// The tool, by the runtime's name.
    pub tool: String,
    /// The tool of Cortex that it is.
    pub of_cortex: Option<String>,
    /// What it would do, in one line.
    pub summary: String,
    /// Its arguments, without secrets and cut.
    pub input: Value,
    /// Whether something of the arguments is missing.
    pub truncated: bool,
    /// The folder that the agent works in.
    pub cwd: PathBuf,
    /// What the agent asks its user.
    pub questions: Vec<Question>,
    /// What a person answered.
    pub answers: Option<Answers>,
    /// Where it stands.
    pub state: ApprovalState,
    /// Who decided.
    pub decided_by: Option<DecidedBy>,
    /// Why.
    pub reason: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it was decided, or ended undecided.
    pub decided_at: Option<Timestamp>,
    /// When it is denied because nobody answered, by the steady clock.
    pub due_at: Option<Timestamp>,
}

/// A decision, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Who decided; none: nobody.
    pub by: Option<DecidedBy>,
    /// Why.
    pub reason: Option<String>,
    /// What was answered.
    pub answers: Option<Answers>,
}

/// Which tool requests are asked for. What it leaves out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// In this state.
    pub status: Option<ApprovalStatus>,
}

const COLUMNS: &str = "approval_id, project_id, agent_id, session_id, turn_id, attempt_id, task_id, request_id, tool, of_cortex, \
                       summary, input, truncated, cwd, questions, answers, state, decided_by, reason, created_at, decided_at, due_at";

impl ToSql for DecidedBy {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

impl FromSql for DecidedBy {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::parse(text)
            .ok_or_else(|| FromSqlError::Other(format!("nobody decides as {text}").into()))
    }
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    Ok(Approval {
        id: row.get("approval_id")?,
        project_id: row.get("project_id")?,
        agent_id: row.get("agent_id")?,
        session_id: row.get("session_id")?,
        turn_id: row.get("turn_id")?,
        attempt_id: row.get("attempt_id")?,
        task_id: row.get("task_id")?,
        request_id: row.get("request_id")?,
        tool: row.get("tool")?,
        of_cortex: row.get("of_cortex")?,
        summary: row.get("summary")?,
        input: json(row, "input")?,
        truncated: row.get("truncated")?,
        cwd: PathBuf::from(row.get::<String>("cwd")?),
        questions: json(row, "questions")?,
        answers: json_or_none(row, "answers")?,
        state: json(row, "state")?,
        decided_by: row.get("decided_by")?,
        reason: row.get("reason")?,
        created_at: row.get("created_at")?,
        decided_at: row.get("decided_at")?,
        due_at: row.get("due_at")?,
    })
}

impl ReadTx<'_> {
    /// One tool request.
    ///
    /// # Errors
    ///
    /// `approval.not_found`.
    pub fn approval(&self, id: &ApprovalId) -> Result<Approval> {
        let query = format!("SELECT {COLUMNS} FROM approval WHERE approval_id = ?1");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::ApprovalNotFound, format!("there is no approval {id}"))
                .with("approval_id", id.as_str())
        })
    }

    /// The tool requests that a filter asks for, at most `limit`: those that wait first, then the newest first.
    pub fn approvals(&self, filter: &ApprovalFilter, limit: u32) -> Result<Vec<Approval>> {
        let query = format!(
            "SELECT {COLUMNS} FROM approval
             WHERE (:project IS NULL OR project_id = :project) AND (:agent IS NULL OR agent_id = :agent)
               AND (:status IS NULL OR status = :status)
             ORDER BY status = 'pending' DESC, nth DESC LIMIT :limit"
        );
        let status = filter.status.map(ApprovalStatus::as_str);
        self.rows(
            &query,
            named_params! {
                ":project": filter.project, ":agent": filter.agent, ":status": status, ":limit": limit,
            },
            from_row,
        )
    }

    /// The tool requests to which something can still happen, in the order in which they came. The engine looks at them
    /// at every wake.
    pub fn open_approvals(&self) -> Result<Vec<Approval>> {
        let query = format!("SELECT {COLUMNS} FROM approval WHERE open = 1 ORDER BY nth");
        self.rows(&query, [], from_row)
    }
}

impl WriteTx<'_> {
    /// Keeps a tool request: one that waits, or one that is decided with it.
    pub(crate) fn insert_approval(&mut self, approval: &Approval) -> Result<()> {
        self.execute("INSERT INTO approval (approval_id, project_id, agent_id, session_id, turn_id, attempt_id, task_id, request_id, tool, of_cortex,
                                       summary, input, truncated, cwd, questions, state, status, open, decided_by, reason, created_at, decided_at, due_at)
                 VALUES (:id, :project, :agent, :session, :turn, :attempt, :task, :request, :tool, :of_cortex,
                         :summary, :input, :truncated, :cwd, :questions, :state, :status, :open, :by, :reason, :created, :decided, :due)", named_params! {
                ":id": approval.id,
                ":project": approval.project_id,
                ":agent": approval.agent_id,
                ":session": approval.session_id,
                ":turn": approval.turn_id,
                ":attempt": approval.attempt_id,
                ":task": approval.task_id,
                ":request": approval.request_id,
                ":tool": approval.tool,
                ":of_cortex": approval.of_cortex,
                ":summary": approval.summary,
                ":input": Json(&approval.input),
                ":truncated": approval.truncated,
                ":cwd": approval.cwd.to_string_lossy(),
                ":questions": Json(&approval.questions),
                ":state": Json(approval.state),
                ":status": approval.state.status().as_str(),
                ":open": !approval.state.is_final(),
                ":by": approval.decided_by,
                ":reason": approval.reason,
                ":created": approval.created_at,
                ":decided": approval.decided_at,
                ":due": approval.due_at,
            })?;
        self.tell_approval(approval)
    }

    /// The one door of a tool request's state. Returns the request and whether its state changed.
    ///
    /// # Errors
    ///
    /// `approval.not_pending` when it is to be decided and was before, or ended undecided.
    pub(crate) fn step_approval(
        &mut self,
        mut approval: Approval,
        input: ApprovalInput,
        verdict: Verdict,
    ) -> Result<(Approval, bool)> {
        let before = approval.state.status();
        match approval.state.step(input) {
            Ok(Step::To(next)) => approval.state = next,
            Ok(Step::Stay) => return Ok((approval, false)),
            Err(Refusal::WrongState | Refusal::Stale) => return Err(not_pending(&approval)),
        }
        // What is told later about a decision does not change who made it.
        let decided = approval.state.status() != before;
        if decided {
            approval.decided_by = verdict.by;
            approval.reason = verdict.reason;
            approval.answers = verdict.answers;
            approval.decided_at = Some(self.now());
        }
        let query = "UPDATE approval SET state = ?2, status = ?3, open = ?4, decided_by = ?5, reason = ?6, answers = ?7, decided_at = ?8
                     WHERE approval_id = ?1";
        self.execute(
            query,
            (
                &approval.id,
                Json(approval.state),
                approval.state.status().as_str(),
                !approval.state.is_final(),
                &approval.decided_by,
                &approval.reason,
                approval.answers.as_ref().map(Json),
                approval.decided_at,
            ),
        )?;
        if decided {
            self.clear_timers_of(approval.id.as_str())?;
            self.tell_approval(&approval)?;
        }
        if approval.state.is_final() {
            self.forget_old_approvals()?;
        }
        Ok((approval, true))
    }

    /// Drops the oldest settled requests beyond those that are kept.
    fn forget_old_approvals(&self) -> Result<()> {
        let kept = i64::try_from(APPROVALS_KEPT).unwrap_or(i64::MAX);
        self.execute(
            "DELETE FROM approval WHERE open = 0 AND nth <=
                 (SELECT nth FROM approval WHERE open = 0 ORDER BY nth DESC LIMIT 1 OFFSET ?1)",
            [kept],
        )
    }

    /// Tells where a request stands. Its arguments are not in the event: they are long, and the row has them.
    fn tell_approval(&mut self, approval: &Approval) -> Result<()> {
        let mut data = json!({
            "approval_id": approval.id, "tool": approval.tool, "summary": approval.summary,
            "state": approval.state.status(), "turn_id": approval.turn_id,
        });
        let kind = match approval.state.status() {
            ApprovalStatus::Pending => EventKind::ApprovalRequested,
            ApprovalStatus::Allowed | ApprovalStatus::Denied => EventKind::ApprovalDecided,
            ApprovalStatus::Cancelled => EventKind::ApprovalCancelled,
            ApprovalStatus::Expired => EventKind::ApprovalExpired,
        };
        if let Some(fields) = data.as_object_mut() {
            let mut add = |name: &str, value: Value| {
                if !value.is_null() {
                    fields.insert(name.to_owned(), value);
                }
            };
            add("decided_by", json!(approval.decided_by));
            add("reason", json!(approval.reason));
            add("execution_id", json!(approval.attempt_id));
            add("task_id", json!(approval.task_id));
            add("due_at", json!(approval.due_at.filter(|_| kind == EventKind::ApprovalRequested)));
        }
        self.emit(NewEvent {
            kind,
            project_id: Some(approval.project_id.clone()),
            agent_id: Some(approval.agent_id.clone()),
            data,
        })
    }
}

/// Why nobody can decide about it any more.
fn not_pending(approval: &Approval) -> Error {
    let (id, status) = (&approval.id, approval.state.status().as_str());
    let by = approval.decided_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let why = approval.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Error::new(Code::ApprovalNotPending, format!("approval {id} is {status}{by}{why}"))
        .with("approval_id", id.as_str())
        .with("state", status)
}
