//! How a run ends, and the exit code that says so.

use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error, Kind};

use super::problems::FileError;
use super::words;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The objective ended.
    Ended(ObjectiveStatus),
    /// Nothing goes on until a person decides. What to do next.
    NeedsPerson(String),
    /// A person interrupted it. What to do next.
    Interrupted(String),
    /// Something failed.
    Error(Error),
    /// The command line or the configuration is wrong, or the file wants what the core does not have; nothing was
    /// begun.
    Refused(Error),
    /// The file is wrong; nothing was done.
    BadFile(FileError),
}

impl Ending {
    /// How it ends when `error` comes before anything was begun.
    pub(crate) fn before(error: Error) -> Self {
        if error.code().kind() == Kind::InvalidArgument || error.code() == Code::RuntimeNotFound {
            Self::Refused(error)
        } else {
            Self::Error(error)
        }
    }

    /// The exit code of the program. `cortex run --help` lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Ended(ObjectiveStatus::Completed) => 0,
            Self::Ended(_) | Self::Error(_) => 1,
            Self::BadFile(_) | Self::Refused(_) => 2,
            Self::NeedsPerson(_) => 3,
            Self::Interrupted(_) => 130,
        }
    }

    /// Its name on the wire.
    pub(crate) fn status(&self) -> &'static str {
        match self {
            Self::Ended(status) => status.as_str(),
            Self::NeedsPerson(_) => ObjectiveStatus::Blocked.as_str(),
            Self::Interrupted(_) => "INTERRUPTED",
            Self::Error(_) | Self::Refused(_) | Self::BadFile(_) => "ERROR",
        }
    }

    /// What to do next, when there is something to do.
    pub(crate) fn next(&self) -> Option<String> {
        match self {
            Self::NeedsPerson(next) | Self::Interrupted(next) => Some(next.clone()),
            Self::Error(_) | Self::Refused(_) | Self::BadFile(_) => {
                self.error().map(|error| error.remediation().to_owned())
            }
            Self::Ended(_) => None,
        }
    }

    /// What failed, if something did.
    pub(crate) fn error(&self) -> Option<Error> {
        match self {
            Self::Error(error) | Self::Refused(error) => Some(error.clone()),
            Self::BadFile(error) => Some(error.to_error()),
            Self::Ended(_) | Self::NeedsPerson(_) | Self::Interrupted(_) => None,
        }
    }

    /// The last lines that a person reads.
    pub(crate) fn text(&self, objective: Option<&ObjectiveView>) -> String {
        let so_far = objective.map(|objective| {
            let completed = |task: &&TaskView| task.status == TaskStatus::Completed;
            format!(
                "{}, {} of {} tasks completed",
                words::plain(&objective.title),
                objective.tasks.iter().filter(completed).count(),
                objective.tasks.len()
            )
        });
        let so_far = so_far.unwrap_or_else(|| "before there was an objective".to_owned());
        match self {
            Self::Ended(status) => {
                let took = objective.and_then(|one| Some(one.ended_at?.since(one.created_at)));
                let took =
                    took.map(|took| format!(" in {}", words::seconds(took))).unwrap_or_default();
                format!("{}: {so_far}{took}", status.as_str())
            }
            Self::NeedsPerson(next) => format!("BLOCKED: {so_far}. {next}"),
            Self::Interrupted(next) => format!("INTERRUPTED: {so_far}. {next}"),
            Self::Error(error) | Self::Refused(error) => {
                format!("error: {error}\n  next: {}", error.remediation())
            }
            Self::BadFile(error) => format!("error: {error}"),
        }
    }
}
