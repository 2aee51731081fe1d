//! `cortex demo`: the whole of Cortex on a coding CLI of this machine, with a script in place of its model.
//!
//! The real CLI runs with its real tools, in a throw-away home whose model is a server of this process. So nobody
//! has to be logged in, nothing is spent and nothing of the person is read.

mod cli;
mod model;
mod place;
mod surroundings;
mod tell;

use std::path::PathBuf;

use clap::ValueEnum as _;
use cortex_lib::api::tool::IntegrateTask;
use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::plan::Requirement;
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::RuntimeId;
use cortex_scripted::{CliHome, ScriptedServer};

pub(crate) use cli::CodingCli;

use self::place::Place;
use self::surroundings::Clean;
use self::tell::Told;
use crate::boot::Life;
use crate::cli::{Exit, Global};
use crate::door::{Door, Opening};
use crate::run::{self, Beginning, Ending, Hints, ObjectiveFile, Outcome, Show, Wishes};
use crate::signals::StopRequests;

/// What a person may choose.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The CLI; by default the first that is installed.
    pub(crate) cli: Option<CodingCli>,
    /// The program of that CLI; by default where its driver finds it.
    pub(crate) executable: Option<PathBuf>,
    /// Leave the folder where it is.
    pub(crate) keep: bool,
}

/// What to do after an interrupt.
const AGAIN: &str = "See the rest of it: cortex demo";

/// Runs the demo and tells what happened.
///
/// # Errors
///
/// `core.defect` when the surroundings cannot be left.
pub(crate) async fn demo(chosen: Chosen, global: &Global) -> Result<Exit> {
    let Some(surroundings) = Clean::of_this_process() else { return surroundings::again() };
    // First of all: an interrupt leaves nothing behind, whenever it comes.
    let mut stops = StopRequests::listen()?;
    let mut show = Show::new(global.json);
    let set = tokio::select! { biased;
        () = stops.next() => Err(Ending::Interrupted(AGAIN.to_owned())),
        set = Stage::set(&chosen, &surroundings) => set.map_err(Ending::before),
    };
    let stage = match set {
        Ok(stage) => stage,
        Err(ending) => {
            show.ended(&ending, None)?;
            return Ok(Exit::Run(ending.exit_code()));
        }
    };
    show.note(&stage.announcement());
    let (outcome, integrated) = stage.run(global, &mut show, stops).await;
    // Before anything is told: what cannot be written costs nobody the folder.
    let told = stage.leave(&outcome, integrated, chosen.keep);
    show.ended(&outcome.ending, outcome.objective.as_ref())?;
    told.show(global.json)?;
    Ok(if told.has_failed() { Exit::Failed } else { Exit::Run(outcome.ending.exit_code()) })
}

/// Everything that the demo needs: dropped, nothing of it is left.
struct Stage {
    cli: CodingCli,
    executable: PathBuf,
    server: ScriptedServer,
    home: CliHome,
    place: Place,
}

impl Stage {
    async fn set(chosen: &Chosen, surroundings: &Clean) -> Result<Self> {
        let (cli, executable) = find(chosen, surroundings)?;
        // On a thread of its own: git takes a while, and an interrupt is heard meanwhile.
        let place = tokio::task::spawn_blocking(Place::new).await;
        let place = place.map_err(|error| Error::new(Code::Defect, error.to_string()))??;
        let script = model::script(cli, &place.project());
        let no_model = |error: std::io::Error| {
            Error::new(Code::Defect, format!("the scripted model cannot be served: {error}"))
        };
        let server = ScriptedServer::listen(cli.api(), script, 0).await.map_err(no_model)?;
        let home = CliHome::inside(&server, place.root()).map_err(no_model)?;
        home.configure_opencode().map_err(no_model)?;
        place.configure(cli, executable.clone(), &home)?;
        Ok(Self { cli, executable, server, home, place })
    }

    fn announcement(&self) -> String {
        format!(
            "{} at {} runs with a script for a model: no account, no network, no token.",
            self.cli.name(),
            self.executable.display()
        )
    }

    /// Runs the objective as `cortex run` does, and brings in what was made in a worktree.
    async fn run(
        &self,
        global: &Global,
        show: &mut Show,
        mut stops: StopRequests,
    ) -> (Outcome, Result<bool>) {
        let objective = self.place.objective();
        let runtime = RuntimeId::new(self.cli.runtime());
        let file = match ObjectiveFile::read(&objective, Some(&runtime)) {
            Ok(file) => file,
            Err(error) => {
                return (Outcome { ending: Ending::BadFile(error), objective: None }, Ok(false));
            }
        };
        let own = Global { data_dir: Some(self.place.data_dir()), ..global.clone() };
        let door = match Door::open_with(&own, Opening::of(Life::Brief)).await {
            Ok(door) => door,
            Err(error) => return (Outcome::before(error), Ok(false)),
        };
        let wishes = Wishes {
            approve_unverified: false,
            beginning: Beginning::New,
            tells_requests: true,
            hints: Hints::new(&objective, Some(&self.place.data_dir()), &[]),
            data_dir: self.place.data_dir(),
        };
        let mut outcome = run::run(&door, &file, &wishes, show, stops.next()).await;
        if let Ending::Interrupted(next) = &mut outcome.ending {
            AGAIN.clone_into(next);
        }
        let integrated = integrate(&door, &outcome).await;
        run::close(door, show, stops, &outcome.ending).await;
        (outcome, integrated)
    }

    /// Ends the demo; what there is to say about it.
    fn leave(self, outcome: &Outcome, integrated: Result<bool>, keep: bool) -> Told {
        let told = Told::of(&self, outcome, integrated, keep);
        let Self { server, home, place, .. } = self;
        drop(home);
        drop(server);
        if keep {
            place.keep();
        }
        told
    }
}

/// The CLI to run on: the chosen one, else the first that is installed.
fn find(chosen: &Chosen, surroundings: &Clean) -> Result<(CodingCli, PathBuf)> {
    if let Some(cli) = chosen.cli {
        return Ok((cli, cli.find(chosen.executable.clone(), surroundings)?));
    }
    let mut all = CodingCli::value_variants().iter();
    let found = all.find_map(|cli| Some((*cli, cli.find(None, surroundings).ok()?)));
    found.ok_or_else(none_installed)
}

fn none_installed() -> Error {
    let all = CodingCli::value_variants().iter();
    let names: Vec<_> = all.clone().map(|cli| cli.name()).collect();
    let installs: Vec<_> = all.map(|cli| format!("`{}`", cli.install())).collect();
    let message = format!("no coding CLI was found on this machine: {}", names.join(", "));
    Error::new(Code::RuntimeNotInstalled, message).remedy(format!(
        "Install one, no login needed: {}; or name its program with --runtime and --executable.",
        installs.join(" or ")
    ))
}

/// Does what a person does with a result in a worktree that they like.
async fn integrate(door: &Door, outcome: &Outcome) -> Result<bool> {
    let completed = matches!(outcome.ending, Ending::Ended(ObjectiveStatus::Completed));
    let isolated = outcome.objective.as_ref().and_then(isolated);
    let Some(task) = isolated.filter(|_| completed) else { return Ok(false) };
    door.call(IntegrateTask { task_id: task.task_id.clone() }).await?;
    Ok(true)
}

/// The task that worked in a worktree of its own.
fn isolated(objective: &ObjectiveView) -> Option<&TaskView> {
    let isolated = Requirement::WorkspaceIsolation;
    objective.tasks.iter().find(|task| task.requirements.contains(&isolated))
}
