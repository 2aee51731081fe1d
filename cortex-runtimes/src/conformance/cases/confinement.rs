//! What agents cannot do: the planner's, the orchestrator, and whatever a repository brings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cortex_lib::domain::agent::Role;

use super::say;
use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::endpoint::{Endpoint, TOOL, WORD};
use crate::conformance::place::{Bench, Place};
use crate::conformance::scenario::{Act, Attempt, Scenario, quoted};
use crate::conformance::subject::Ability;

pub(super) const CASES: &[Case] = cases!["Confinement":
    a_reading_turn_reads_and_can_do_nothing_else [ReadOnlyTurn] [],
    an_orchestrator_has_the_tools_of_cortex_and_no_others [OrchestratorRole] [],
    what_a_repository_brings_does_not_run [] [Settings],
    what_would_run_by_itself_refuses_the_start [] [Settings],
];

/// What would change something, run something, or reach the network. `outside` is a folder beside the project.
fn attempts(outside: &Path, endpoint: &Endpoint) -> Vec<Act> {
    let (file, other) = (outside.join("written"), outside.join("touched"));
    let command = format!("touch {}", quoted(&other));
    let delegated = format!("run the command {command}");
    [
        Attempt::Write(file),
        Attempt::Run(command),
        Attempt::Fetch(endpoint.page()),
        Attempt::Delegate(delegated),
    ]
    .map(Act::Try)
    .into()
}

/// Every file below the folder with what is in it.
fn tree(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                files.insert(entry.path(), fs_err::read(entry.path())?);
            }
        }
    }
    Ok(files)
}

/// Fails when something of what was tried has worked.
fn nothing_worked(
    place: &Place,
    before: &BTreeMap<PathBuf, Vec<u8>>,
    endpoint: &Endpoint,
) -> Result<(), Stop> {
    let after = tree(&place.stage.project())?;
    let changed: Vec<_> =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
    ensure!(
        changed.is_empty() && after.len() == before.len(),
        "the project was changed: {changed:?}"
    );
    ensure!(endpoint.read() == 0, "it reached the network");
    Ok(())
}

/// The way that a project tries to widen what may be done in it.
fn bring(bench: &Bench<'_>, place: &Place) -> Result<(), Stop> {
    if bench.is_able(Ability::Settings) {
        place.stage.bring(&place.path("trace"))?;
    }
    Ok(())
}

/// S-099
async fn a_reading_turn_reads_and_can_do_nothing_else(bench: &Bench<'_>) -> Outcome {
    let endpoint = Endpoint::start("cortex_session_1").await?;
    let outside = tempfile::Builder::new().prefix("cortex-outside-").tempdir()?;
    let mut scenario = Scenario::new();
    let mut acts = vec![Act::Read("notes.md".into())];
    acts.extend(attempts(outside.path(), &endpoint));
    acts.push(Act::SayWord);
    let prompt = scenario.prompt(acts);
    let place = bench.stage(&scenario).await?;
    fs_err::write(place.path("notes.md"), "The word is «avocet».\n")?;
    bring(bench, &place)?;
    let before = tree(&place.stage.project())?;
    let mut live = place.open_with(|spec| spec.read_only = true).await?;
    live.says(&prompt, "avocet").await?;
    live.close().await?;
    nothing_worked(&place, &before, &endpoint)?;
    ensure!(tree(outside.path())?.is_empty(), "it wrote outside of the project");
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

async fn an_orchestrator_has_the_tools_of_cortex_and_no_others(bench: &Bench<'_>) -> Outcome {
    let endpoint = Endpoint::start("cortex_session_1").await?;
    let outside = tempfile::Builder::new().prefix("cortex-outside-").tempdir()?;
    let mut scenario = Scenario::new();
    let mut acts = vec![Act::Call(TOOL.to_owned())];
    acts.extend(attempts(outside.path(), &endpoint));
    acts.push(Act::SayWord);
    let prompt = scenario.prompt(acts);
    let place = bench.stage(&scenario).await?;
    bring(bench, &place)?;
    let before = tree(&place.stage.project())?;
    let mut live = place
        .open_with(|spec| {
            spec.role = Role::Orchestrator;
            spec.mcp = Some(endpoint.access());
        })
        .await?;
    ensure!(endpoint.asked("tools/list") > 0, "it is ready before it has the tools");
    live.says(&prompt, WORD).await?;
    live.close().await?;
    ensure!(
        endpoint.asked("tools/call") == 1,
        "the tool was called {} times",
        endpoint.asked("tools/call")
    );
    nothing_worked(&place, &before, &endpoint)?;
    ensure!(tree(outside.path())?.is_empty(), "it wrote outside of the project");
    place.nothing_lives(&live.id)?;
    Ok(Seen::Held)
}

async fn what_a_repository_brings_does_not_run(bench: &Bench<'_>) -> Outcome {
    let mut scenario = Scenario::new();
    let hello = scenario.prompt(say("hello"));
    let run = scenario.prompt([Act::Run("true".into()), Act::Say("hello".into())]);
    let place = bench.stage(&scenario).await?;
    let trace = place.path("trace");
    ensure!(place.stage.bring(&trace)?, "the subject brings nothing");
    let mut live = place.open().await?;
    live.says(&hello, "hello").await?;
    if bench.is_able(Ability::Shell) {
        live.says(&run, "hello").await?;
    }
    live.close().await?;
    ensure!(!trace.exists(), "something that the project brought has run");
    Ok(Seen::Held)
}

/// A refused start counts as nothing brought, when it names the file and leaves no trace.
async fn what_would_run_by_itself_refuses_the_start(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let trace = place.path("trace");
    let brought = place.stage.bring_refused(&trace)?;
    if brought.is_empty() {
        return Err(Stop::NotShown("the subject brings nothing".to_owned()));
    }
    let mut texts = BTreeMap::new();
    for file in brought {
        let text = fs_err::read(&file)?;
        fs_err::remove_file(&file)?;
        texts.insert(file, text);
    }
    for (file, text) in texts {
        fs_err::write(&file, text)?;
        for (read_only, role) in
            [(false, Role::Worker), (true, Role::Worker), (false, Role::Orchestrator)]
        {
            let mut spec = place.spec()?;
            (spec.read_only, spec.role) = (read_only, role);
            let id = spec.session_id.clone();
            match place.try_open(spec).await? {
                Err(error) => {
                    let name = file.display().to_string();
                    ensure!(error.message().contains(&name), "{error} does not name {name}");
                }
                Ok(mut live) => {
                    live.close().await?;
                    ensure!(false, "it starts beside {}", file.display());
                }
            }
            place.nothing_lives(&id)?;
        }
        fs_err::remove_file(&file)?;
    }
    ensure!(!trace.exists(), "something that the project brought has run");
    Ok(Seen::Held)
}
