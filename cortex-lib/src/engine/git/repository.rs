//! A repository, as git tells of it.

use std::path::{Path, PathBuf};

use super::run::{Call, path_of, records};
use crate::error::{Code, Error, Result};

/// The settings that say how contents, names and merges are to be taken. None of them can name a program.
const SETTINGS: &str = "^(core\\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|protecthfs\
|protectntfs|longpaths|excludesfile|attributesfile|sparsecheckout|sparsecheckoutcone|bigfilethreshold\
|trustctime|checkstat|checkroundtripencoding)|index\\.sparse\
|merge\\.(renames|renamelimit|directoryrenames|renormalize)|diff\\.(renames|renamelimit))$";

/// A repository with a working folder.
#[derive(Clone, Debug)]
pub(super) struct Repository {
    program: PathBuf,
    marker: String,
    /// The root of its working folder.
    pub(super) top: PathBuf,
    /// Where the folder that it was opened for is, from there. Empty: it is the root itself.
    pub(super) prefix: PathBuf,
    /// What belongs to this working folder: HEAD, index.
    pub(super) git_dir: PathBuf,
    /// What all its worktrees share.
    pub(super) common_dir: PathBuf,
    /// Where its objects are.
    pub(super) objects: PathBuf,
    /// `sha1` or `sha256`.
    pub(super) object_format: String,
    /// Name and value, in the order in which the last one counts.
    pub(super) settings: Vec<(String, String)>,
}

impl Repository {
    /// Asks git for the repository around `folder`.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`.
    pub(super) async fn open(program: &Path, folder: &Path, marker: &str) -> Result<Self> {
        let call = || Call::new(program, folder, marker);
        let told = call()
            .args(["rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir"])
            .args(["--git-common-dir", "--git-path", "objects", "--show-object-format"])
            .args(["--show-prefix"])
            .ok()
            .await
            .map_err(|error| unusable(folder, &error))?;
        let lines: Vec<_> = told.split(|byte| *byte == b'\n').collect();
        let &[top, git_dir, common_dir, objects, format, prefix, b""] = lines.as_slice() else {
            let error = "its path has a line break";
            return Err(unusable(folder, &Error::new(Code::WorkspaceUnavailable, error)));
        };
        let answer = call().args(["config", "--null", "--get-regexp", SETTINGS]).answer().await?;
        // It ends with 1 when nothing is set.
        if !answer.exit.is_success() && answer.exit.code != Some(1) {
            return Err(answer.failed("config", folder));
        }
        Ok(Self {
            program: program.to_owned(),
            marker: marker.to_owned(),
            top: path_of(top),
            prefix: path_of(prefix),
            git_dir: path_of(git_dir),
            common_dir: path_of(common_dir),
            objects: path_of(objects),
            object_format: String::from_utf8_lossy(format).into_owned(),
            settings: records(&answer.stdout).map(setting).collect(),
        })
    }

    /// A call in it that reads its configuration.
    pub(super) fn call(&self) -> Call {
        self.call_in(&self.top)
    }

    /// A call in another folder.
    pub(super) fn call_in(&self, folder: &Path) -> Call {
        Call::new(&self.program, folder, &self.marker)
    }

    /// The commit of HEAD.
    ///
    /// # Errors
    ///
    /// `workspace.unavailable`: there is none yet.
    pub(super) async fn head(&self) -> Result<String> {
        let answer = self
            .call()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"])
            .answer()
            .await?;
        if answer.exit.is_success() {
            return Ok(String::from_utf8_lossy(&answer.stdout).trim_end().to_owned());
        }
        Err(Error::new(
            Code::WorkspaceUnavailable,
            format!("the repository of {} has no commit yet", self.top.display()),
        )
        .remedy("Make a first commit, then retry."))
    }

    /// Whether a setting that is true unless it is set is false.
    pub(super) fn is_off(&self, name: &str) -> bool {
        let last = self.settings.iter().rev().find(|(key, _)| key == name);
        last.is_some_and(|(_, value)| {
            matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0" | "")
        })
    }
}

/// `name LF value`; a name alone means true.
fn setting(record: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(record);
    let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
    (name.to_owned(), value.to_owned())
}

fn unusable(folder: &Path, error: &Error) -> Error {
    let message = error.message();
    let text = if message.contains("not a git repository") {
        format!("{} is no git repository", folder.display())
    } else if message.contains("must be run in a work tree") {
        format!("{} is a git repository without a working folder", folder.display())
    } else {
        format!("git cannot work in {}: {message}", folder.display())
    };
    Error::new(Code::WorkspaceUnavailable, text).remedy(error.remediation())
}

/// Checks that this is the name of an object and nothing that git would look up or obey.
///
/// # Errors
///
/// `workspace.unavailable`.
pub(super) fn object_id(text: &str) -> Result<&str> {
    if matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text)
    } else {
        Err(Error::new(Code::WorkspaceUnavailable, format!("{text:?} is no object of git")))
    }
}
