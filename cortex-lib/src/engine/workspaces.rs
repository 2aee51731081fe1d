//! Worktrees and what turns do to files: jobs for git, what came of them, and integrations.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::core::Core;
use super::incoming;
use super::run::{Engine, pause};
use super::wake::{Done, Job};
use crate::domain::attempt::{AttemptInput, Cause};
use crate::domain::plan::TaskSpec;
use crate::domain::workspace::{self, ChangedFile, WorkspaceInput, WorkspaceState};
use crate::error::{Code, Error, Result};
use crate::ids::{AttemptId, ProjectId, TaskId};
use crate::limits::{
    INTEGRATE_TIMEOUT, SNAPSHOT_TIMEOUT, SQUASH_TRIES, STORE_RETRY_WAIT, WORKTREE_REMOVAL_WAIT,
};
use crate::port::{Git, Worktree};
use crate::progress::{AttemptReport, Integrable};
use crate::store::{Attempt, Files, Intent, Project, WorkspaceRow};

type Outcome = std::pin::Pin<Box<dyn Future<Output = Done> + Send>>;

/// What became known while a workspace was prepared.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    /// The commit that a worktree began at.
    base_commit: Option<String>,
    /// The folder of the worktree that stands for the project's.
    folder: Option<PathBuf>,
    /// The tree of the project's folder.
    before: Option<String>,
}

