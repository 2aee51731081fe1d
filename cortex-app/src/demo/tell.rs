//! What the demo says at its end: what happened, where it is, and what to do next with a login.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::error::Result;
use cortex_scripted::AnsweredBy;
use serde::Serialize;

use super::{Stage, isolated};
use crate::program::path_word;
use crate::run::{Ending, Outcome};
use crate::stdout;

/// What there is to say.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    #[serde(rename = "type")]
    kind: &'static str,
    runtime_id: &'static str,
    executable: PathBuf,
    /// Requests that the script answered.
    model_requests: usize,
    /// Requests that it had no rule for.
    unanswered: Vec<String>,
    /// Other hosts that the CLI asked for; none was reached.
    other_hosts: BTreeSet<String>,
    files: Vec<String>,
    /// The task whose worktree was brought in.
    integrated: Option<String>,
    integration_error: Option<String>,
    folder: PathBuf,
    kept: bool,
    next: Vec<String>,
    #[serde(skip)]
    name: &'static str,
    #[serde(skip)]
    completed: bool,
}

impl Told {
    /// What is known while everything is still there.
    pub(super) fn of(
        stage: &Stage,
        outcome: &Outcome,
        integrated: Result<bool>,
        kept: bool,
    ) -> Self {
        let requests = stage.server.requests();
        let (answered, unanswered): (Vec<_>, Vec<_>) =
            requests.iter().partition(|request| request.answered_by != AnsweredBy::Nothing);
        let key = outcome.objective.as_ref().and_then(isolated).map(|task| task.key.clone());
        let (done, integration_error) = match integrated {
            Ok(done) => (done, None),
            Err(error) => (false, Some(error.to_string())),
        };
        Self {
            kind: "demo.ended",
            runtime_id: stage.cli.runtime(),
            executable: stage.executable.clone(),
            model_requests: answered.len(),
            unanswered: unanswered.iter().map(ToString::to_string).collect(),
            other_hosts: stage
                .server
                .strangers()
                .into_iter()
                .map(|stranger| stranger.target)
                .collect(),
            files: stage.place.files(),
            integrated: key.filter(|_| done),
            integration_error,
            folder: stage.place.root().to_owned(),
            kept,
            next: next(stage, kept),
            name: stage.cli.name(),
            completed: matches!(outcome.ending, Ending::Ended(ObjectiveStatus::Completed)),
        }
    }

    /// Whether something went wrong after the objective had ended well.
    pub(super) fn has_failed(&self) -> bool {
        self.completed && self.integration_error.is_some()
    }

    /// Says it.
    ///
    /// # Errors
    ///
    /// `core.output_failed`.
    pub(super) fn show(&self, json: bool) -> Result<()> {
        let text = if json { serde_json::to_string(self).unwrap_or_default() } else { self.text() };
        stdout::line(&text).map(drop).map_err(|error| stdout::failure(&error))
    }

    fn text(&self) -> String {
        let mut lines = vec![String::new(), "== what happened".to_owned()];
        lines.push(format!(
            "{} worked for ada and grace with its own tools. A script answered {} requests for its model.",
            self.name, self.model_requests
        ));
        if self.completed {
            lines.push(
                "Each result counted only after check.sh had passed, and each tool request was answered by a rule."
                    .to_owned(),
            );
        }
        if let Some(key) = &self.integrated {
            lines.push(format!(
                "{key} worked in a git worktree of its own. The demo brought its result in: staged, not committed."
            ));
        }
        if let Some(error) = &self.integration_error {
            lines.push(format!("What was made in the worktree was not brought in: {error}"));
        }
        for request in &self.unanswered {
            lines.push(format!("The script had no answer to: {request}"));
        }
        let hosts: Vec<_> = self.other_hosts.iter().map(String::as_str).collect();
        lines.push(if hosts.is_empty() {
            "No other host was asked for anything.".to_owned()
        } else {
            format!("It also asked for {}, and reached none of them.", hosts.join(", "))
        });
        let folder = self.folder.display();
        lines.push(format!("Files: {}", self.files.join(", ")));
        lines.push(if self.kept {
            format!("Kept: {folder}")
        } else {
            format!("Removed: {folder} (--keep leaves it)")
        });
        lines.push(String::new());
        lines.push("== next, with a login of your own".to_owned());
        lines.extend(self.next.iter().cloned());
        lines.join("\n")
    }
}

/// Commands to go on with.
fn next(stage: &Stage, kept: bool) -> Vec<String> {
    let cli = stage.cli;
    let run = |file: &str| {
        format!(
            "cortex run --runtime {} --allow {} --allow {} {file}",
            cli.runtime(),
            cli.writing_tool(),
            cli.shell_tool()
        )
    };
    let mut next = vec!["cortex doctor".to_owned()];
    if kept {
        next.push(run(&path_word(&stage.place.objective())));
    } else {
        next.push(run("examples/objectives/hello.toml"));
    }
    next
}
