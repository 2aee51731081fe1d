//! Worktrees of Cortex: made, proved, removed.
//!
//! The proof is a marker in git's own record of a worktree (`.git/worktrees/<name>`): there it is no file of
//! the project. Before git makes the record, a note beside the worktree's place says so; the place was empty
//! then, so whatever is found there with the note is a worktree that was cut off half made.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::repository::Repository;
use super::run::path_of;
use super::view::{Objects, remove_if_there};
use super::{GitProgram, io};
use crate::error::{Code, Error, Result};
use crate::port::Worktree;

/// The marker's name in git's record of the worktree.
const MARKER: &str = "cortex.json";

/// What the marker and the note say.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    #[serde(flatten)]
    worktree: Worktree,
    /// The commit that it stands on, once it is whole.
    base: Option<String>,
}

/// What is at the place of a worktree.
#[derive(Debug)]
enum Found {
    Nothing,
    /// The attempt's worktree: git's record of it, and the commit it was made on.
    Whole(PathBuf, String),
    /// Something that is proved to be a part of it, with git's record if there is one.
    Part(Option<PathBuf>),
    /// Anything else, and why it is not proved.
    Foreign(&'static str),
}

/// Makes a worktree, unless it stands.
pub(super) async fn add(
    git: &GitProgram,
    repository: &Repository,
    worktree: &Worktree,
) -> Result<String> {
    match look(repository, worktree)? {
        Found::Whole(_, base) => return Ok(base),
        Found::Foreign(why) => return Err(unowned(worktree, why)),
        Found::Part(record) => clear(repository, worktree, record).await?,
        Found::Nothing => {}
    }
    let base = repository.head().await?;
    prepare(worktree).map_err(|error| io("no folder for a worktree can be made", &error))?;
    repository
        .call()
        // Locked, so that nobody's `git worktree prune` takes the proof away.
        .args([
            "worktree",
            "add",
            "--quiet",
            "--detach",
            "--no-checkout",
            "--lock",
            "--reason",
            &lock_reason(worktree),
        ])
        .args(["--".into(), worktree.path.clone().into_os_string(), OsString::from(&base)])
        .ok_unlocked()
        .await?;
    let record = linked_record(&worktree.path)
        .ok_or_else(|| unowned(worktree, "git made no record of it"))?;
    let mut marker = Marker { worktree: worktree.clone(), base: None };
    write(&record.join(MARKER), &marker)?;
    let view =
        git.view(repository, &worktree.path, Objects::Shared)?.with_index(record.join("index"));
    view.call().args(["read-tree", "--reset", "-u", &base]).ok().await?;
    // A folder that HEAD does not have is still where the attempt works.
    fs_err::create_dir_all(worktree.path.join(&repository.prefix))
        .map_err(|error| io("the project's folder cannot be made in a worktree", &error))?;
    marker.base = Some(base.clone());
    write(&record.join(MARKER), &marker)?;
    remove_if_there(&note(worktree)).map_err(|error| io("a note cannot be removed", &error))?;
    Ok(base)
}

/// Removes what is proved to be the attempt's.
pub(super) async fn remove(repository: &Repository, worktree: &Worktree) -> Result<()> {
    match look(repository, worktree)? {
        Found::Whole(record, _) => clear(repository, worktree, Some(record)).await,
        Found::Part(record) => clear(repository, worktree, record).await,
        Found::Foreign(why) => Err(unowned(worktree, why)),
        Found::Nothing => {
            tidy(repository, worktree);
            Ok(())
        }
    }
}

/// Git's record of a worktree that stands and is proved to be the attempt's.
///
/// # Errors
///
/// `workspace.unowned`.
pub(super) fn proved(repository: &Repository, worktree: &Worktree) -> Result<PathBuf> {
    match look(repository, worktree)? {
        Found::Whole(record, _) => Ok(record),
        Found::Part(_) => Err(unowned(worktree, "only a part of it is there")),
        Found::Nothing => Err(unowned(worktree, "nothing is there")),
        Found::Foreign(why) => Err(unowned(worktree, why)),
    }
}

/// Finds out what is at the place. Nothing is changed.
fn look(repository: &Repository, worktree: &Worktree) -> Result<Found> {
    let path = &worktree.path;
    if !path.is_absolute() || path.file_name().is_none() {
        return Ok(Found::Foreign("its path does not say where it is"));
    }
    let there = match fs_err::symlink_metadata(path) {
        Ok(found) => Some(found.file_type()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(io("the place of a worktree cannot be looked at", &error)),
    };
    let note = read(&note(worktree)).is_some_and(|marker| marker.worktree == *worktree);
    let record = records(repository).into_iter().find_map(|record| {
        let marker = read(&record.join(MARKER))?;
        (marker.worktree == *worktree).then_some((record, marker.base))
    });
    let Some(kind) = there else {
        return Ok(match record {
            Some((record, _)) => Found::Part(Some(record)),
            None if note => Found::Part(None),
            None => Found::Nothing,
        });
    };
    if !kind.is_dir() {
        return Ok(Found::Foreign("it is no folder"));
    }
    if holds_project(path, repository, worktree) {
        return Ok(Found::Foreign("the project is there"));
    }
    let link = fs_err::symlink_metadata(path.join(".git")).ok();
    let linked = linked_record(path);
    Ok(match (record, link) {
        (Some((record, base)), Some(_)) if linked.as_ref().is_some_and(|it| same(it, &record)) => {
            match base {
                Some(base) => Found::Whole(record, base),
                None => Found::Part(Some(record)),
            }
        }
        (Some((record, _)), None) => Found::Part(Some(record)),
        // Git's record is written before the link to it.
        (None, None) if note => Found::Part(None),
        (None, Some(_)) if note && linked.as_ref().is_some_and(|it| is_record(repository, it)) => {
            Found::Part(linked)
        }
        // A git that is killed between making the link and writing it leaves it empty.
        (None, Some(link)) if note && link.is_file() && link.len() == 0 => Found::Part(None),
        (None, None) if is_empty(path) => Found::Nothing,
        (Some(_), Some(_)) => Found::Foreign("it belongs to another repository"),
        (None, _) => Found::Foreign("no marker of this attempt names it"),
    })
}

/// Removes a worktree and git's record of it. The order is such that what is left at any instant still proves
/// whose it is: the marker goes last.
async fn clear(
    repository: &Repository,
    worktree: &Worktree,
    record: Option<PathBuf>,
) -> Result<()> {
    let failed = |error: std::io::Error| io("a worktree cannot be removed", &error);
    if let Some(record) = &record
        && !record.join(MARKER).is_file()
    {
        // It was cut off before it was marked. From here on the note may go first.
        write(&record.join(MARKER), &Marker { worktree: worktree.clone(), base: None })?;
    }
    if worktree.path.is_dir() {
        empty(&worktree.path, ".git").await.map_err(failed)?;
        remove_any(&worktree.path.join(".git")).map_err(failed)?;
        fs_err::remove_dir(&worktree.path).map_err(failed)?;
    }
    let unlinked = records(repository).into_iter().filter(|it| is_unlinked(it, worktree));
    for record in record.into_iter().chain(unlinked).collect::<Vec<_>>() {
        empty(&record, MARKER).await.map_err(failed)?;
        remove_if_there(&record.join(MARKER)).map_err(failed)?;
        fs_err::remove_dir(&record).map_err(failed)?;
    }
    remove_if_there(&note(worktree)).map_err(failed)?;
    tidy(repository, worktree);
    Ok(())
}

/// Why git keeps its record of a worktree, for people who ask it.
fn lock_reason(worktree: &Worktree) -> String {
    format!("Cortex works here for attempt {}", worktree.attempt_id)
}

/// Whether git was making this record for the worktree when it was cut off, before it wrote the link to it.
///
/// Git makes the folder, then `locked`, then `gitdir`, each file empty at first.
fn is_unlinked(record: &Path, worktree: &Worktree) -> bool {
    let text = |name: &str| fs_err::read(record.join(name)).unwrap_or_default();
    if record.join(MARKER).exists() {
        return false;
    }
    match (text("gitdir").trim_ascii_end(), text("locked").trim_ascii_end()) {
        (b"", b"") => record.file_name() == worktree.path.file_name(),
        (b"", reason) => reason == lock_reason(worktree).as_bytes(),
        (names, _) => path_of(names).parent().is_some_and(|place| same(place, &worktree.path)),
    }
}

/// Removes the folders that an interrupted removal left empty. Git does the same with the outer one.
fn tidy(repository: &Repository, worktree: &Worktree) {
    let all = repository.common_dir.join("worktrees");
    if let Some(name) = worktree.path.file_name() {
        fs_err::remove_dir(all.join(name)).ok();
    }
    fs_err::remove_dir(all).ok();
}

/// Makes the folder around the place, and the note beside it.
fn prepare(worktree: &Worktree) -> std::io::Result<()> {
    if let Some(parent) = worktree.path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let marker = Marker { worktree: worktree.clone(), base: None };
    write_synced(&note(worktree), &marker)
}

/// The note that a worktree is being made: beside its place.
fn note(worktree: &Worktree) -> PathBuf {
    let mut name = worktree.path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".making.json");
    worktree.path.with_file_name(name)
}

/// Git's records of the repository's worktrees.
fn records(repository: &Repository) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(repository.common_dir.join("worktrees")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn is_record(repository: &Repository, path: &Path) -> bool {
    records(repository).iter().any(|record| same(record, path))
}

/// The record that the file `.git` of a worktree names.
fn linked_record(path: &Path) -> Option<PathBuf> {
    let link = path.join(".git");
    if !fs_err::symlink_metadata(&link).ok()?.is_file() {
        return None;
    }
    let text = fs_err::read(link).ok()?;
    Some(path_of(text.strip_prefix(b"gitdir: ")?.trim_ascii_end()))
}

/// Whether two paths name one thing that is there, or are equal.
fn same(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((dunce::canonicalize(one), dunce::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
        || matches!((real_parent(one), real_parent(other)), (Some(one), Some(other)) if one == other)
}

/// A path of which only the last part need not be there.
fn real_parent(path: &Path) -> Option<PathBuf> {
    let parent = dunce::canonicalize(path.parent()?).ok()?;
    Some(parent.join(path.file_name()?))
}

/// Whether the project or its repository is at `path` or inside.
fn holds_project(path: &Path, repository: &Repository, worktree: &Worktree) -> bool {
    let Ok(path) = dunce::canonicalize(path) else { return true };
    [&repository.top, &repository.git_dir, &repository.common_dir, &worktree.root]
        .into_iter()
        .any(|place| dunce::canonicalize(place).is_ok_and(|place| place.starts_with(&path)))
}

fn is_empty(path: &Path) -> bool {
    fs_err::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes everything in a folder but one thing. Others get their turn meanwhile.
async fn empty(folder: &Path, but: &str) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() != but {
            remove_any(&entry.path())?;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Removes a file, a link or a folder. A folder that may not be changed is opened up: build tools leave such.
fn remove_any(path: &Path) -> std::io::Result<()> {
    let kind = match fs_err::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_dir() {
        return remove_if_there(path);
    }
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs_err::remove_dir_all(path)
        }
        other => other,
    }
}

#[cfg(unix)]
fn open_up(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::permissions_set_readonly_false, reason = "elsewhere it lets nobody else in")]
fn open_up(folder: &Path) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let mut permissions = entry.metadata()?.permissions();
        permissions.set_readonly(false);
        fs_err::set_permissions(entry.path(), permissions)?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Option<Marker> {
    serde_json::from_slice(&fs_err::read(path).ok()?).ok()
}

fn write(path: &Path, marker: &Marker) -> Result<()> {
    write_synced(path, marker).map_err(|error| io("a marker cannot be written", &error))
}

/// Writes a marker whole or not at all.
fn write_synced(path: &Path, marker: &Marker) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = fs_err::File::create(&draft)?;
    file.write_all(&serde_json::to_vec(marker)?)?;
    file.sync_all()?;
    fs_err::rename(draft, path)
}

fn unowned(worktree: &Worktree, why: &str) -> Error {
    let (path, attempt) = (worktree.path.display(), &worktree.attempt_id);
    Error::new(
        Code::WorkspaceUnowned,
        format!("{path} is not proved to be the worktree of attempt {attempt}: {why}"),
    )
    .with("path", worktree.path.display().to_string())
}
