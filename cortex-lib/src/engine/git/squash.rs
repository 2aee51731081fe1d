//! A commit of Cortex onto a project's folder: what it would do, and doing it.

use super::apply::{self, Lock};
use super::repository::{Repository, object_id};
use super::run::records;
use super::view::{Objects, View};
use super::{GitProgram, changes, disk, io, refusal};
use crate::error::{Code, Error, Result};
use crate::port::Squash;

/// What tells that the folder is in the middle of something, below its git directory.
const UNDER_WAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or a series of patches"),
    ("sequencer", "a cherry-pick or a revert"),
];

/// The commits that the merge is tried with are thrown away: their date says nothing.
const NO_DATE: &str = "@0 +0000";

/// Finds out what would be done. Only when nothing is in the way, the repository gets the objects that it is
/// made of; nothing refers to them yet.
pub(super) async fn plan(
    git: &GitProgram,
    repository: &Repository,
    base: &str,
    commit: &str,
) -> Result<Squash> {
    let head = repository.head().await?;
    let view = git.view(repository, &repository.top, Objects::Temporary)?;
    view.copy_index(&repository.git_dir)?;
    let head_tree = view.tree_of(&head).await?;
    refuse_under_way(repository)?;
    if index_tree(&view).await? != head_tree {
        return Err(staged(&view, &head_tree).await?);
    }
    let merge = merge(&view, base, &head_tree, commit).await?;
    let spots = disk::look(git, repository, &view, &head_tree, &merge.tree).await?;
    refuse_obstacles(repository, &spots)?;
    let changed_files = changes::between(&view, &head_tree, &merge.tree).await?;
    hand_over(&view, &merge.tried)
        .map_err(|error| io("the repository takes no objects", &error))?;
    Ok(Squash { head, tree: merge.tree, changed_files })
}

/// Does what was planned, or the rest of it.
///
/// The index is changed last. So an index that holds the plan means that all is done; and until then, each
/// path holds either what HEAD has or what is to come.
pub(super) async fn run(git: &GitProgram, repository: &Repository, squash: &Squash) -> Result<()> {
    let (tree, planned_head) = (object_id(&squash.tree)?, object_id(&squash.head)?);
    let _lock = Lock::take(repository, squash).await?;
    let head = repository.head().await?;
    let view = git.view(repository, &repository.top, Objects::Temporary)?;
    view.copy_index(&repository.git_dir)?;
    let head_tree = view.tree_of(&head).await?;
    let index_tree = index_tree(&view).await?;
    // The second: done, and committed since.
    if index_tree == tree || head_tree == tree {
        return apply::tidy(repository, squash);
    }
    if head != planned_head {
        return Err(Error::new(
            Code::WorkspaceIndexNotClean,
            format!("HEAD of {} moved to {head} since it was looked at", repository.top.display()),
        )
        .remedy("Call again: it is looked at anew."));
    }
    refuse_under_way(repository)?;
    if index_tree != head_tree {
        return Err(staged(&view, &head_tree).await?);
    }
    let spots = disk::look(git, repository, &view, &head_tree, tree).await?;
    refuse_obstacles(repository, &spots)?;
    apply::files(git, repository, squash, &spots).await?;
    apply::index(&view, squash, &head_tree, &spots).await?;
    apply::tidy(repository, squash)
}

fn refuse_under_way(repository: &Repository) -> Result<()> {
    let found = UNDER_WAY.iter().find(|(name, _)| repository.git_dir.join(name).exists());
    match found {
        None => Ok(()),
        Some((_, what)) => Err(Error::new(
            Code::WorkspaceIndexNotClean,
            format!("{what} is under way in {}", repository.top.display()),
        )),
    }
}