impl Engine {
    /// Makes the worktree of an attempt, or notes the files of the folder that its turn will work in.
    pub(super) fn prepare(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, project) = self.attempt_and_project(id)?;
        let host = Arc::clone(self.core.host());
        if !host.is_folder(&project.root) {
            let message = format!("the folder {} is not there", project.root.display());
            return Err(Error::new(Code::ProjectInvalidRoot, message));
        }
        if !attempt.is_isolated() {
            self.forget_old_objects()?;
            let objects = host.objects(id);
            return Ok(Box::pin(async move {
                let before = snapshot(host.git(), &project.root, &objects).await;
                Done::Prepared(Ok(Prepared { before, ..Prepared::default() }))
            }));
        }
        let worktree = worktree_of(&self.workspace(id)?);
        Ok(Box::pin(async move {
            let made = async {
                let base_commit = Some(host.git().add(&worktree).await?);
                let folder = Some(host.git().folder(&worktree).await?);
                Ok(Prepared { base_commit, folder, before: None })
            };
            Done::Prepared(made.await)
        }))
    }

    /// Commits what a turn left in its worktree, or notes what it changed in the project's folder.
    pub(super) fn gather(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, project) = self.attempt_and_project(id)?;
        let host = Arc::clone(self.core.host());
        if attempt.is_isolated() {
            let (worktree, base) = (worktree_of(&self.workspace(id)?), base_of(&attempt)?);
            let reference = workspace::attempt_ref_of(id);
            return Ok(Box::pin(async move {
                let kept = host.git().keep(&worktree, &base, &reference).await;
                Done::Gathered(kept.map(|kept| Files {
                    before: None,
                    tree: Some(kept.tree),
                    commit: Some(kept.commit),
                    changed: Some(kept.changed_files),
                }))
            }));
        }
        let objects = host.objects(id);
        Ok(Box::pin(async move {
            let tree = snapshot(host.git(), &project.root, &objects).await;
            let both = attempt.files.before.as_deref().zip(tree.as_deref());
            let changed = match both {
                Some((from, to)) => changes(host.git(), &project.root, &objects, from, to).await,
                None => None,
            };
            Done::Gathered(Ok(Files { before: None, tree, commit: None, changed }))
        }))
    }

    /// Commits what a worktree holds before it goes.
    pub(super) fn save(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, _) = self.attempt_and_project(id)?;
        let (worktree, base) = (worktree_of(&self.workspace(id)?), base_of(&attempt)?);
        let (host, reference) = (Arc::clone(self.core.host()), workspace::attempt_ref_of(id));
        Ok(Box::pin(async move {
            Done::Workspace(host.git().keep(&worktree, &base, &reference).await.map(drop))
        }))
    }

    /// Points the branch of a task at the commit that completed it.
    pub(super) fn point(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, _) = self.attempt_and_project(id)?;
        let (root, host) = (self.workspace(id)?.root, Arc::clone(self.core.host()));
        let commit = attempt.files.commit.ok_or_else(|| unknown("commit", id))?;
        let branch = workspace::branch_ref_of(&attempt.task_id);
        Ok(Box::pin(
            async move { Done::Workspace(host.git().point(&root, &branch, &commit).await) },
        ))
    }

    /// Brings the commit of a worktree into the project's folder, and looks what was changed since it was made.
    pub(super) fn squash(&self, id: &AttemptId) -> Result<Outcome> {
        let (attempt, _) = self.attempt_and_project(id)?;
        let (workspace, host) = (self.workspace(id)?, Arc::clone(self.core.host()));
        let intent = workspace.intent.clone().ok_or_else(|| unknown("intent", id))?;
        let commit = attempt.files.commit.ok_or_else(|| unknown("commit", id))?;
        Ok(Box::pin(async move {
            let git = host.git();
            let mut tries = 0_u32;
            let done = loop {
                tries = tries.saturating_add(1);
                match git.squash(&workspace.root, &intent.squash).await {
                    // Nothing says how far it came, so it is done to its end.
                    Err(error) if !changed_nothing(error.code()) && tries < SQUASH_TRIES => {
                        pause(STORE_RETRY_WAIT).await;
                    }
                    other => break other,
                }
            };
            if let Err(error) = done {
                return Done::Squashed(Err(error));
            }
            let left = match git.left_behind(&worktree_of(&workspace), &commit).await {
                Ok(left) => Some(left),
                // Its removal finds nothing, or proves the same and does nothing.
                Err(error)
                    if error.code() == Code::WorkspaceUnowned
                        || !host.is_folder(&workspace.path) =>
                {
                    Some(Vec::new())
                }
                Err(error) => {
                    tracing::warn!(attempt = %workspace.attempt_id, code = %error.code(), "a worktree stays, because it cannot be told what it holds: {}", error.message());
                    None
                }
            };
            Done::Squashed(Ok(left))
        }))
    }

    /// Removes a worktree, which proves first that it is Cortex's own.
    pub(super) fn remove(&self, id: &AttemptId) -> Result<Outcome> {
        let (worktree, host) = (worktree_of(&self.workspace(id)?), Arc::clone(self.core.host()));
        Ok(Box::pin(async move { Done::Workspace(host.git().remove(&worktree).await) }))
    }

    /// Writes down that a workspace is ready, or why it is not.
    pub(super) async fn prepared(
        &mut self,
        id: &AttemptId,
        prepared: Result<Prepared>,
    ) -> Result<()> {
        let isolated =
            self.core.store().read(|tx| tx.attempt(id))?.is_some_and(|it| it.is_isolated());
        let mut report = AttemptReport::default();
        let input = match prepared {
            Ok(found) => {
                report.base_commit = found.base_commit;
                report.folder = found.folder;
                report.files.before = found.before;
                AttemptInput::Prepared { session: isolated }
            }
            Err(error) => {
                report.message = Some(error.message().to_owned());
                match error.code() {
                    Code::ProjectInvalidRoot => AttemptInput::TurnFailed(Cause::InvalidRoot),
                    _ => AttemptInput::WorkspaceFailed,
                }
            }
        };
        self.tell_attempt(id, input, report).await
    }

    /// Writes down what a turn did to the files, or that it cannot be known.
    pub(super) async fn gathered(&mut self, id: &AttemptId, files: Result<Files>) -> Result<()> {
        let (_, project) = self.attempt_and_project(id)?;
        let verify = project.verification.is_some();
        let mut report = AttemptReport::default();
        let input = match files {
            Ok(files) => {
                report.files = files;
                AttemptInput::Gathered { verify }
            }
            Err(error) => {
                report.message = Some(error.message().to_owned());
                AttemptInput::WorkspaceFailed
            }
        };
        self.tell_attempt(id, input, report).await
    }

    /// Writes down what came of something that was owed to a worktree. What failed is owed still: the next life of the
    /// core tries again.
    pub(super) async fn workspace_done(
        &mut self,
        id: &AttemptId,
        input: WorkspaceInput,
        done: Result<()>,
    ) -> Result<()> {
        let input = match done {
            Ok(()) => input,
            Err(error) if error.code() == Code::WorkspaceUnowned => {
                tracing::warn!(attempt = %id, "a worktree stays as it is: {}", error.message());
                WorkspaceInput::NotOwned
            }
            Err(error) => {
                tracing::warn!(attempt = %id, code = %error.code(), "{}", error.message());
                return Ok(());
            }
        };
        let attempt = id.clone();
        self.record(move |tx| tx.workspace_input(&attempt, input)).await
    }

    /// Writes down an integration, or why there is none.
    pub(super) async fn squashed(
        &mut self,
        id: &AttemptId,
        done: Result<Option<Vec<ChangedFile>>>,
    ) -> Result<()> {
        let attempt = id.clone();
        match done {
            Ok(left) => self.record(move |tx| tx.integration_done(&attempt, left.as_deref())).await,
            Err(error) if changed_nothing(error.code()) => {
                let refused = self.record(move |tx| tx.integration_refused(&attempt, &error)).await;
                // Whoever reads why may ask again before the engine looks at the rows: that is another job.
                self.begun.remove(&Job::Squash(id.clone()));
                refused
            }
            Err(error) => {
                tracing::error!(attempt = %id, code = %error.code(), "an integration is not finished: {}", error.message());
                self.record(move |tx| tx.integration_hangs(&attempt, &error)).await
            }
        }
    }

    /// A look at a project's files serves one attempt. Those of attempts that ended go before the next one comes.
    fn forget_old_objects(&self) -> Result<()> {
        let live = self.core.store().read(|tx| tx.live_attempts())?;
        self.core.host().keep_objects_of(&live.into_iter().map(|attempt| attempt.id).collect());
        Ok(())
    }

    fn workspace(&self, id: &AttemptId) -> Result<WorkspaceRow> {
        self.core.store().read(|tx| tx.workspace(id))?.ok_or_else(|| unknown("worktree", id))
    }

    fn attempt_and_project(&self, id: &AttemptId) -> Result<(Attempt, Project)> {
        self.core.store().read(|tx| {
            let attempt = tx.attempt(id)?.ok_or_else(|| unknown("row", id))?;
            let project = tx.project(&tx.task(&attempt.task_id)?.project_id)?;
            Ok((attempt, project))
        })
    }
}

