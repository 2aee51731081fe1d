//! `cortex run`.

use std::path::PathBuf;

use clap::Args;
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::RuntimeId;

use super::{Exit, Global, Screen};
use crate::boot::Life;
use crate::door::{Door, Opening};
use crate::run::{self, Beginning, Ending, Hints, ObjectiveFile, Outcome, Show, Wishes};
use crate::signals::StopRequests;

const EXIT_CODES: &str = "\
Exit codes:
  0    the objective is COMPLETED
  1    it FAILED or was CANCELLED, or Cortex could not do what was asked
  2    the command line, the file or the configuration is wrong; nothing was begun
  3    nothing goes on until a person decides; what to do is printed
  130  interrupted; what goes on with it is printed

Ctrl-C stops in order: turns are interrupted and go on with --resume. Again: at once.

Progress goes to the standard error, what the tasks returned to the standard output. With --json the standard
output has one JSON object in each line: run.started, every event of the core as it is, output (what agents
print), run.note, and at the end run.ended with status, exit_code, next, error and the objective.

Coding CLIs ask before they write files or run programs. Cortex answers by the rules of the project, by approvals.rules in
config.json, then by --allow. It asks you about the rest: in a terminal right there; else it says what waits and how
cortex approvals answers it from elsewhere. What nobody answers in time is denied and its task waits (exit code 3). With
--verbose each answer is told with the rule that gave it.

A core that serves the data directory already (cortex serve) runs the objective; else one is opened for it.";

/// Run the objective of a file to its end.
///
/// Registers the file's project, creates and starts its agents, runs its tasks with live progress, and prints what each
/// task returned.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Run {
    /// The objective file (TOML); examples/objectives/README.md describes it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Run every agent on this runtime, whatever the file says: claude-code, codex, opencode, command:NAME
    #[arg(long, value_name = "ID")]
    runtime: Option<String>,
    /// Let agents use this tool of their runtime: Write, Edit, Bash. A pattern; may be given again
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Let results count that no verification proves
    #[arg(long)]
    approve_unverified: bool,
    /// Go on with the newest run of the file that has not ended. Tasks whose outcome nobody knows are tried again
    #[arg(long, conflicts_with = "anew")]
    resume: bool,
    /// Cancel earlier runs of the file that have not ended, and begin a new one
    #[arg(long)]
    anew: bool,
}

impl Run {
    /// Runs it. The exit code says how it ended.
    pub(super) async fn run(self, global: &Global) -> Exit {
        let mut show = Show::new(global.json);
        let outcome = self.outcome(global, &mut show).await;
        let shown = show.ended(&outcome.ending, outcome.objective.as_ref());
        let code = outcome.ending.exit_code();
        let Err(error) = shown else { return Exit::Run(code) };
        // Whoever reads the results did not get all of them.
        Screen::new(global.json).fail(&error);
        if code == Exit::Done.code() { Exit::Failed } else { Exit::Run(code) }
    }

    async fn outcome(&self, global: &Global, show: &mut Show) -> Outcome {
        let runtime = self.runtime.clone().map(RuntimeId::new);
        let file = match ObjectiveFile::read(&self.file, runtime.as_ref()) {
            Ok(file) => file,
            Err(error) => return Outcome { ending: Ending::BadFile(error), objective: None },
        };
        let mut stops = match StopRequests::listen() {
            Ok(stops) => stops,
            Err(error) => {
                let message = format!("the system does not let Ctrl-C be heard: {error}");
                return Error::new(Code::Defect, message).into();
            }
        };
        let data_dir = match global.data_dir() {
            Ok(data_dir) => data_dir,
            Err(error) => return Outcome::before(error),
        };
        let opening =
            Opening { life: Life::Brief, extra: file.runtimes.clone(), rules: self.rules() };
        let door = match Door::open_with(global, opening).await {
            Ok(door) => door,
            Err(error) => return Outcome::before(error),
        };
        if door.is_there() && !self.allow.is_empty() {
            return Outcome::before(allowed_elsewhere());
        }
        let outcome =
            run::run(&door, &file, &self.wishes(global, data_dir), show, stops.next()).await;
        run::close(door, show, stops, &outcome.ending).await;
        outcome
    }

    /// What the person allows, for the core that is opened here.
    fn rules(&self) -> Vec<Rule> {
        let rule = |tool: &String| Rule {
            id: "cortex run --allow".to_owned(),
            tool: tool.clone(),
            input: None,
            agent: None,
            decide: Decide::Allow,
        };
        self.allow.iter().map(rule).collect()
    }

    fn wishes(&self, global: &Global, data_dir: PathBuf) -> Wishes {
        let beginning = match (self.resume, self.anew) {
            (true, _) => Beginning::Resume,
            (false, true) => Beginning::Anew,
            (false, false) => Beginning::New,
        };
        let runtime = self.runtime.iter().map(|id| ("--runtime", id.as_str()));
        let allow = self.allow.iter().map(|tool| ("--allow", tool.as_str()));
        let options: Vec<_> = runtime.chain(allow).collect();
        let hints = Hints::new(&self.file, global.data_dir.as_deref(), &options);
        Wishes {
            approve_unverified: self.approve_unverified,
            beginning,
            tells_requests: global.verbose > 0,
            hints,
            data_dir,
        }
    }
}

/// A core that runs already took its rules from its configuration.
fn allowed_elsewhere() -> Error {
    let message = "another process serves this data directory, and --allow cannot change its rules";
    Error::new(Code::ConfigInvalid, message).remedy(
        "Put the rules under approvals.rules in its config.json and start it again, or stop it.",
    )
}
