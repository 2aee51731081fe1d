//! Worktrees: what attempts and decisions mean for them, and how the changes in them come to the project.

use std::path::Path;

use crate::domain::attempt::AttemptInput;
use crate::domain::task::TaskStatus;
use crate::domain::workspace::{self, ChangedFile, WorkspaceInput, WorkspaceState};
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, TaskId};
use crate::limits::CHANGED_FILES_MAX;
use crate::store::{
    Attempt, Decision, DecisionKind, Integration, Intent, ReadTx, Task, WorkspaceKind,
    WorkspaceRow, WriteTx,
};

/// A task whose changes may be brought into the project's folder.
#[derive(Clone, Debug)]
pub struct Integrable {
    /// The worktree of the attempt that completed it.
    pub workspace: WorkspaceRow,
    /// The commit that was verified or approved.
    pub commit: String,
    /// The commit that it was made on.
    pub base_commit: String,
}

impl ReadTx<'_> {
    /// What an integration of a task would bring.
    ///
    /// # Errors
    ///
    /// `task.not_found`; `task.state_conflict` unless it is COMPLETED, ran in a worktree of its own and was not
    /// integrated before.
    pub fn integrable(&self, id: &TaskId) -> Result<Integrable> {
        let task = self.task(id)?;
        let refuse = |why: &str| {
            Error::new(Code::TaskStateConflict, format!("task {} {why}", task.spec.key))
                .with("task_id", id.as_str())
                .with("status", task.state.phase.status().as_str())
        };
        if task.state.phase.status() != TaskStatus::Completed {
            return Err(refuse("has not completed")
                .remedy("Only a COMPLETED task can be integrated; approve or finish it first."));
        }
        let attempt = self.attempts_of(id)?.pop().ok_or_else(|| refuse("was never tried"))?;
        if attempt.workspace.kind != WorkspaceKind::Worktree {
            return Err(refuse("ran in the project's folder, so its changes are there already")
                .remedy("Nothing to do."));
        }
        if task.integration.is_some() {
            return Err(refuse("was integrated already").remedy("Nothing to do."));
        }
        let workspace = self.workspace(&attempt.id)?.ok_or_else(|| refuse("has no worktree"))?;
        match workspace.state {
            WorkspaceState::Naming | WorkspaceState::Named => {}
            WorkspaceState::Integrating => {
                return Err(refuse("is being integrated").remedy("Wait, then look at the task."));
            }
            WorkspaceState::Planned
            | WorkspaceState::Standing
            | WorkspaceState::Kept
            | WorkspaceState::Saving
            | WorkspaceState::LeftBehind
            | WorkspaceState::Removing
            | WorkspaceState::Removed
            | WorkspaceState::Unowned => return Err(refuse("has no worktree to integrate")),
        }
        let (commit, base) = (attempt.files.commit, attempt.workspace.base_commit);
        let (commit, base_commit) =
            commit.zip(base).ok_or_else(|| refuse("has no commit to integrate"))?;
        Ok(Integrable { workspace, commit, base_commit })
    }
}

