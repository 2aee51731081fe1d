//! References that Cortex sets.

use super::repository::{Repository, object_id};
use super::run::records;
use super::view::remove_if_there;
use super::{changes, io};
use crate::error::{Code, Error, Result};

/// Where Cortex's own references are. Nobody else sets them.
const OWN: &[&str] = &["refs/heads/cortex/", "refs/cortex/"];

/// Points a reference at a commit. What it pointed at stays in its log.
///
/// One that is checked out somewhere is not moved: the folder there would seem to undo what came.
///
/// # Errors
///
/// `workspace.unavailable`.
pub(super) async fn point(repository: &Repository, reference: &str, commit: &str) -> Result<()> {
    let commit = object_id(commit)?;
    let check = repository.call().args(["check-ref-format", reference]).answer().await?;
    if !check.exit.is_success() || !OWN.iter().any(|own| reference.starts_with(own)) {
        let text = format!("{reference:?} is no reference of Cortex's");
        return Err(Error::new(Code::WorkspaceUnavailable, text));
    }
    if current(repository, reference).await?.as_deref() == Some(commit) {
        return Ok(());
    }
    if let Some(folder) = checked_out(repository, reference).await? {
        return Err(Error::new(
            Code::WorkspaceUnavailable,
            format!("{reference} is checked out in {folder} and cannot be moved under it"),
        )
        .remedy("Check out another branch there, then retry."));
    }
    let update = || {
        repository
            .call()
            .args(["update-ref", "--no-deref", "--create-reflog", "-m", "cortex: kept"])
            .args([reference, commit])
    };
    let lock = repository.common_dir.join(format!("{reference}.lock"));
    let made =
        |lock: &std::path::Path| fs_err::metadata(lock).and_then(|found| found.modified()).ok();
    let before = made(&lock);
    let Err(failure) = update().ok().await else { return Ok(()) };
    // Git has waited for it longer than any update takes, and only Cortex sets this reference, one call
    // after the other: the lock is left by a git that was killed.
    if before.is_none() || before != made(&lock) {
        return Err(failure);
    }
    remove_if_there(&lock).map_err(|error| io("an old lock cannot be removed", &error))?;
    update().ok().await.map(drop)
}

async fn current(repository: &Repository, reference: &str) -> Result<Option<String>> {
    let answer = repository
        .call()
        .args(["rev-parse", "--verify", "--quiet", "--end-of-options", reference])
        .answer()
        .await?;
    let text = String::from_utf8_lossy(&answer.stdout).trim_end().to_owned();
    Ok(answer.exit.is_success().then_some(text))
}

/// The worktree where a branch is checked out.
async fn checked_out(repository: &Repository, reference: &str) -> Result<Option<String>> {
    let list = repository.call().args(["worktree", "list", "--porcelain", "-z"]).ok().await?;
    let branch = [b"branch ", reference.as_bytes()].concat();
    let mut folder = None;
    for record in records(&list) {
        if let Some(path) = record.strip_prefix(b"worktree ") {
            folder = Some(changes::shown(path));
        } else if record == branch {
            return Ok(folder);
        }
    }
    Ok(None)
}
