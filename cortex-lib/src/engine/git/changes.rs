//! What differs between two trees.

use std::fmt::Write as _;

use super::repository::object_id;
use super::run::records;
use super::view::View;
use crate::error::{Code, Error, Result};
use crate::port::{Change, ChangedFile};

/// A file or a link in a tree: its mode and the name of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) object: String,
}

/// A path that differs, with what it was and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

impl Entry {
    /// Whether it is a commit of another repository: a submodule.
    pub(super) fn is_gitlink(&self) -> bool {
        self.mode == "160000"
    }

    /// Whether it is a file, executable or not.
    pub(super) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }
}

/// What differs between two trees or commits, with renames, in the order of paths.
///
/// # Errors
///
/// `workspace.unavailable`.
pub(super) async fn between(view: &View<'_>, from: &str, to: &str) -> Result<Vec<ChangedFile>> {
    let output = view
        .call()
        .args(["diff-tree", "-r", "-z", "-M", "--name-status", "--no-ext-diff", "--no-textconv"])
        .args(["--ignore-submodules=none", "--end-of-options", object_id(from)?, object_id(to)?])
        .ok()
        .await?;
    let mut fields = records(&output);
    let mut files = Vec::new();
    while let Some(status) = fields.next() {
        let Some(first) = fields.next() else { return Err(unreadable()) };
        let file = |change| ChangedFile { path: shown(first), change, from: None };
        files.push(match status.first() {
            Some(b'A' | b'C') => file(Change::Added),
            Some(b'D') => file(Change::Deleted),
            Some(b'M' | b'T') => file(Change::Modified),
            Some(b'R') => {
                let Some(path) = fields.next().map(shown) else { return Err(unreadable()) };
                ChangedFile { path, change: Change::Renamed, from: Some(shown(first)) }
            }
            _ => return Err(unreadable()),
        });
    }
    files.sort();
    Ok(files)
}

/// The paths that differ between two trees, each for itself, in git's order.
pub(super) async fn touched(view: &View<'_>, from: &str, to: &str) -> Result<Vec<Touched>> {
    let output = view
        .call()
        .args(["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"])
        .args(["--ignore-submodules=none", "--end-of-options", object_id(from)?, object_id(to)?])
        .ok()
        .await?;
    raw(&output)
}

/// `:mode mode object object status NUL path NUL`.
pub(super) fn raw(output: &[u8]) -> Result<Vec<Touched>> {
    let mut fields = records(output);
    let mut all = Vec::new();
    while let Some(head) = fields.next() {
        let head = String::from_utf8_lossy(head);
        let parts: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let (&[old_mode, new_mode, old, new, _], Some(path)) = (parts.as_slice(), fields.next())
        else {
            return Err(unreadable());
        };
        let entry = |mode: &str, object: &str| {
            let there = mode.bytes().any(|digit| digit != b'0');
            there.then(|| Entry { mode: mode.to_owned(), object: object.to_owned() })
        };
        all.push(Touched {
            path: path.to_owned(),
            old: entry(old_mode, old),
            new: entry(new_mode, new),
        });
    }
    Ok(all)
}

/// A path for people: what is not UTF-8 as git quotes it.
pub(super) fn shown(path: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(path) {
        return text.to_owned();
    }
    let mut text = String::from("\"");
    for &byte in path {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            0x20..=0x7e => text.push(char::from(byte)),
            _ => {
                // Writing to a string does not fail.
                write!(text, "\\{byte:03o}").ok();
            }
        }
    }
    text.push('"');
    text
}

fn unreadable() -> Error {
    Error::new(Code::WorkspaceUnavailable, "git tells differences in a form that is not known")
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_path_that_is_not_utf8_is_shown_as_git_quotes_it() {
        assert_eq!(shown("ä\n\"".as_bytes()), "ä\n\"");
        assert_eq!(shown(b"a\xff\"\n"), r#""a\377\"\n""#);
    }
}