impl Core {
    /// What is wrong with isolated tasks in a project, if some of these are (H-42).
    ///
    /// # Errors
    ///
    /// `project.not_found`.
    pub(crate) async fn isolation_problem(
        &self,
        project: &ProjectId,
        tasks: &[TaskSpec],
    ) -> Result<Option<String>> {
        if !tasks.iter().any(TaskSpec::isolated) {
            return Ok(None);
        }
        let root = self.store().read(|tx| tx.project(project))?.root;
        if self.host().worktrees().to_str().is_none() {
            let why = "workspace_isolation needs a data directory whose path is valid UTF-8";
            return Ok(Some(why.to_owned()));
        }
        let why = self.host().git().head(&root).await.err();
        Ok(why.map(|error| {
            format!("workspace_isolation needs a git repository with a commit: {}", error.message())
        }))
    }

    /// Brings the changes of a task into its project's folder, staged. Decided first and done then: whoever goes away
    /// in between finds it done.
    ///
    /// # Errors
    ///
    /// `task.not_found`, `task.state_conflict`, and those of [`Git::plan_squash`] and [`Git::squash`]: nothing is
    /// changed then.
    pub(crate) async fn integrate(&self, id: &TaskId, by: &str) -> Result<()> {
        let Integrable { workspace, commit, base_commit } =
            self.store().read(|tx| tx.integrable(id))?;
        let git = self.host().git();
        // One that a person took away proves nothing and holds nothing either: the branch has it all.
        if self.host().is_folder(&workspace.path) {
            let left = git.left_behind(&worktree_of(&workspace), &commit).await;
            left.map_err(incoming::error)?;
        }
        let branch = workspace::branch_ref_of(id);
        git.point(&workspace.root, &branch, &commit).await.map_err(incoming::error)?;
        let squash = git.plan_squash(&workspace.root, &base_commit, &commit).await;
        let squash = squash.map_err(incoming::error)?;
        let (task, intent) = (id.clone(), Intent { squash, by: by.to_owned() });
        let attempt = self.store().write(move |tx| tx.begin_integration(&task, intent)).await?;
        let done = self.wait_for(INTEGRATE_TIMEOUT, |tx| {
            let Some(row) = tx.workspace(&attempt)? else { return Ok(Some(None)) };
            Ok(match row.refusal {
                Some(refusal) => Some(Some(Error::from_wire(&refusal))),
                None => (row.state != WorkspaceState::Integrating).then_some(None),
            })
        });
        match done.await? {
            Some(None) => {
                let gone = self.wait_for(WORKTREE_REMOVAL_WAIT, |tx| {
                    let row = tx.workspace(&attempt)?;
                    let waits = row.is_some_and(|row| row.state == WorkspaceState::Removing);
                    Ok((!waits).then_some(()))
                });
                gone.await.map(drop)
            }
            Some(Some(refusal)) => Err(refusal.with("task_id", id.as_str())),
            None => Err(Error::new(
                Code::WorkspaceUnavailable,
                format!("git did not finish within {} s", INTEGRATE_TIMEOUT.as_secs()),
            )
            .remedy("Look at the task later: its integration goes on.")
            .with("task_id", id.as_str())),
        }
    }

