//! What a person or a program sees of a run. Progress goes to the standard error, results to the standard
//! output.

use std::io::{IsTerminal as _, Write as _};

use cortex_lib::api::view::ObjectiveView;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::engine::Output;
use cortex_lib::error::Result;
use cortex_lib::store::Event;
use cortex_lib::time::Timestamp;

use super::ending::Ending;
use super::json::Json;
use super::progress::{Change, Progress};
use super::screen::Screen;
use super::words;
use crate::stdout;

/// How a run is shown.
#[derive(Debug)]
pub(crate) enum Show {
    /// Live, on a terminal.
    Screen(Screen),
    /// One line for each change.
    Plain,
    /// One JSON object in each line of the standard output.
    Json(Json),
}

impl Show {
    /// What fits where the program runs.
    pub(crate) fn new(json: bool) -> Self {
        if json {
            Self::Json(Json::default())
        } else if std::io::stderr().is_terminal() {
            Self::Screen(Screen::new())
        } else {
            Self::Plain
        }
    }

    /// Whether somebody sits there who can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        matches!(self, Self::Screen(_)) && std::io::stdin().is_terminal()
    }

    /// Says something beside the progress.
    pub(crate) fn note(&mut self, text: &str) {
        match self {
            Self::Screen(screen) => screen.line(text),
            Self::Plain => line(text),
            Self::Json(json) => json.note(text),
        }
    }

    /// Says something that the events say, too.
    pub(crate) fn aside_of_events(&mut self, text: &str) {
        if !matches!(self, Self::Json(_)) {
            self.note(text);
        }
    }

    /// The objective goes from here.
    pub(crate) fn begin(&mut self, progress: &Progress, now: Timestamp) {
        let view = progress.view();
        match self {
            Self::Screen(screen) => screen.begin(progress, now),
            Self::Plain => {
                line(&format!("{}: {} tasks", words::plain(&view.title), view.tasks.len()));
                self.changed(&progress.first_changes(now));
            }
            Self::Json(json) => json.begin(view),
        }
    }

    /// Something happened in the core.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Self::Json(json) = self {
            json.event(event);
        }
    }

    /// An agent printed something for the task `key`.
    pub(crate) fn output(&mut self, key: &str, output: &Output) {
        if let Self::Json(json) = self {
            json.output(key, output);
        }
    }

    /// Something happened to tasks.
    pub(crate) fn changed(&mut self, changes: &[Change]) {
        for change in changes {
            let text = format!("{}: {}", change.key, change.text);
            match self {
                Self::Screen(screen) if change.is_trouble => screen.line(&text),
                Self::Plain => line(&text),
                Self::Screen(_) | Self::Json(_) => {}
            }
        }
    }

    /// Time went by.
    pub(crate) fn tick(&mut self, progress: &Progress, now: Timestamp) {
        if let Self::Screen(screen) = self {
            screen.draw(progress, now);
        }
    }

    /// Steps aside while a person is asked.
    pub(crate) fn aside(&mut self) {
        if let Self::Screen(screen) = self {
            screen.aside();
        }
    }

    /// The rows stay as they are from here on.
    pub(crate) fn finish(&mut self) {
        if let Self::Screen(screen) = self {
            screen.finish();
        }
    }

    /// The last word: what the tasks returned and how it ended. `objective` has whole results.
    ///
    /// # Errors
    ///
    /// `core.output_failed`: somebody reads less than there was.
    pub(crate) fn ended(
        &mut self,
        ending: &Ending,
        objective: Option<&ObjectiveView>,
    ) -> Result<()> {
        self.finish();
        let written = if let Self::Json(json) = self {
            json.ended(ending, objective)
        } else {
            let written = objective.map_or(Ok(()), print_results);
            line(&ending.text(objective));
            written
        };
        written.map_err(|error| stdout::failure(&error))
    }
}

/// One line to the standard error. Nobody has to read it.
pub(super) fn line(text: &str) {
    writeln!(std::io::stderr().lock(), "{text}").ok();
}

/// What each task returned.
fn print_results(objective: &ObjectiveView) -> std::io::Result<()> {
    for task in objective.tasks.iter().filter(|task| task.status == TaskStatus::Completed) {
        let Some(result) = &task.result else { continue };
        let (title, evidence) = (words::plain(&task.title), words::evidence(result.evidence));
        stdout::line(&format!("\n== {}: {title} ({evidence})", task.key))?;
        stdout::line(&words::lines(&result.text))?;
    }
    Ok(())
}
