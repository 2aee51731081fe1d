//! The flow of an objective: what a pause, a resume and a cancellation mean for its tasks.

use super::{AttemptReport, Decided};
use crate::domain::attempt::{AttemptInput, EndReason};
use crate::domain::objective::{FlowInput, PausePolicy};
use crate::error::{Code, Error, Result};
use crate::ids::ObjectiveId;
use crate::settings::Settings;
use crate::store::{HoldRow, Objective, WriteTx};
use crate::time::Timestamp;

impl WriteTx<'_> {
    /// Pauses an objective: none of its tasks starts. With [`PausePolicy::Interrupt`] the turns that run are
    /// told to end and their tasks are READY again; a verification goes on in any case (H-27).
    ///
    /// # Errors
    ///
    /// `objective.not_found`, `objective.state_conflict` when every task has ended.
    pub fn pause_objective(
        &mut self,
        id: &ObjectiveId,
        policy: PausePolicy,
        decided: &Decided,
        settings: &Settings,
    ) -> Result<Objective> {
        let before = self.objective(id)?;
        if before.ended_at.is_some() {
            let message = format!("every task of objective {} has ended", before.title);
            return Err(Error::new(Code::ObjectiveStateConflict, message)
                .remedy("There is nothing left to pause; list_tasks shows how it ended.")
                .with("objective_id", id.as_str()));
        }
        let pause = FlowInput::Pause(policy);
        let reason = decided.reason.as_deref();
        let (objective, changed) = self.step_objective(id, pause, &decided.by, reason)?;
        if changed {
            self.edit_holds(id, HoldRow::paused)?;
            if policy == PausePolicy::Interrupt {
                self.interrupt_attempts(id, settings)?;
            }
        }
        Ok(objective)
    }

    /// Lets a paused objective go on. One that runs, or has ended, stays as it is.
    ///
    /// # Errors
    ///
    /// `objective.not_found`.
    pub fn resume_objective(&mut self, id: &ObjectiveId, by: &str) -> Result<Objective> {
        let (objective, changed) = self.step_objective(id, FlowInput::Resume, by, None)?;
        if changed {
            self.edit_holds(id, HoldRow::resumed)?;
        }
        Ok(objective)
    }

    /// Cancels every task of an objective that has not ended, and a pause with them. What runs is told to end.
    /// An objective with nothing left to cancel stays as it is.
    ///
    /// # Errors
    ///
    /// `objective.not_found`.
    pub fn cancel_objective(
        &mut self,
        id: &ObjectiveId,
        decided: &Decided,
        settings: &Settings,
    ) -> Result<Objective> {
        let before = self.objective(id)?;
        if before.ended_at.is_some() {
            return Ok(before);
        }
        // The flow first: its last task would end the pause once more, and one decision raises one generation.
        let reason = decided.reason.as_deref();
        self.step_objective(id, FlowInput::Cancel, &decided.by, reason)?;
        for task in self.tasks_of(id)? {
            if !task.state.phase.status().is_ended() {
                self.cancel_asked(&task.id, decided, settings)?;
            }
        }
        self.objective_moved(id)?;
        self.objective(id)
    }

    /// Stops or starts the clocks of what holds tasks back.
    fn edit_holds(
        &mut self,
        id: &ObjectiveId,
        edit: impl Fn(HoldRow, Timestamp) -> HoldRow,
    ) -> Result<()> {
        let steady = self.steady();
        for mut task in self.tasks_of(id)? {
            if let Some(hold) = task.hold.take() {
                task.hold = Some(edit(hold, steady));
                self.save_task(&task)?;
            }
        }
        Ok(())
    }

    /// Tells the attempts that run to end. One that is ending already or is verified goes on with that.
    fn interrupt_attempts(&mut self, id: &ObjectiveId, settings: &Settings) -> Result<()> {
        let paused = AttemptInput::End(EndReason::ObjectivePaused);
        for task in self.tasks_of(id)? {
            let last = self.last_attempt(&task.id)?;
            if let Some(attempt) = last.filter(|attempt| !attempt.state.is_over()) {
                self.attempt_input(&attempt.id, paused, &AttemptReport::default(), settings)?;
            }
        }
        Ok(())
    }
}