    /// Worktrees of a project that a person took away with what they held.
    pub(crate) fn worktrees_taken_away(&self, project: &ProjectId) -> Result<Vec<AttemptId>> {
        let rows = self.store().read(|tx| tx.workspaces_in(project))?;
        let waiting = |row: &WorkspaceRow| {
            matches!(
                row.state,
                WorkspaceState::Kept | WorkspaceState::Named | WorkspaceState::LeftBehind
            )
        };
        let gone = rows.into_iter().filter(|row| waiting(row) && !self.host().is_folder(&row.path));
        Ok(gone.map(|row| row.attempt_id).collect())
    }
}

/// Git's view of a worktree.
fn worktree_of(row: &WorkspaceRow) -> Worktree {
    Worktree {
        root: row.root.clone(),
        path: row.path.clone(),
        attempt_id: row.attempt_id.clone(),
        task_id: row.task_id.clone(),
    }
}

fn base_of(attempt: &Attempt) -> Result<String> {
    attempt.workspace.base_commit.clone().ok_or_else(|| unknown("base", &attempt.id))
}

fn unknown(what: &str, id: &AttemptId) -> Error {
    Error::new(Code::WorkspaceUnavailable, format!("the {what} of attempt {id} is not known"))
}

/// Whether a squash that failed so is known to have changed nothing.
fn changed_nothing(code: Code) -> bool {
    matches!(
        code,
        Code::WorkspaceIndexNotClean | Code::WorkspaceLocalChanges | Code::WorkspaceConflict
    )
}

/// The tree of a folder. A look that fails or takes too long is done without: no attempt fails for it.
async fn snapshot(git: &dyn Git, folder: &Path, objects: &Path) -> Option<String> {
    may_fail("the files of a folder", git.snapshot(folder, objects)).await
}

async fn changes(
    git: &dyn Git,
    folder: &Path,
    objects: &Path,
    from: &str,
    to: &str,
) -> Option<Vec<ChangedFile>> {
    may_fail("what a turn changed", git.changes(folder, objects, from, to)).await
}

async fn may_fail<T>(what: &str, look: impl Future<Output = Result<T>>) -> Option<T> {
    match tokio::time::timeout(SNAPSHOT_TIMEOUT, look).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::debug!(code = %error.code(), "{what} is not known: {}", error.message());
            None
        }
        Err(_) => {
            tracing::debug!(
                "{what} is not known: it took more than {} s",
                SNAPSHOT_TIMEOUT.as_secs()
            );
            None
        }
    }
}