/// The tree of the index.
///
/// # Errors
///
/// `workspace.index_not_clean`: it has conflicts.
async fn index_tree(view: &View<'_>) -> Result<String> {
    let unmerged = view.call().args(["ls-files", "-z", "--unmerged"]).ok().await?;
    // `mode object stage TAB path`, up to three times.
    let paths = records(&unmerged).filter_map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        record.get(tab + 1..).map(changes::shown)
    });
    let mut paths: Vec<_> = paths.collect();
    paths.dedup();
    if paths.is_empty() {
        return view.write_tree().await;
    }
    let what = format!("{} has unresolved conflicts", view.work_tree.display());
    Err(refusal(Code::WorkspaceIndexNotClean, &what, &paths))
}

/// The refusal of an index that differs from HEAD.
async fn staged(view: &View<'_>, head_tree: &str) -> Result<Error> {
    let names = view
        .call()
        .args(["diff-index", "--cached", "-z", "--name-only", "--ita-invisible-in-index"])
        .args(["--no-ext-diff", "--end-of-options", head_tree])
        .ok()
        .await?;
    let paths: Vec<_> = records(&names).map(changes::shown).collect();
    let what = format!("{} has staged changes", view.work_tree.display());
    Ok(refusal(Code::WorkspaceIndexNotClean, &what, &paths))
}

fn refuse_obstacles(repository: &Repository, spots: &[disk::Spot]) -> Result<()> {
    let paths = disk::obstacles(repository, spots)?;
    if paths.is_empty() {
        return Ok(());
    }
    let what =
        format!("what is not committed in {} would be overwritten", repository.top.display());
    Err(refusal(Code::WorkspaceLocalChanges, &what, &paths))
}

struct Merge {
    tree: String,
    /// The commits that it was tried with.
    tried: [String; 3],
}

/// Merges what `commit` did to `base` into a tree.
///
/// Git looks for the base by itself, so it is given commits that have no other: older versions cannot be told,
/// and in a shallow clone it would miss the parents of the real ones.
async fn merge(view: &View<'_>, base: &str, head_tree: &str, commit: &str) -> Result<Merge> {
    let (base_tree, their_tree) = (view.tree_of(base).await?, view.tree_of(commit).await?);
    let root = view.commit_tree(&base_tree, None, "base", Some(NO_DATE)).await?;
    let ours = view.commit_tree(head_tree, Some(&root), "ours", Some(NO_DATE)).await?;
    let theirs = view.commit_tree(&their_tree, Some(&root), "theirs", Some(NO_DATE)).await?;
    let call = view.call().args([
        "merge-tree",
        "--write-tree",
        "-z",
        "--name-only",
        "--no-messages",
        &ours,
        &theirs,
    ]);
    let answer = view.yes_or_no(call, "merge-tree").await?;
    let mut records = records(&answer.stdout);
    let tree = records.next().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    if answer.exit.is_success() {
        object_id(&tree)?;
        return Ok(Merge { tree, tried: [root, ours, theirs] });
    }
    let paths: Vec<_> = records.map(changes::shown).collect();
    let what = format!("the changes conflict with HEAD of {}", view.work_tree.display());
    Err(refusal(Code::WorkspaceConflict, &what, &paths))
}

/// Gives the repository the objects of a view, but those that were only tried with.
fn hand_over(view: &View<'_>, tried: &[String]) -> std::io::Result<()> {
    let Some(own) = view.own_objects() else { return Ok(()) };
    let all = &view.repository.objects;
    for folder in fs_err::read_dir(own)? {
        let folder = folder?;
        let start = folder.file_name();
        // Loose objects are in folders that are named by two digits.
        if start.len() != 2 || !folder.file_type()?.is_dir() {
            continue;
        }
        for object in fs_err::read_dir(folder.path())? {
            let object = object?;
            let name = format!("{}{}", start.display(), object.file_name().display());
            let to = all.join(&start).join(object.file_name());
            if tried.contains(&name) || to.exists() {
                continue;
            }
            fs_err::create_dir_all(all.join(&start))?;
            // Git removes what has such a name and is left over.
            let draft = all.join(&start).join(format!("tmp_obj_{name}"));
            super::view::remove_if_there(&draft)?;
            fs_err::copy(object.path(), &draft)?;
            fs_err::File::open(&draft)?.sync_all()?;
            fs_err::rename(draft, to)?;
        }
    }
    Ok(())
}
