//! Asking the planner: the way from a goal to a plan that holds.

use super::Granted;
use crate::domain::planned::{self, Asked};
use crate::domain::planning;
use crate::domain::proposal::ProposalSource;
use crate::domain::proposed::ProposedPlan;
use crate::error::Result;
use crate::ids::ProjectId;

impl Granted<'_> {
    /// Lets the planner split a goal. Nothing is written; a turn is spent. Who drops this ends the turn.
    pub(super) async fn ask_planner(
        self,
        project_id: &ProjectId,
        goal: &str,
        asked: Asked,
    ) -> Result<(ProposedPlan, ProposalSource)> {
        let core = self.core();
        let project = core.store().read(|tx| self.project(tx, project_id))?;
        let answer = core.plan_turn(project, planning::instruction(goal, asked)).await?;
        let plan = planned::read(&answer.text, asked)?;
        let source = ProposalSource::Planner { runtime_id: answer.runtime_id, model: answer.model };
        Ok((plan, source))
    }
}
