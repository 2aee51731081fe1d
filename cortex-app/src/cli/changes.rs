//! What a task did to files, and how it came into its project's folder.

use cortex_lib::api::view::TaskView;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::workspace::ChangedFile;
use cortex_lib::store::Integration;

use super::screen::word;

/// The files, one in each line.
pub(super) fn files(files: &[ChangedFile]) -> String {
    let line = |file: &ChangedFile| {
        let from = file.from.as_ref().map(|from| format!(" from {from}"));
        format!("{} {}{}", word(&file.change), file.path, from.unwrap_or_default())
    };
    files.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What was staged, and what was not.
pub(super) fn integration(integration: &Integration) -> String {
    let mut text = format!(
        "staged by {} at {}: review and commit it\n{}",
        integration.by,
        integration.at,
        files(&integration.changed_files)
    );
    if !integration.left_behind.is_empty() {
        text.push_str("\nleft behind in the worktree, which stays:\n");
        text.push_str(&files(&integration.left_behind));
    }
    text
}

/// Whether its changes wait on a branch of their own.
pub(super) fn can_be_integrated(task: &TaskView) -> bool {
    let branch = task.workspace.as_ref().and_then(|workspace| workspace.branch.as_ref());
    task.status == TaskStatus::Completed && task.integration.is_none() && branch.is_some()
}
