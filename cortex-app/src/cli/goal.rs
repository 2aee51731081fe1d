//! A goal for the planner, as `cortex plan` and `cortex propose` take it.

use std::io::{IsTerminal as _, Read as _};

use clap::Args;
use cortex_lib::error::{Code, Error, Problem, Result};

use super::screen::Screen;

/// A goal, and where it is to be reached.
#[derive(Debug, Args)]
pub(super) struct Goal {
    /// The project to plan in, by name or id
    pub(super) project: String,
    /// What is to be reached, in words; `-` reads them from standard input
    #[arg(value_name = "GOAL|-")]
    goal: String,
}

impl Goal {
    /// The words.
    pub(super) fn text(&self) -> Result<String> {
        text(&self.goal, "GOAL")
    }
}

/// What the command line says, or what the standard input says for it.
pub(super) fn text(given: &str, argument: &str) -> Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        let problem = Problem::new(argument, error.to_string());
        Error::invalid(Code::InvalidArguments, vec![problem])
    })?;
    Ok(text.trim_end().to_owned())
}

/// Tells a person who waits at a terminal that it takes its time.
pub(super) fn say_that_it_takes_time(screen: Screen) {
    if std::io::stderr().is_terminal() {
        screen.note("The planner reads the project; it takes up to 5 minutes. Ctrl-C ends it.");
    }
}
