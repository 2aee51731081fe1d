//! A plan in the hands of a person: a file, an editor, and what is wrong with what was written.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use cortex_lib::api;
use cortex_lib::api::tool::EditProposal;
use cortex_lib::api::view::ProposalView;
use cortex_lib::error::{Code, Error, Problem, Result};
use fs_err as fs;
use serde_json::{Value, json};

use crate::boot;
use crate::run::problems::Lines;

/// What a person wrote.
#[derive(Debug)]
pub(super) struct Written {
    /// Where it is.
    pub(super) file: PathBuf,
    text: String,
}

/// Opens the plan of a proposal in the person's editor and waits until it is closed. What was written stays in a
/// file of the data directory until it is taken; what is there from an edit that was refused is opened again.
///
/// # Errors
///
/// `core.data_dir_unusable`; `validation.invalid_arguments` when there is no such editor, or it gave up.
pub(super) fn in_editor(proposal: &ProposalView, data_dir: &Path) -> Result<Written> {
    let folder = data_dir.join("edits");
    boot::make_private(&folder)?;
    let file = folder.join(format!("{}.toml", proposal.proposal_id));
    keep(&file, &as_toml(proposal)?)?;
    let ended = open_editor(&file);
    let why = match ended {
        Ok(status) if status.success() => return Written::read(&file),
        Ok(status) => format!("the editor gave up ({status}); nothing was changed"),
        Err(error) => format!("the editor could not be started: {error}"),
    };
    Err(Error::new(Code::InvalidArguments, why)
        .remedy("Set VISUAL or EDITOR to an editor that waits until the file is closed."))
}

/// Writes the file, unless it is there.
fn keep(file: &Path, text: &str) -> Result<()> {
    let unusable = |error: std::io::Error| Error::new(Code::DataDirUnusable, error.to_string());
    let created = fs::OpenOptions::new().write(true).create_new(true).open(file);
    let mut created = match created {
        Ok(created) => created,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(unusable(error)),
    };
    created.write_all(text.as_bytes()).map_err(|error| {
        // Half a plan must not look like what a person wrote.
        drop(fs::remove_file(file));
        unusable(error)
    })
}

/// The plan as TOML, with a word to the person.
fn as_toml(proposal: &ProposalView) -> Result<String> {
    let plan = toml::to_string_pretty(&proposal.plan)
        .map_err(|error| Error::new(Code::Defect, format!("a plan is no TOML: {error}")))?;
    Ok(format!(
        "# The plan of proposal {}, revision {}. What you save becomes its next revision; nothing runs\n\
         # before that is approved. Saved as it is, nothing changes.\n\n{plan}",
        proposal.proposal_id, proposal.revision
    ))
}

/// As `git` does it: a shell reads the words, so that an editor may have arguments.
#[cfg(unix)]
fn open_editor(file: &Path) -> std::io::Result<ExitStatus> {
    let editor = editor().unwrap_or_else(|| "vi".to_owned());
    Command::new("sh").arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file).status()
}

#[cfg(not(unix))]
fn open_editor(file: &Path) -> std::io::Result<ExitStatus> {
    let editor = editor().unwrap_or_else(|| "notepad".to_owned());
    let mut words = editor.split_whitespace();
    Command::new(words.next().unwrap_or("notepad")).args(words).arg(file).status()
}

fn editor() -> Option<String> {
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    named("VISUAL").or_else(|| named("EDITOR"))
}

impl Written {
    /// What is in a file.
    ///
    /// # Errors
    ///
    /// `validation.invalid_arguments` when it cannot be read.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .map_err(|error| Error::new(Code::InvalidArguments, error.to_string()))?;
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Ok(Self { file, text })
    }

    /// The edit that was written: TOML, or JSON in a file `*.json`.
    ///
    /// # Errors
    ///
    /// `validation.invalid_arguments`, naming every wrong field.
    pub(super) fn edit(&self, proposal: &ProposalView) -> Result<EditProposal> {
        let plan: Value = if self.is_json() {
            serde_json::from_str(&self.text).map_err(|error| self.unreadable(&error.to_string()))?
        } else {
            self.lines()
                .parse()
                .map_err(|error| Error::new(Code::InvalidArguments, error.to_string()))?
        };
        api::read(json!({ "proposal_id": proposal.proposal_id, "plan": plan }))
    }

    /// The refusal of this text, with the lines of what is wrong where they are known.
    pub(super) fn refused(&self, error: Error) -> Error {
        if error.problems().is_empty() || self.is_json() {
            return error;
        }
        let lines = self.lines();
        let problem = |problem: &Problem| {
            let inner = problem.path.strip_prefix("plan.").unwrap_or(&problem.path);
            let line = lines.line_of(inner).map(|line| format!(" (line {line})"));
            let message = format!("{}{}", problem.message, line.unwrap_or_default());
            Problem::new(problem.path.clone(), message)
        };
        Error::invalid(error.code(), error.problems().iter().map(problem).collect())
    }

    fn lines(&self) -> Lines<'_> {
        Lines::of(&self.file, &self.text)
    }

    fn is_json(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == "json")
    }

    fn unreadable(&self, why: &str) -> Error {
        let message = format!("{} is no JSON: {why}", self.file.display());
        Error::new(Code::InvalidArguments, message)
    }
}
