//! Proposed plans, one row for each revision, and the one door of their state.

use rusqlite::named_params;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::column::{Json, count, json, json_or_none};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::event::EventKind;
use crate::domain::proposal::{ProposalInput, ProposalSource, ProposalState, ProposalStatus};
use crate::domain::proposed::ProposedPlan;
use crate::domain::{Machine as _, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{ProjectId, ProposalId};
use crate::limits::{PROPOSALS_DECIDED_KEPT, PROPOSALS_PENDING_MAX};
use crate::time::Timestamp;

/// One revision of a proposed plan as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The revision.
    pub id: ProposalId,
    /// The first revision of the same plan; itself when it is the first.
    pub first_id: ProposalId,
    /// 1 for the first.
    pub revision: u32,
    /// The project it is for.
    pub project_id: ProjectId,
    /// What was asked for.
    pub goal: String,
    /// Who wrote it.
    pub source: ProposalSource,
    /// The revision that was edited.
    pub previous: Option<ProposalId>,
    /// The plan.
    pub plan: ProposedPlan,
    /// Where it stands.
    pub state: ProposalState,
    /// Who ended its wait, when and why.
    pub resolution: Option<Resolution>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How the wait of a proposal ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// Who decided.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why, when a reason was given.
    pub reason: Option<String>,
}

const COLUMNS: &str = "proposal_id, first_id, revision, project_id, goal, source, previous, plan, state, resolution, created_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Proposal> {
    Ok(Proposal {
        id: row.get("proposal_id")?,
        first_id: row.get("first_id")?,
        revision: count(row, "revision")?,
        project_id: row.get("project_id")?,
        goal: row.get("goal")?,
        source: json(row, "source")?,
        previous: row.get("previous")?,
        plan: json(row, "plan")?,
        state: json(row, "state")?,
        resolution: json_or_none(row, "resolution")?,
        created_at: row.get("created_at")?,
    })
}

impl ReadTx<'_> {
    /// Every revision that is kept, oldest first.
    pub fn proposals(
        &self,
        project: Option<&ProjectId>,
        status: Option<ProposalStatus>,
    ) -> Result<Vec<Proposal>> {
        let query = format!(
            "SELECT {COLUMNS} FROM proposal
             WHERE (?1 IS NULL OR project_id = ?1) AND (?2 IS NULL OR status = ?2) ORDER BY nth"
        );
        self.rows(&query, (project, status.map(ProposalStatus::as_str)), from_row)
    }

    /// One revision.
    ///
    /// # Errors
    ///
    /// `proposal.not_found`.
    pub fn proposal(&self, id: &ProposalId) -> Result<Proposal> {
        let query = format!("SELECT {COLUMNS} FROM proposal WHERE proposal_id = ?1");
        self.row(&query, [id], from_row)?.ok_or_else(|| {
            Error::new(Code::ProposalNotFound, format!("there is no proposal {id}"))
                .with("proposal_id", id.as_str())
        })
    }

    /// Whether one more proposal may wait for a decision. All projects share the room.
    ///
    /// # Errors
    ///
    /// `proposal.too_many_pending`.
    pub fn check_room_for_proposal(&self) -> Result<()> {
        let query = "SELECT count(*) AS waiting FROM proposal WHERE status = 'pending'";
        let waiting = self.row(query, [], |row| count(row, "waiting"))?.unwrap_or(0);
        if usize::try_from(waiting).is_ok_and(|waiting| waiting < PROPOSALS_PENDING_MAX) {
            return Ok(());
        }
        Err(Error::new(
            Code::ProposalTooManyPending,
            format!("{waiting} proposals wait for a decision, and no more may"),
        ))
    }

    /// Why nothing can be decided about this revision any more, if that is so.
    ///
    /// # Errors
    ///
    /// `proposal.superseded`, naming the newest revision; `proposal.already_decided`, naming the objective that
    /// was made of it.
    pub fn check_undecided(&self, proposal: &Proposal) -> Result<()> {
        let id = &proposal.id;
        let error = match &proposal.state {
            ProposalState::Pending => return Ok(()),
            ProposalState::Superseded { by } => {
                let newest = self.newest_revision(&proposal.first_id)?;
                let newest = newest.as_ref().unwrap_or(by);
                let message = format!("proposal {id} was edited; {newest} is its newest revision");
                Error::new(Code::ProposalSuperseded, message)
                    .with("newest_proposal_id", newest.as_str())
            }
            ProposalState::Approved { objective } => {
                let message =
                    format!("proposal {id} was approved and became objective {objective}");
                Error::new(Code::ProposalAlreadyDecided, message)
                    .remedy("Look at the named objective; cancel it if you do not want it.")
                    .with("objective_id", objective.as_str())
            }
            ProposalState::Rejected => {
                Error::new(Code::ProposalAlreadyDecided, format!("proposal {id} was rejected"))
            }
        };
        Err(error.with("proposal_id", id.as_str()))
    }

    fn newest_revision(&self, first: &ProposalId) -> Result<Option<ProposalId>> {
        let query =
            "SELECT proposal_id FROM proposal WHERE first_id = ?1 ORDER BY revision DESC LIMIT 1";
        self.row(query, [first], |row| row.get("proposal_id"))
    }
}