impl WriteTx<'_> {
    /// Keeps the worktree that an attempt is to get, before it is made.
    pub(super) fn plan_workspace(
        &mut self,
        attempt: &Attempt,
        task: &Task,
        root: &Path,
    ) -> Result<()> {
        self.insert_workspace(&WorkspaceRow {
            attempt_id: attempt.id.clone(),
            task_id: task.id.clone(),
            project_id: task.project_id.clone(),
            root: root.to_owned(),
            path: attempt.workspace.path.clone(),
            state: WorkspaceState::Planned,
            intent: None,
            refusal: None,
        })
    }

    /// What a step of an attempt means for its worktree.
    pub(super) fn workspace_follows(
        &mut self,
        attempt: &Attempt,
        input: AttemptInput,
    ) -> Result<()> {
        let input = match input {
            AttemptInput::Prepared { .. } => WorkspaceInput::Made,
            AttemptInput::Gathered { .. } => WorkspaceInput::Kept,
            AttemptInput::WorkspaceFailed
            | AttemptInput::SessionOpened
            | AttemptInput::TurnAccepted
            | AttemptInput::TurnSucceeded(_)
            | AttemptInput::TurnFailed(_)
            | AttemptInput::SessionLost
            | AttemptInput::CoreLost
            | AttemptInput::End(_)
            | AttemptInput::GraceOver
            | AttemptInput::VerificationPassed
            | AttemptInput::VerificationFailed
            | AttemptInput::VerificationUnavailable
            | AttemptInput::VerificationHalted => return Ok(()),
        };
        match self.workspace(&attempt.id)? {
            Some(workspace) => self.step_workspace(workspace, input, |_| ()).map(drop),
            None => Ok(()),
        }
    }

    /// What the end of an attempt, or a decision about its task, means for the worktrees of the task.
    pub(super) fn settle_workspaces(&mut self, id: &TaskId) -> Result<()> {
        let workspaces = self.workspaces_of(id)?;
        if workspaces.is_empty() {
            return Ok(());
        }
        let (task, attempts) = (self.task(id)?, self.attempts_of(id)?);
        let last = attempts.last().map(|attempt| attempt.id.clone());
        for workspace in workspaces {
            let attempt = attempts.iter().find(|attempt| attempt.id == workspace.attempt_id);
            let is_last = last.as_ref() == Some(&workspace.attempt_id);
            let input = attempt
                .and_then(|attempt| workspace::after(&attempt.state, is_last, &task.state.phase));
            if let Some(input) = input {
                self.step_workspace(workspace, input, |_| ())?;
            }
        }
        Ok(())
    }

    /// Notes what came of something that was owed to a worktree. What comes too late changes nothing.
    pub fn workspace_input(&mut self, attempt: &AttemptId, input: WorkspaceInput) -> Result<()> {
        let Some(workspace) = self.workspace(attempt)? else { return Ok(()) };
        let task_id = workspace.task_id.clone();
        match self.step_workspace(workspace, input, |_| ()) {
            Ok((_, true)) if input == WorkspaceInput::Pointed => {
                self.set_attempt_branch(attempt, &workspace::branch_of(&task_id))
            }
            Ok(_) => Ok(()),
            Err(error) if error.code() == Code::TaskStateConflict => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Keeps that a task's changes are to be brought into the project's folder: from here on that is owed. Its branch
    /// points at the commit by now.
    ///
    /// # Errors
    ///
    /// As [`integrable`](ReadTx::integrable): somebody else may have been faster.
    pub fn begin_integration(&mut self, id: &TaskId, intent: Intent) -> Result<AttemptId> {
        let Integrable { workspace, .. } = self.integrable(id)?;
        let attempt = workspace.attempt_id.clone();
        self.step_workspace(workspace, WorkspaceInput::Integrate, |workspace| {
            (workspace.intent, workspace.refusal) = (Some(intent), None);
        })?;
        self.set_attempt_branch(&attempt, &workspace::branch_of(id))?;
        Ok(attempt)
    }

    /// Notes that a task's changes stand in the project's folder, staged, and what was changed in its worktree since
    /// they were committed. None: that cannot be told, so the worktree stays as if something was.
    pub fn integration_done(
        &mut self,
        attempt: &AttemptId,
        left_behind: Option<&[ChangedFile]>,
    ) -> Result<()> {
        let Some((workspace, intent)) = self.intended(attempt)? else { return Ok(()) };
        let mut task = self.task(&workspace.task_id)?;
        let tried = self
            .attempt(attempt)?
            .ok_or_else(|| Error::new(Code::Defect, format!("there is no attempt {attempt}")))?;
        let left = left_behind.is_none_or(|files| !files.is_empty());
        self.step_workspace(workspace, WorkspaceInput::Integrated { left }, |workspace| {
            workspace.intent = None;
        })?;
        let at = self.now();
        let integration = Integration {
            by: intent.by.clone(),
            at,
            commit: tried.files.commit.unwrap_or_default(),
            branch: workspace::branch_of(&task.id),
            base_commit: tried.workspace.base_commit.unwrap_or_default(),
            changed_files: intent
                .squash
                .changed_files
                .into_iter()
                .take(CHANGED_FILES_MAX)
                .collect(),
            left_behind: left_behind
                .unwrap_or_default()
                .iter()
                .take(CHANGED_FILES_MAX)
                .cloned()
                .collect(),
        };
        let decision = Decision {
            decision: DecisionKind::Integrated,
            execution_id: Some(attempt.clone()),
            by: intent.by,
            reason: None,
            at,
        };
        self.set_integration(&mut task, integration, decision)
    }

    /// Notes that an integration was refused and that nothing of it is there. Whoever asked for it reads why.
    pub fn integration_refused(&mut self, attempt: &AttemptId, error: &Error) -> Result<()> {
        let Some((workspace, _)) = self.intended(attempt)? else { return Ok(()) };
        self.step_workspace(workspace, WorkspaceInput::Refused, |workspace| {
            (workspace.intent, workspace.refusal) = (None, Some(error.to_wire()));
        })
        .map(drop)
    }

    /// Notes that git could not finish an integration. It may have begun, so it is owed still, to the next start.
    pub fn integration_hangs(&mut self, attempt: &AttemptId, error: &Error) -> Result<()> {
        match self.intended(attempt)? {
            Some(_) => self.set_refusal(attempt, error),
            None => Ok(()),
        }
    }

    fn intended(&self, attempt: &AttemptId) -> Result<Option<(WorkspaceRow, Intent)>> {
        let workspace = self.workspace(attempt)?;
        Ok(workspace.and_then(|workspace| {
            let intent = workspace.intent.clone()?;
            Some((workspace, intent))
        }))
    }
}
