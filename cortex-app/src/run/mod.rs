//! `cortex run`: a file becomes a project, agents and an objective, which is followed to its end.

mod answer;
mod ask;
pub(crate) mod clock;
mod close;
pub(crate) mod draft;
mod ending;
mod file;
mod follow;
mod hints;
mod json;
pub(crate) mod problems;
mod progress;
mod resume;
mod screen;
mod show;
mod start;
mod tree;
pub(crate) mod words;

use std::collections::BTreeMap;

use std::path::PathBuf;

use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::task::{BlockCause, TaskStatus};
use cortex_lib::domain::waiting::{WaitReason, Waiting};
use cortex_lib::error::{Code, Error, Result};

pub(crate) use close::close;
pub(crate) use ending::Ending;
pub(crate) use file::ObjectiveFile;
pub(crate) use hints::{Hints, answers};
pub(crate) use show::Show;

use crate::door::{Door, EventStream, OutputStream};
use answer::Requests;
use follow::{Approval, Follow, Stop};
use progress::Progress;
use start::Crew;

/// What a person asked for besides the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Results that nothing verified count.
    pub(crate) approve_unverified: bool,
    /// Go on with an earlier run, or begin a new one.
    pub(crate) beginning: Beginning,
    /// Say how each tool request was answered.
    pub(crate) tells_requests: bool,
    /// What a person is told to do next.
    pub(crate) hints: Hints,
    /// Where the core keeps its data, and its configuration.
    pub(crate) data_dir: PathBuf,
}

/// How a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// A new objective, unless an earlier one would go on beside it.
    #[default]
    New,
    /// A new objective; earlier ones are cancelled.
    Anew,
    /// The newest one that has not ended.
    Resume,
}

/// What is followed.
struct Begun {
    crew: Crew,
    objective: ObjectiveView,
    events: EventStream,
    output: OutputStream,
    seen: u64,
}

/// How a run came out.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// How it ended.
    pub(crate) ending: Ending,
    /// The objective with whole results, when there is one.
    pub(crate) objective: Option<ObjectiveView>,
}

impl Outcome {
    /// How it comes out when `error` comes before anything was begun.
    pub(crate) fn before(error: Error) -> Self {
        Self { ending: Ending::before(error), objective: None }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        Self { ending: Ending::Error(error), objective: None }
    }
}

/// How the way to an objective came out.
enum Way {
    Begun(Box<Begun>),
    /// There is nothing to go on with.
    Nothing(Box<Outcome>),
}

/// Runs a file on a core until its objective has ended, a person must decide, or `interrupt` comes. The core is
/// left open.
pub(crate) async fn run(
    door: &Door,
    file: &ObjectiveFile,
    wishes: &Wishes,
    show: &mut Show,
    interrupt: impl Future<Output = ()>,
) -> Outcome {
    let outcome = tokio::select! { biased;
        () = interrupt => None,
        outcome = attempt(door, file, wishes, show) => Some(outcome),
    };
    show.finish();
    match outcome {
        Some(outcome) => {
            outcome.unwrap_or_else(|error| left_alone(error, door, &wishes.hints).into())
        }
        None => interrupted(door, file, &wishes.hints).await,
    }
}

/// A core of another process may stop in the middle; what it ran is on disk.
fn left_alone(error: Error, door: &Door, hints: &Hints) -> Error {
    if !door.is_there() || error.code() != Code::CoreStopped {
        return error;
    }
    let resume = hints.run(&["--resume"]);
    error.remedy(format!(
        "The core that ran it was in another process. This goes on with what is left: {resume}"
    ))
}

async fn attempt(
    door: &Door,
    file: &ObjectiveFile,
    wishes: &Wishes,
    show: &mut Show,
) -> Result<Outcome> {
    let way = begin(door, file, wishes, show).await?;
    let begun = match way {
        Way::Begun(begun) => *begun,
        Way::Nothing(outcome) => return Ok(*outcome),
    };
    let id = begun.objective.objective_id.clone();
    let names: BTreeMap<_, _> = begun
        .crew
        .agents
        .iter()
        .map(|agent| (agent.agent_id.clone(), agent.name.clone()))
        .collect();
    let can_ask = show.can_ask();
    let approval = if wishes.approve_unverified {
        Approval::Always
    } else if can_ask {
        Approval::Ask
    } else {
        Approval::Nobody
    };
    let mut follow = Follow {
        door,
        show,
        progress: Progress::new(begun.objective, names),
        events: begun.events,
        output: begun.output,
        approval,
        requests: Requests::new(can_ask, &wishes.hints),
        tells_requests: wishes.tells_requests,
        seen: begun.seen,
    };
    let stop = follow.until_it_stops().await;
    start::dismiss(door, &begun.crew).await;
    let stop = stop?;
    let objective = follow::find_whole(door, &id).await?;
    let ending = match stop {
        Stop::Ended(status) => Ending::Ended(status),
        Stop::Blocked => Ending::NeedsPerson(what_blocks(&wishes.hints, &objective)),
        Stop::Stuck => Ending::NeedsPerson(format!(
            "No agent that may run the rest is up. This starts them and goes on: {}",
            wishes.hints.run(&["--resume"])
        )),
    };
    Ok(Outcome { ending, objective: Some(objective) })
}

