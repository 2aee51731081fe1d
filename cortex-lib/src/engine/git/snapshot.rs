//! What a folder holds, as a tree.

use std::path::Path;

use super::run::{bytes_of, path_of, records, with_nuls};
use super::view::View;
use crate::error::Result;
use crate::port::Worktree;

/// The tree of everything that git does not ignore, or of what is below `prefix`, the rest as the index has
/// it. The view's index takes it in.
///
/// Submodules stay as the index has them, and repositories inside are left out: neither is the folder's own
/// content. `git add` would take the latter for submodules.
///
/// # Errors
///
/// `workspace.unavailable`.
pub(super) async fn tree(view: &View<'_>, prefix: Option<&Path>) -> Result<String> {
    let below = match prefix.map(bytes_of) {
        Some(prefix) if !prefix.is_empty() => path_of(&prefix).into_os_string(),
        _ => ".".into(),
    };
    // Also what is said not to change; that some files have changed is no failure.
    let refresh = view.call().args(["update-index", "-q", "--really-refresh"]);
    view.yes_or_no(refresh, "update-index").await?;
    let others = view
        .call()
        .args(["ls-files", "-z", "--others", "--exclude-standard", "--"])
        .args([&below])
        .ok()
        .await?;
    let modified = view
        .call()
        .args(["diff-files", "-z", "--name-only", "--ignore-submodules=all", "--no-ext-diff", "--"])
        .args([&below])
        .ok()
        .await?;
    let (mut changed, mut gone): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for path in records(&modified) {
        if is_storable(&view.work_tree.join(path_of(path))) {
            changed.push(path);
        } else {
            gone.push(path);
        }
    }
    // A repository inside is listed with a slash at its end.
    changed.extend(records(&others).filter(|path| !path.ends_with(b"/")));
    if !gone.is_empty() {
        let remove = view.call().args(["update-index", "-z", "--force-remove", "--stdin"]);
        remove.input(with_nuls(gone)).ok().await?;
    }
    if !changed.is_empty() {
        let add =
            view.call().args(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"]);
        add.input(with_nuls(changed)).ok().await?;
    }
    view.write_tree().await
}

/// Commits a tree as what an attempt did.
///
/// # Errors
///
/// `workspace.unavailable`.
pub(super) async fn commit(
    view: &View<'_>,
    worktree: &Worktree,
    base: &str,
    tree: &str,
) -> Result<String> {
    let Worktree { attempt_id, task_id, .. } = worktree;
    let message = format!(
        "Work of task {task_id}\n\nKept by Cortex.\n\nCortex-Task: {task_id}\nCortex-Attempt: {attempt_id}\n"
    );
    view.commit_tree(tree, Some(base), &message, None).await
}

/// Whether git can store what is there: a file, a link, or a folder in place of one.
fn is_storable(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_ok_and(|found| {
        let kind = found.file_type();
        kind.is_file() || kind.is_symlink()
    })
}