/// What an event tells of a decision.
fn news(next: &ProposalState, resolution: &Resolution) -> Result<(EventKind, serde_json::Value)> {
    let by = &resolution.by;
    Ok(match next {
        ProposalState::Superseded { by: newer } => {
            (EventKind::ProposalSuperseded, json!({ "superseded_by": newer, "by": by }))
        }
        ProposalState::Approved { objective } => {
            (EventKind::ProposalApproved, json!({ "objective_id": objective, "by": by }))
        }
        ProposalState::Rejected => {
            (EventKind::ProposalRejected, json!({ "reason": resolution.reason, "by": by }))
        }
        ProposalState::Pending => {
            return Err(Error::new(Code::Defect, "a decision left a proposal pending"));
        }
    })
}

impl WriteTx<'_> {
    /// Keeps a revision that waits for a decision.
    pub fn insert_proposal(&mut self, proposal: &Proposal) -> Result<()> {
        let query = "INSERT INTO proposal (proposal_id, first_id, revision, project_id, goal, source, previous, plan, state, status, created_at)
                     VALUES (:id, :first_id, :revision, :project_id, :goal, :source, :previous, :plan, :state, :status, :created_at)";
        self.execute(
            query,
            named_params! {
                ":id": proposal.id,
                ":first_id": proposal.first_id,
                ":revision": proposal.revision,
                ":project_id": proposal.project_id,
                ":goal": proposal.goal,
                ":source": Json(&proposal.source),
                ":previous": proposal.previous,
                ":plan": Json(&proposal.plan),
                ":state": Json(&proposal.state),
                ":status": proposal.state.status().as_str(),
                ":created_at": proposal.created_at,
            },
        )?;
        let data = json!({
            "revision": proposal.revision,
            "title": proposal.plan.title,
            "previous": proposal.previous,
        });
        self.tell_proposal(EventKind::ProposalCreated, proposal, data)
    }

    /// The one door of a proposal's state. What is decided for long makes room for what it decides now.
    ///
    /// # Errors
    ///
    /// `proposal.not_found`, and those of [`ReadTx::check_undecided`].
    pub(crate) fn step_proposal(
        &mut self,
        id: &ProposalId,
        input: ProposalInput,
        by: &str,
        reason: Option<String>,
    ) -> Result<Proposal> {
        let mut proposal = self.proposal(id)?;
        let Ok(Step::To(next)) = proposal.state.step(input) else {
            self.check_undecided(&proposal)?;
            return Err(Error::new(Code::Defect, format!("proposal {id} refuses a decision")));
        };
        let resolution = Resolution { by: by.to_owned(), at: self.now(), reason };
        let (kind, data) = news(&next, &resolution)?;
        let (status, decided) = (next.status(), next.status().is_decided());
        self.execute(
            "UPDATE proposal SET state = ?2, status = ?3, resolution = ?4,
                 decided = CASE WHEN ?5 THEN (SELECT coalesce(max(decided), 0) + 1 FROM proposal) END
             WHERE proposal_id = ?1",
            (id, Json(&next), status.as_str(), Json(&resolution), decided),
        )?;
        if decided {
            self.prune_proposals()?;
        }
        (proposal.state, proposal.resolution) = (next, Some(resolution));
        self.tell_proposal(kind, &proposal, data)?;
        Ok(proposal)
    }

    /// Drops the oldest decided plans beyond those that are kept, each with all its revisions.
    fn prune_proposals(&self) -> Result<()> {
        let kept = i64::try_from(PROPOSALS_DECIDED_KEPT).unwrap_or(i64::MAX);
        self.execute(
            "DELETE FROM proposal WHERE first_id IN
                 (SELECT first_id FROM proposal WHERE decided IS NOT NULL
                  ORDER BY decided DESC LIMIT -1 OFFSET ?1)",
            [kept],
        )
    }

    fn tell_proposal(
        &mut self,
        kind: EventKind,
        proposal: &Proposal,
        mut data: serde_json::Value,
    ) -> Result<()> {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("proposal_id".to_owned(), json!(proposal.id));
        }
        let project_id = Some(proposal.project_id.clone());
        self.emit(NewEvent { kind, project_id, agent_id: None, data })
    }
}
