//! The life of a worktree that was made for one attempt: made, committed, integrated or given up, removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::AttemptState;
use super::machine::{Machine, Refusal, Step};
use super::task::Phase;
use crate::ids::{AttemptId, TaskId};

/// What happened to a file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Change {
    /// It is new.
    Added,
    /// Its content or its mode is another.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Renamed,
}

/// A file that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ChangedFile {
    /// Its path from the root of the repository, with `/`. A path that is not UTF-8 is shown as git quotes it.
    pub path: String,
    /// What happened to it.
    pub change: Change,
    /// The path it had before it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// A commit that keeps what a worktree held at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The commit, whose only parent is the worktree's base.
    pub commit: String,
    /// Its tree.
    pub tree: String,
    /// What differs from the base.
    pub changed_files: Vec<ChangedFile>,
}

/// What bringing a commit into a project's folder would do. Made without changing anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Squash {
    /// The HEAD of the folder that it was made for.
    pub head: String,
    /// The tree that the index and the folder will hold.
    pub tree: String,
    /// What will differ from HEAD, staged.
    pub changed_files: Vec<ChangedFile>,
}

/// The branch that names the result of a task.
pub fn branch_of(task: &TaskId) -> String {
    format!("cortex/{task}")
}

/// The full name of that branch.
pub fn branch_ref_of(task: &TaskId) -> String {
    format!("refs/heads/{}", branch_of(task))
}

/// The reference that keeps what an attempt left behind, whatever became of it.
pub fn attempt_ref_of(attempt: &AttemptId) -> String {
    format!("refs/cortex/attempts/{attempt}")
}

/// Where the worktree of an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceState {
    /// Its attempt was assigned; it is being made.
    Planned,
    /// Its attempt works in it.
    Standing,
    /// The result of its attempt is committed and waits for its verification or for a person.
    Kept,
    /// Its attempt does not count: what it holds is committed before it goes.
    Saving,
    /// Its attempt completed the task: the task's branch is pointed at the commit.
    Naming,
    /// The branch stands; it waits to be integrated.
    Named,
    /// Its commit is being brought into the project's folder.
    Integrating,
    /// It was integrated and holds what was changed since; that is a person's now.
    LeftBehind,
    /// Nothing in it is needed any more.
    Removing,
    /// It is gone.
    Removed,
    /// It is not proved to be Cortex's own any more, so it stays as it is.
    Unowned,
}

/// What happens to a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceInput {
    /// It was made.
    Made,
    /// The result of its attempt was committed.
    Kept,
    /// Its attempt does not count, or a later one does.
    Discard,
    /// What it held was committed before it goes.
    Saved,
    /// Its attempt completed the task.
    Complete,
    /// The task's branch points at the commit.
    Pointed,
    /// A person wants its commit in the project's folder.
    Integrate,
    /// That was done. `left`: something was changed in it since the commit.
    Integrated {
        /// Whether something was changed in it since the commit.
        left: bool,
    },
    /// That was refused; nothing changed.
    Refused,
    /// It is gone.
    Gone,
    /// Something else is at its place, or it lost its marker.
    NotOwned,
}

/// What the world owes a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkspaceDuty {
    /// Commit what it holds.
    Save,
    /// Point the task's branch at its commit.
    Point,
    /// Bring its commit into the project's folder.
    Squash,
    /// Remove it.
    Remove,
}

impl Machine for WorkspaceState {
    type Input = WorkspaceInput;
    type Duty = WorkspaceDuty;

    fn step(&self, input: WorkspaceInput) -> Result<Step<Self>, Refusal> {
        use WorkspaceInput as I;

        Ok(Step::To(match (*self, input) {
            (Self::Planned, I::Made) => Self::Standing,
            (Self::Standing, I::Kept) => Self::Kept,

            // Nothing ran in it, so there is nothing to commit.
            (Self::Planned, I::Discard) => Self::Removing,
            // Also what was kept before: a person may have worked in it since.
            (Self::Standing | Self::Kept, I::Discard) => Self::Saving,
            (Self::Saving | Self::Removing | Self::Removed | Self::Unowned, I::Discard) => {
                return Ok(Step::Stay);
            }
            (Self::Saving, I::Saved) => Self::Removing,
            // It cannot be committed. Whether it may go is found out by its removal.
            (Self::Saving, I::NotOwned) => Self::Removing,
            (Self::Removing, I::NotOwned) => Self::Unowned,

            (Self::Kept, I::Complete) => Self::Naming,
            (Self::Naming, I::Pointed) => Self::Named,
            (Self::Naming, I::Complete)
            | (Self::Named | Self::Integrating | Self::LeftBehind, I::Complete | I::Pointed) => {
                return Ok(Step::Stay);
            }

            (Self::Naming | Self::Named, I::Integrate) => Self::Integrating,
            (Self::Integrating, I::Refused) => Self::Named,
            (Self::Integrating, I::Integrated { left: true }) => Self::LeftBehind,
            (Self::Integrating, I::Integrated { left: false }) => Self::Removing,

            (Self::Removing | Self::Kept | Self::Named | Self::LeftBehind, I::Gone) => {
                Self::Removed
            }
            (Self::Removed, I::Gone) => return Ok(Step::Stay),
            (
                Self::Planned
                | Self::Standing
                | Self::Kept
                | Self::Saving
                | Self::Naming
                | Self::Named
                | Self::Integrating
                | Self::LeftBehind
                | Self::Removing
                | Self::Removed
                | Self::Unowned,
                _,
            ) => return Err(Refusal::WrongState),
        }))
    }

