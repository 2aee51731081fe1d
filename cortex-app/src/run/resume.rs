//! What an earlier run of the same file left.

use cortex_lib::api::tool::{CancelTask, ListTasks, RetryTask};
use cortex_lib::api::view::{ObjectiveView, ProjectView, TaskView};
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::task::{BlockCause, TaskStatus};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::TaskId;

use super::file::ObjectiveFile;
use super::hints::Hints;
use crate::door::Door;

/// The newest objective of the file's title in the project, if there is one.
pub(crate) async fn newest(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
) -> Result<Option<ObjectiveView>> {
    Ok(all(door, file, project).await?.pop())
}

/// Those objectives of the file's title that have not ended, oldest first.
async fn unended(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
) -> Result<Vec<ObjectiveView>> {
    let all = all(door, file, project).await?;
    Ok(all.into_iter().filter(|objective| !objective.status.is_ended()).collect())
}

/// The newest one that has not ended.
pub(crate) async fn newest_unended(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
) -> Result<Option<ObjectiveView>> {
    Ok(unended(door, file, project).await?.pop())
}

async fn all(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
) -> Result<Vec<ObjectiveView>> {
    let objectives = door.call(ListTasks {}).await?.objectives.into_iter();
    let same =
        |one: &ObjectiveView| one.project_id == project.project_id && one.title == file.title;
    Ok(objectives.filter(same).collect())
}

/// Refuses to begin anew beside an earlier run that would go on by itself. One that only a person gets on is
/// told about and left alone.
///
/// # Errors
///
/// `objective.state_conflict`.
pub(crate) async fn check_alone(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
    hints: &Hints,
) -> Result<Option<ObjectiveView>> {
    let left = unended(door, file, project).await?;
    let goes_on = |one: &&ObjectiveView| {
        !matches!(one.status, ObjectiveStatus::Blocked | ObjectiveStatus::Paused)
    };
    let Some(running) = left.iter().find(goes_on) else {
        return Ok(left.into_iter().next_back());
    };
    let message = format!("an earlier run of {:?} has not ended", file.title);
    Err(Error::new(Code::ObjectiveStateConflict, message)
        .remedy(format!(
            "Go on with it: {}. Or cancel it and begin anew: {}.",
            hints.run(&["--resume"]),
            hints.run(&["--anew"])
        ))
        .with("objective_id", running.objective_id.as_str()))
}

/// Cancels every earlier run that has not ended. Returns how many there were.
pub(crate) async fn cancel_earlier(
    door: &Door,
    file: &ObjectiveFile,
    project: &ProjectView,
) -> Result<usize> {
    let left = unended(door, file, project).await?;
    for task in left.iter().flat_map(|one| &one.tasks) {
        let cancel = CancelTask {
            task_id: task.task_id.clone(),
            reason: Some("cortex run --anew".to_owned()),
        };
        match door.call(cancel).await {
            Ok(_) => {}
            // It has ended, or a task that it depends on took it along.
            Err(error) if error.code() == Code::TaskStateConflict => {}
            Err(error) => return Err(error),
        }
    }
    Ok(left.len())
}

/// Asks for another attempt of each task whose outcome nobody knows: the person asked to go on. Returns them.
pub(crate) async fn retry_unknown(door: &Door, objective: &ObjectiveView) -> Result<Vec<TaskId>> {
    let mut retried = Vec::new();
    for task in objective.tasks.iter().filter(|task| is_unknown(task)) {
        let retry = RetryTask {
            task_id: task.task_id.clone(),
            execution_id: task.attempts.last().map(|attempt| attempt.execution_id.clone()),
            reason: Some("cortex run --resume".to_owned()),
        };
        door.call(retry).await?;
        retried.push(task.task_id.clone());
    }
    Ok(retried)
}

fn is_unknown(task: &TaskView) -> bool {
    task.status == TaskStatus::Blocked
        && task
            .failure
            .as_ref()
            .is_some_and(|failure| failure.cause == BlockCause::OutcomeUnknown.as_str())
}
