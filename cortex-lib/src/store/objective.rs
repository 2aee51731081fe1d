//! Objectives, and the one door of their flow.

use serde_json::json;

use super::column::{Json, count, json};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::event::EventKind;
use crate::domain::objective::{FlowInput, FlowState, ObjectiveStatus};
use crate::domain::{Machine as _, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{ObjectiveId, ProjectId, ProposalId};
use crate::time::Timestamp;

/// An objective as it is stored. Its status is derived from its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// The objective.
    pub id: ObjectiveId,
    /// The project it is for.
    pub project_id: ProjectId,
    /// Its title.
    pub title: String,
    /// The proposal that it was made from.
    pub proposal_id: Option<ProposalId>,
    /// Whether its tasks may start.
    pub flow: FlowState,
    /// Raised by every pause, resume and cancel.
    pub generation: u32,
    /// When its flow last changed.
    pub changed_at: Timestamp,
    /// Who changed it.
    pub changed_by: String,
    /// Who created it.
    pub created_by: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last task ended.
    pub ended_at: Option<Timestamp>,
}

const COLUMNS: &str = "objective_id, project_id, title, proposal_id, flow, generation, changed_at, changed_by, created_by, created_at, ended_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Objective> {
    Ok(Objective {
        id: row.get("objective_id")?,
        project_id: row.get("project_id")?,
        title: row.get("title")?,
        proposal_id: row.get("proposal_id")?,
        flow: json(row, "flow")?,
        generation: count(row, "generation")?,
        changed_at: row.get("changed_at")?,
        changed_by: row.get("changed_by")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        ended_at: row.get("ended_at")?,
    })
}

impl ReadTx<'_> {
    /// Every objective that has not ended and the newest `ended_max` that have, oldest first.
    pub fn objectives(
        &self,
        project: Option<&ProjectId>,
        ended_max: usize,
    ) -> Result<Vec<Objective>> {
        let query = format!(
            "SELECT {COLUMNS} FROM objective
             WHERE (?1 IS NULL OR project_id = ?1)
               AND (ended_at IS NULL
                    OR objective_id IN (SELECT objective_id FROM objective WHERE ended_at IS NOT NULL AND (?1 IS NULL OR project_id = ?1)
                                        ORDER BY ended_at DESC, objective_id DESC LIMIT ?2))
               AND project_id IN (SELECT project_id FROM project WHERE removed_at IS NULL)
             ORDER BY created_at, objective_id"
        );
        let max = i64::try_from(ended_max).unwrap_or(i64::MAX);
        self.rows(&query, (project, max), from_row)
    }

    /// How many objectives of a project have ended, or of all that are listed.
    pub fn ended_objective_count(&self, project: Option<&ProjectId>) -> Result<u64> {
        let query = "SELECT count(*) FROM objective
             WHERE ended_at IS NOT NULL AND (?1 IS NULL OR project_id = ?1)
               AND project_id IN (SELECT project_id FROM project WHERE removed_at IS NULL)";
        let count: Option<i64> = self.row(query, [project], |row| row.only())?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Objectives that have not ended, oldest first.
    pub fn open_objectives(&self) -> Result<Vec<Objective>> {
        // A query of its own, for every wake of the engine: it must not cost more with the years.
        let query = format!(
            "SELECT {COLUMNS} FROM objective WHERE ended_at IS NULL ORDER BY created_at, objective_id"
        );
        self.rows(&query, (), from_row)
    }

    /// One objective.
    ///
    /// # Errors
    ///
    /// `objective.not_found`.
    pub fn objective(&self, id: &ObjectiveId) -> Result<Objective> {
        let query = format!("SELECT {COLUMNS} FROM objective WHERE objective_id = ?1");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::ObjectiveNotFound, format!("there is no objective {id}"))
                .with("objective_id", id.as_str())
        })
    }
}

impl WriteTx<'_> {
    /// Creates an objective. Its tasks follow in the same transaction.
    pub(crate) fn insert_objective(&mut self, objective: &Objective) -> Result<()> {
        let query = "INSERT INTO objective (objective_id, project_id, title, proposal_id, flow, generation, changed_at, changed_by, created_by, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        self.execute(
            query,
            (
                &objective.id,
                &objective.project_id,
                &objective.title,
                &objective.proposal_id,
                Json(objective.flow),
                objective.generation,
                objective.changed_at,
                &objective.changed_by,
                &objective.created_by,
                objective.created_at,
            ),
        )?;
        self.tell_objective(
            EventKind::ObjectiveCreated,
            objective,
            json!({ "title": objective.title }),
        )
    }

    /// The one door of an objective's flow. Returns whether something was decided: then, and only then, the
    /// generation is raised (S-151).
    pub(crate) fn step_objective(
        &mut self,
        id: &ObjectiveId,
        input: FlowInput,
        by: &str,
        reason: Option<&str>,
    ) -> Result<(Objective, bool)> {
        let mut objective = self.objective(id)?;
        let next = match objective.flow.step(input) {
            Ok(Step::To(next)) => next,
            // A flow that runs stays as it is; its tasks do not.
            Ok(Step::Stay) if input == FlowInput::Cancel => objective.flow,
            Ok(Step::Stay) | Err(_) => return Ok((objective, false)),
        };
        objective.flow = next;
        objective.generation = objective.generation.saturating_add(1);
        (objective.changed_at, objective.changed_by) = (self.now(), by.to_owned());
        let query = "UPDATE objective SET flow = ?2, generation = ?3, changed_at = ?4, changed_by = ?5 WHERE objective_id = ?1";
        self.execute(
            query,
            (id, Json(objective.flow), objective.generation, objective.changed_at, by),
        )?;
        let kind = match input {
            FlowInput::Pause(_) => EventKind::ObjectivePaused,
            FlowInput::Resume | FlowInput::Ended => EventKind::ObjectiveResumed,
            FlowInput::Cancel => EventKind::ObjectiveCancelled,
        };
        let data = json!({
            "flow": objective.flow, "generation": objective.generation, "by": by, "reason": reason,
        });
        self.tell_objective(kind, &objective, data)?;
        Ok((objective, true))
    }

    /// Notes that an objective's last task ended.
    pub(crate) fn end_objective(
        &mut self,
        objective: &Objective,
        status: ObjectiveStatus,
    ) -> Result<()> {
        let now = self.now();
        self.execute(
            "UPDATE objective SET ended_at = ?2 WHERE objective_id = ?1",
            (&objective.id, now),
        )?;
        self.tell_objective(
            EventKind::ObjectiveEnded,
            objective,
            json!({ "status": status, "title": objective.title }),
        )
    }

    fn tell_objective(
        &mut self,
        kind: EventKind,
        objective: &Objective,
        mut data: serde_json::Value,
    ) -> Result<()> {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("objective_id".to_owned(), json!(objective.id));
        }
        self.emit(NewEvent {
            kind,
            project_id: Some(objective.project_id.clone()),
            agent_id: None,
            data,
        })
    }
}