    fn owes(&self) -> Option<WorkspaceDuty> {
        match self {
            Self::Saving => Some(WorkspaceDuty::Save),
            Self::Naming => Some(WorkspaceDuty::Point),
            Self::Integrating => Some(WorkspaceDuty::Squash),
            Self::Removing => Some(WorkspaceDuty::Remove),
            // Making it and committing a result are owed to its attempt.
            Self::Planned
            | Self::Standing
            | Self::Kept
            | Self::Named
            | Self::LeftBehind
            | Self::Removed
            | Self::Unowned => None,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self, Self::Removed | Self::Unowned)
    }
}

impl WorkspaceState {
    /// Whether it holds something that was not integrated, or may come to (H-26).
    pub const fn holds_work(self) -> bool {
        match self {
            Self::Planned
            | Self::Standing
            | Self::Kept
            | Self::Saving
            | Self::Naming
            | Self::Named
            | Self::Integrating
            | Self::LeftBehind => true,
            Self::Removing | Self::Removed | Self::Unowned => false,
        }
    }
}

/// What the end of an attempt, or a decision about its task, means for its worktree. `last`: no later attempt was
/// made. None: it stays as it is.
pub fn after(attempt: &AttemptState, last: bool, task: &Phase) -> Option<WorkspaceInput> {
    if !attempt.is_over() {
        return None;
    }
    match task {
        Phase::Completed(_) if last => Some(WorkspaceInput::Complete),
        // A person may still accept its result.
        Phase::Blocked(cause) if last && cause.is_approvable() => None,
        Phase::Created
        | Phase::Ready
        | Phase::Running(_)
        | Phase::Verifying(_)
        | Phase::Blocked(_)
        | Phase::Completed(_)
        | Phase::Failed(_)
        | Phase::Cancelled(_) => Some(WorkspaceInput::Discard),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::attempt::{Outcome, Proof};
    use crate::domain::machine::walk;
    use crate::domain::task::{BlockCause, CancelCause, Evidence};

    pub(in crate::domain) fn inputs() -> Vec<WorkspaceInput> {
        vec![
            WorkspaceInput::Made,
            WorkspaceInput::Kept,
            WorkspaceInput::Discard,
            WorkspaceInput::Saved,
            WorkspaceInput::Complete,
            WorkspaceInput::Pointed,
            WorkspaceInput::Integrate,
            WorkspaceInput::Integrated { left: true },
            WorkspaceInput::Integrated { left: false },
            WorkspaceInput::Refused,
            WorkspaceInput::Gone,
            WorkspaceInput::NotOwned,
        ]
    }

    #[test]
    fn nothing_is_removed_before_it_is_committed_or_proved_to_be_empty() {
        let seen = walk(WorkspaceState::Planned, &inputs(), true, |from, input, to| {
            if *to == WorkspaceState::Removing {
                let safe = matches!(
                    (from, input),
                    (WorkspaceState::Planned, WorkspaceInput::Discard)
                        | (WorkspaceState::Saving, _)
                        | (WorkspaceState::Integrating, WorkspaceInput::Integrated { left: false })
                );
                assert!(safe, "{from:?} --{input:?}--> {to:?}");
            }
            // What a person has not integrated goes only when it is gone already.
            if *from == WorkspaceState::Named {
                let allowed = matches!(to, WorkspaceState::Integrating | WorkspaceState::Removed);
                assert!(allowed, "{from:?} --{input:?}--> {to:?}");
            }
        });
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (11, 19, 101),
            "the lifecycle changed: is that meant?"
        );
    }

    /// A crash forgets what was done, never what is owed: doing the duties of the stored state leads to rest.
    #[test]
    fn duties_lead_every_state_to_rest() {
        let answer = |duty| match duty {
            WorkspaceDuty::Save => WorkspaceInput::Saved,
            WorkspaceDuty::Point => WorkspaceInput::Pointed,
            WorkspaceDuty::Squash => WorkspaceInput::Integrated { left: false },
            WorkspaceDuty::Remove => WorkspaceInput::Gone,
        };
        for state in walk(WorkspaceState::Planned, &inputs(), true, |_, _, _| ()).states {
            let mut settled = state;
            while let Some(duty) = settled.owes() {
                let Ok(Step::To(next)) = settled.step(answer(duty)) else {
                    panic!("{settled:?} refuses {duty:?}")
                };
                settled = next;
            }
            assert_eq!(settled.owes(), None, "{state:?}");
        }
    }

    #[test]
    fn only_the_last_attempt_of_a_task_keeps_its_worktree() {
        let over = AttemptState::Over(Outcome::Succeeded(Proof::Missing));
        let cases = [
            (Phase::Completed(Evidence::Verified), true, Some(WorkspaceInput::Complete)),
            (Phase::Completed(Evidence::Verified), false, Some(WorkspaceInput::Discard)),
            (Phase::Blocked(BlockCause::VerificationMissing), true, None),
            (Phase::Blocked(BlockCause::VerificationMissing), false, Some(WorkspaceInput::Discard)),
            (Phase::Blocked(BlockCause::Refused), true, Some(WorkspaceInput::Discard)),
            (Phase::Ready, true, Some(WorkspaceInput::Discard)),
            (Phase::Cancelled(CancelCause::Asked), true, Some(WorkspaceInput::Discard)),
        ];
        for (phase, last, wanted) in cases {
            assert_eq!(after(&over, last, &phase), wanted, "{phase:?}, last: {last}");
        }
        assert_eq!(after(&AttemptState::Running, true, &Phase::Ready), None);
    }
}
