//! What is in a project's folder at the paths that a squash touches, and what of it keeps the squash out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::changes::{self, Entry, Touched};
use super::repository::Repository;
use super::run::{bytes_of, path_of, records, with_nuls};
use super::view::{Objects, View};
use super::{GitProgram, io};
use crate::error::Result;

/// What is at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Absent,
    /// A file or a link.
    Entry(Entry),
    Folder,
    /// Something that git knows nothing of, such as a socket.
    Special,
    /// It cannot be there: this part of its path is a file or a link.
    Blocked(Vec<u8>),
}

/// A touched path with what is there.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) touched: Touched,
    pub(super) place: Place,
    /// The index says that it is left out of the folder (sparse checkout).
    pub(super) is_left_out: bool,
}

/// Looks at the paths that differ between the trees `head` and `tree`. Only looks.
pub(super) async fn look(
    git: &GitProgram,
    repository: &Repository,
    index: &View<'_>,
    head: &str,
    tree: &str,
) -> Result<Vec<Spot>> {
    let touched = changes::touched(index, head, tree).await?;
    let mut kinds = Vec::new();
    for one in &touched {
        kinds.push(kind(&repository.top, &one.path)?);
    }
    let paths = touched.iter().zip(&kinds);
    let present: Vec<_> = paths
        .filter(|(_, kind)| matches!(kind, Kind::Storable))
        .map(|(one, _)| one.path.as_slice())
        .collect();
    let found = contents(git, repository, head, &present).await?;
    let left_out = if kinds.iter().any(|kind| matches!(kind, Kind::Is(Place::Absent))) {
        left_out(index).await?
    } else {
        BTreeSet::new()
    };
    let spots = touched.into_iter().zip(kinds).map(|(touched, kind)| Spot {
        place: match kind {
            Kind::Is(place) => place,
            // What does not differ from HEAD is as HEAD has it.
            Kind::Storable => {
                match found.get(&touched.path).cloned().unwrap_or(touched.old.clone()) {
                    Some(entry) => Place::Entry(entry),
                    None => Place::Special,
                }
            }
        },
        is_left_out: left_out.contains(&touched.path),
        touched,
    });
    Ok(spots.collect())
}

/// The paths that hold something which would be lost: neither what HEAD has there nor what is to come.
pub(super) fn obstacles(repository: &Repository, spots: &[Spot]) -> Result<Vec<String>> {
    let going: BTreeSet<&[u8]> = spots
        .iter()
        .filter(|spot| spot.touched.new.is_none())
        .map(|spot| spot.touched.path.as_slice())
        .collect();
    let modes_count = !repository.is_off("core.filemode");
    let mut paths = BTreeSet::new();
    for spot in spots {
        let Touched { path, old, new } = &spot.touched;
        let gitlink = |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_gitlink);
        let known = |entry: &Entry| {
            [old, new].into_iter().flatten().any(|known| is_same(known, entry, modes_count))
        };
        match &spot.place {
            // A submodule's folder is its own.
            Place::Absent | Place::Folder if gitlink(new) && (gitlink(old) || old.is_none()) => {}
            Place::Folder if gitlink(old) && new.is_none() => {}
            Place::Absent if new.is_none() || old.is_none() || gitlink(old) || spot.is_left_out => {
            }
            Place::Entry(entry) if known(entry) => {}
            Place::Folder | Place::Blocked(_) if new.is_none() => {}
            Place::Blocked(by) if old.is_none() && going.contains(by.as_slice()) => {}
            Place::Blocked(by) => {
                paths.insert(changes::shown(by));
            }
            Place::Folder => {
                let folder = path_of(path);
                for inside in files_in(&repository.top, &folder)? {
                    if !going.contains(inside.as_slice()) {
                        paths.insert(changes::shown(&inside));
                    }
                }
            }
            Place::Absent | Place::Entry(_) | Place::Special => {
                paths.insert(changes::shown(path));
            }
        }
    }
    Ok(paths.into_iter().collect())
}

impl Spot {
    /// Whether the folder has at this path what is to come.
    pub(super) fn is_done(&self) -> bool {
        match (&self.place, &self.touched.new) {
            (Place::Entry(there), Some(new)) => there == new,
            (Place::Entry(_), None) => false,
            (_, None) => true,
            (_, Some(_)) => false,
        }
    }
}

/// Whether two entries are one, on a file system that may know no executable files.
fn is_same(one: &Entry, other: &Entry, modes_count: bool) -> bool {
    let modes = one.mode == other.mode || (!modes_count && one.is_file() && other.is_file());
    modes && one.object == other.object
}

/// A kind of thing at a path; of what git can store the content is not known yet.
#[derive(Debug)]
enum Kind {
    Storable,
    Is(Place),
}

fn kind(top: &Path, path: &[u8]) -> Result<Kind> {
    let relative = path_of(path);
    let mut part = PathBuf::new();
    let parents = relative.parent().map(Path::components).into_iter().flatten();
    for name in parents {
        part.push(name);
        match found(&top.join(&part))? {
            None => return Ok(Kind::Is(Place::Absent)),
            Some(kind) if kind.is_dir() => {}
            Some(_) => return Ok(Kind::Is(Place::Blocked(bytes_of(&part)))),
        }
    }
    Ok(match found(&top.join(&relative))? {
        None => Kind::Is(Place::Absent),
        Some(kind) if kind.is_dir() => Kind::Is(Place::Folder),
        Some(kind) if kind.is_file() || kind.is_symlink() => Kind::Storable,
        Some(_) => Kind::Is(Place::Special),
    })
}

fn found(path: &Path) -> Result<Option<std::fs::FileType>> {
    match fs_err::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("the project's folder cannot be looked at", &error)),
    }
}

/// What is in the folder at `paths`, where it differs from the tree `head`.
///
/// The contents are read anew and not believed from the index: there a file may be marked as one to be passed
/// over.
async fn contents(
    git: &GitProgram,
    repository: &Repository,
    head: &str,
    paths: &[&[u8]],
) -> Result<BTreeMap<Vec<u8>, Option<Entry>>> {
    if paths.is_empty() {
        return Ok(BTreeMap::new());
    }
    let view = git.view(repository, &repository.top, Objects::Temporary)?;
    view.read_tree(head).await?;
    let add = view.call().args(["update-index", "-z", "--add", "--replace", "--stdin"]);
    add.input(with_nuls(paths.iter().copied())).ok().await?;
    let differs = view
        .call()
        .args(["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev"])
        .args(["--no-ext-diff", "--end-of-options", head])
        .ok()
        .await?;
    let differs = changes::raw(&differs)?;
    Ok(differs.into_iter().map(|one| (one.path, one.new)).collect())
}

/// The paths that the index leaves out of the folder.
async fn left_out(index: &View<'_>) -> Result<BTreeSet<Vec<u8>>> {
    let list = index.call().args(["ls-files", "-t", "-z"]).ok().await?;
    Ok(records(&list).filter_map(|it| it.strip_prefix(b"S ")).map(<[u8]>::to_vec).collect())
}

/// All that is in a folder but folders, by paths from `top`.
fn files_in(top: &Path, folder: &Path) -> Result<Vec<Vec<u8>>> {
    let failed = |error: std::io::Error| io("the project's folder cannot be looked at", &error);
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(top.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = folder.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
            } else {
                files.push(bytes_of(&path));
            }
        }
    }
    Ok(files)
}