async fn begin(door: &Door, file: &ObjectiveFile, wishes: &Wishes, show: &mut Show) -> Result<Way> {
    let checked = start::check_runtimes(door, file, &wishes.data_dir).await;
    if let Err(error) = checked {
        return Ok(Way::Nothing(Box::new(Outcome::before(error))));
    }
    let mut earlier = None;
    if wishes.beginning == Beginning::Resume {
        let found = to_resume(door, file, &wishes.hints, show).await?;
        match found {
            Ok(unended) => earlier = Some(unended),
            Err(outcome) => return Ok(Way::Nothing(Box::new(outcome))),
        }
    }
    let project = start::project(door, file).await?;
    match wishes.beginning {
        Beginning::New => {
            let left = resume::check_alone(door, file, &project, &wishes.hints).await?;
            if let Some(left) = left {
                show.note(&format!(
                    "An earlier run is {} and stays so. This goes on with it: {}",
                    left.status.as_str(),
                    wishes.hints.run(&["--resume"])
                ));
            }
        }
        Beginning::Anew => {
            let cancelled = resume::cancel_earlier(door, file, &project).await?;
            if cancelled > 0 {
                show.note(&format!("Earlier runs that were cancelled: {cancelled}."));
            }
        }
        Beginning::Resume => {}
    }
    // From before the agents start, so that a stream of events tells everything that the run did.
    let seen = door.newest_event().await?;
    let (events, output) = (door.events(Some(seen)).await?, door.output().await?);
    let crew = start::crew(door, file, &project).await?;
    let objective = match earlier {
        Some(objective) => go_on(door, objective, show).await?,
        None => start::objective(door, file, &project, &crew).await?,
    };
    Ok(Way::Begun(Box::new(Begun { crew, objective, events, output, seen })))
}

/// The run to go on with; else how this one ends.
async fn to_resume(
    door: &Door,
    file: &ObjectiveFile,
    hints: &Hints,
    show: &mut Show,
) -> Result<std::result::Result<ObjectiveView, Outcome>> {
    let Some(project) = start::find_project(door, file).await? else {
        return Ok(Err(nothing_yet(file, hints).into()));
    };
    let unended = resume::newest_unended(door, file, &project).await?;
    if let Some(unended) = unended {
        return Ok(Ok(unended));
    }
    let Some(last) = resume::newest(door, file, &project).await? else {
        return Ok(Err(nothing_yet(file, hints).into()));
    };
    show.note("Nothing is left to do: the last run has ended.");
    let objective = follow::find_whole(door, &last.objective_id).await?;
    Ok(Err(Outcome { ending: Ending::Ended(last.status), objective: Some(objective) }))
}

fn nothing_yet(file: &ObjectiveFile, hints: &Hints) -> Error {
    let message = format!("there is nothing to go on with: {:?} was not run here", file.title);
    Error::new(Code::ObjectiveNotFound, message).remedy(format!("Run it: {}", hints.run(&[])))
}

/// Says what is done about tasks whose outcome nobody knows, and does it. Returns the objective as it was before:
/// what happens to it from here on is news.
async fn go_on(
    door: &Door,
    mut objective: ObjectiveView,
    show: &mut Show,
) -> Result<ObjectiveView> {
    let retried = resume::retry_unknown(door, &objective).await?;
    for task in &mut objective.tasks {
        if retried.contains(&task.task_id) {
            show.note(&format!(
                "{}: the core went down while it ran (recovery.outcome_unknown), so nobody knows how far it came. It \
                 is tried again, because you asked to go on.",
                task.key
            ));
        }
        // Agents have come up since this was said.
        let of_agents = |waiting: &Waiting| {
            matches!(
                waiting.reason,
                WaitReason::NoEligibleAgent | WaitReason::AssignedAgentUnavailable
            )
        };
        task.waiting = task.waiting.take().filter(|waiting| !of_agents(waiting));
    }
    Ok(objective)
}

async fn interrupted(door: &Door, file: &ObjectiveFile, hints: &Hints) -> Outcome {
    let again = hints.run(&["--resume"]);
    let next = if door.is_there() {
        format!(
            "The core that serves this data directory goes on with it. Follow it again: {again}"
        )
    } else {
        format!("Go on with what is left: {again}")
    };
    Outcome { ending: Ending::Interrupted(next), objective: newest_here(door, file).await }
}

async fn newest_here(door: &Door, file: &ObjectiveFile) -> Option<ObjectiveView> {
    let project = start::find_project(door, file).await.ok()??;
    let newest = resume::newest(door, file, &project).await.ok()??;
    follow::find_whole(door, &newest.objective_id).await.ok()
}

/// What is blocked, why, and what goes on with it.
fn what_blocks(hints: &Hints, objective: &ObjectiveView) -> String {
    let blocked = |task: &&TaskView| task.status == TaskStatus::Blocked;
    let mut lines = vec!["A person has to decide:".to_owned()];
    for task in objective.tasks.iter().filter(blocked) {
        let cause = task.failure.as_ref().map_or("", |failure| failure.cause.as_str());
        let how = if cause == BlockCause::VerificationMissing.as_str() {
            hints.run(&["--resume", "--approve-unverified"])
        } else if cause == BlockCause::OutcomeUnknown.as_str() {
            hints.run(&["--resume"])
        } else {
            format!("{} && {}", hints.retry(&task.task_id), hints.run(&["--resume"]))
        };
        lines.push(format!("  {}: {}\n    {how}", task.key, words::failure(task)));
    }
    lines.join("\n")
}
