//! How the world follows a plan: agents, verifications, the disk and the power.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{SessionId, TurnId};
use cortex_lib::port::{
    Choice as Offer, Host, Opening, OutputKind, Question, Runtime, Script, ScriptedHost,
    ScriptedRuntime, ScriptedWorld, SessionEvent, ToolRequest, Turn, Verdict,
};
use cortex_lib::store::{Fate, Faults};
use serde_json::json;

use super::dice::Dice;
use super::git::SimHost;
use super::plan::{Choice, Ending, Event, Plan, Quirk, Setting};

/// The runtimes: one that can do everything, one that cannot interrupt a turn nor go on with a session.
pub const RUNTIMES: [&str; 2] = ["able", "plain"];

/// A turn that nothing is planned for takes this long.
const TAME: Duration = Duration::from_secs(1);

/// Commits of one life. More means that the core writes in circles.
const COMMITS_MAX: u64 = 20_000;

/// What an agent answers to a turn: only that turn may ever have it as its result.
pub fn answer_to(turn: &TurnId) -> String {
    format!("done in {turn}")
}

/// The runtimes of a life.
pub fn runtimes(world: &ScriptedWorld, plan: &Plan, life: u8) -> Vec<Arc<dyn Runtime>> {
    let mut quirks: BTreeMap<usize, Vec<Quirk>> = BTreeMap::new();
    let mut openings = BTreeMap::new();
    let mut close_takes = Duration::ZERO;
    for choice in plan.choices().filter(|choice| choice.life() == life) {
        match choice {
            Choice::Turn(_, nth, quirk) => quirks.entry(*nth).or_default().push(quirk.clone()),
            Choice::Opening(_, nth, how) => drop(openings.insert(*nth, how.clone())),
            Choice::Setting(_, Setting::CloseTakes(time)) => close_takes = *time,
            _ => {}
        }
    }
    let (quirks, openings) = (Arc::new(quirks), Arc::new(openings));
    let (turns, opened) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let runtime = |id: &&str| {
        let (quirks, turns, told) = (Arc::clone(&quirks), Arc::clone(&turns), world.clone());
        let (openings, opened) = (Arc::clone(&openings), Arc::clone(&opened));
        let runtime = ScriptedRuntime::new(*id)
            .in_world(world)
            .close_takes(close_takes)
            .opening(move |_| {
                let nth = opened.fetch_add(1, Ordering::Relaxed);
                openings.get(&nth).cloned().unwrap_or(Opening::AT_ONCE)
            })
            .turn(move |turn| {
                let nth = turns.fetch_add(1, Ordering::Relaxed);
                let quirks = quirks.get(&nth).map(Vec::as_slice).unwrap_or_default();
                script(quirks, turn, &told)
            });
        let runtime = match *id {
            "able" => runtime.with(Capability::InteractiveInput).with(Capability::TerminalSession),
            "plain" => runtime.without(Capability::Interrupt).without(Capability::Resume),
            _ => runtime,
        };
        Arc::new(runtime) as Arc<dyn Runtime>
    };
    RUNTIMES.iter().map(runtime).collect()
}

/// The machine of a life.
pub fn host(world: &ScriptedWorld, plan: &Plan, life: u8) -> Arc<dyn Host> {
    let verdicts = plan.choices().filter_map(|choice| match choice {
        Choice::Verdict(of, nth, how) if *of == life => Some((*nth, how.clone())),
        _ => None,
    });
    let verdicts: BTreeMap<_, _> = verdicts.collect();
    let verified = AtomicUsize::new(0);
    let host = ScriptedHost::new(world).verify(move |_| {
        let nth = verified.fetch_add(1, Ordering::Relaxed);
        verdicts.get(&nth).cloned().unwrap_or(Verdict::Pass(TAME))
    });
    Arc::new(SimHost::new(Arc::new(host), plan, life))
}

fn script(quirks: &[Quirk], turn: &Turn, world: &ScriptedWorld) -> Script {
    let (mut script, mut takes, mut ending) = (Script::new(), TAME, None);
    let mut answer = answer_of(turn, None);
    for quirk in quirks {
        script = match quirk {
            Quirk::Deaf => script.deaf(),
            Quirk::InterruptedAfter(time) => script.interrupted_after(*time),
            Quirk::InterruptFails => {
                script.interrupt_fails(Error::new(Code::RuntimeProtocol, "what?"))
            }
            Quirk::AcceptedAfter(time) => script.accepted_after(*time),
            Quirk::OutlivesClose => script.outlives_close(),
            Quirk::Asks => script.ask("Bash", json!({ "command": "ls" })).say("thinking"),
            Quirk::AsksUser => script.request(question()).say("thinking"),
            Quirk::AsksTwice => asks_twice(script, turn),
            Quirk::PlansBadly(how) => {
                answer = answer_of(turn, Some(*how));
                script
            }
            Quirk::Takes(time) => {
                takes = *time;
                script
            }
            Quirk::Ends(how) => {
                ending = Some(how);
                script
            }
        };
    }
    let mut script = script.wait(takes);
    if turn.attempt_id.is_some() {
        // A task called t0 writes t0.txt: in its worktree, or in the project's folder.
        let key = turn.instruction.split([' ', '.']).nth(1).unwrap_or("t");
        script = script.write(format!("{key}.txt"), turn.id.to_string());
    }
    match ending {
        None => script.answer(answer),
        Some(ending) => end(script, ending, &answer, turn, world),
    }
}

/// A question that an agent has.
fn question() -> ToolRequest {
    let choice = |label: &str| Offer { label: label.to_owned(), description: None };
    let question = Question {
        id: "q".to_owned(),
        text: "Which?".to_owned(),
        choices: vec![choice("one"), choice("other")],
        multiple: false,
        free_text: false,
    };
    ToolRequest { questions: vec![question], ..request("", None, "Ask") }
}

/// One request that waits for its answer, and one beside it that is withdrawn.
fn asks_twice(script: Script, turn: &Turn) -> Script {
    let id = format!("{}-beside", turn.id);
    let beside = request(&id, Some(&turn.id), "Read");
    script
        .emit(SessionEvent::ToolRequest(beside))
        .ask("Bash", json!({ "command": "ls -l" }))
        .emit(SessionEvent::ToolRequestWithdrawn { request_id: id })
        .say("thinking")
}

fn request(id: &str, turn: Option<&TurnId>, tool: &str) -> ToolRequest {
    ToolRequest {
        request_id: id.to_owned(),
        turn_id: turn.cloned(),
        tool: tool.to_owned(),
        summary: format!("use {tool}"),
        input: json!({}),
        questions: Vec::new(),
        of_cortex: None,
    }
}

/// What an agent answers: the planner a plan, which may be a bad one.
fn answer_of(turn: &Turn, badly: Option<u64>) -> String {
    if turn.attempt_id.is_some() || turn.instruction.starts_with("hello") {
        return answer_to(&turn.id);
    }
    let task = |key: &str, on: &[&str]| json!({ "key": key, "title": key, "description": format!("Do {key}."), "depends_on": on });
    let (mut tasks, mut more) = (vec![task("t0", &[]), task("t1", &["t0"])], None);
    match badly.map(|how| how % 6) {
        None => {}
        Some(0) => return "Here is my plan: do it.".to_owned(),
        Some(1) => tasks.clear(),
        Some(2) => tasks = vec![task("t0", &["t1"]), task("t1", &["t0"])],
        Some(3) => tasks = vec![task("t0", &["t9"])],
        Some(4) => more = Some("me"),
        Some(_) => tasks.push(json!({ "requirements": ["workspace_isolation"] })),
    }
    match more {
        None => json!({ "title": "planned", "tasks": tasks }).to_string(),
        Some(agent) => json!({ "title": "planned", "tasks": tasks, "agent": agent }).to_string(),
    }
}

fn end(
    script: Script,
    ending: &Ending,
    answer: &str,
    turn: &Turn,
    world: &ScriptedWorld,
) -> Script {
    let answer = answer.to_owned();
    let late = format!("{answer}, said too late");
    match ending {
        Ending::Never => script,
        Ending::NeverAccepted => script.never_accepted(),
        Ending::Refused(code) => script.refused(Error::new(*code, "no")),
        Ending::Failed(cause) => script.fail(*cause, "broken"),
        Ending::RateLimited => script.rate_limited(None),
        Ending::Crash => script.crash("killed"),
        Ending::LetGo => script.let_go(),
        Ending::AnswersTwice => script.answer(answer).answer(late),
        Ending::EndsUnasked(time) => script.stop().wait(*time).answer(late),
        Ending::AnswersThenCrashes(time) => script.answer(answer).wait(*time).crash("later"),
        Ending::AnswersForMadeUp => {
            script.end_another(TurnId::new("made-up")).wait(Duration::from_secs(3)).answer(answer)
        }
        Ending::AnswersForEarlier(dice) => {
            let mut turns = world.turns();
            turns.retain(|other| other.id != turn.id);
            match Dice::new(*dice).pick(&turns) {
                Some(other) => script.end_another(other.id.clone()),
                None => script,
            }
            .wait(Duration::from_secs(3))
            .answer(answer)
        }
        Ending::LongTool(time) => script.use_tool("a long build").wait(*time).answer(answer),
        Ending::FailsThenAnswers => script.fail(Cause::Transient, "first this").answer(late),
        Ending::Gibberish => {
            gibberish().into_iter().fold(script, Script::emit).wait(TAME).answer(answer)
        }
    }
}

/// Events that do not fit anything.
fn gibberish() -> Vec<SessionEvent> {
    let odd = TurnId::new("\u{0}\u{fffd} ");
    let request = ToolRequest {
        request_id: String::new(),
        turn_id: Some(odd.clone()),
        tool: "\u{1b}[2J".to_owned(),
        summary: "x".repeat(10_000),
        input: json!([{ "a": null }]),
        questions: Vec::new(),
        of_cortex: None,
    };
    vec![
        SessionEvent::Active,
        SessionEvent::ToolRequestWithdrawn { request_id: "nobody asked".to_owned() },
        SessionEvent::NativeSession { native_session_id: String::new() },
        SessionEvent::Output {
            turn_id: Some(odd),
            kind: OutputKind::Thinking,
            text: String::new(),
        },
        SessionEvent::ToolRequest(request),
        SessionEvent::NativeSession { native_session_id: "another name".to_owned() },
    ]
}

/// Lets the planned events happen.
pub async fn happen(world: &ScriptedWorld, plan: &Plan, life: u8, root: &std::path::Path) {
    let events = plan.choices().filter_map(|choice| match choice {
        Choice::Event(of, at, event) if *of == life => Some((*at, *event)),
        _ => None,
    });
    let mut events: Vec<_> = events.collect();
    events.sort_by_key(|(at, _)| *at);
    let began = tokio::time::Instant::now();
    for (at, event) in events {
        tokio::time::sleep_until(began + at).await;
        // The youngest one, which tells less about ids than the first would.
        let session = world.processes().into_iter().next_back().map(SessionId::new);
        match (event, session) {
            (Event::SessionDies, Some(session)) => world.kill(&session, "killed by somebody").await,
            (Event::Gibberish, Some(session)) => {
                for event in gibberish() {
                    world.emit(&session, event).await;
                }
            }
            (Event::FolderGone(time), _) => {
                world.remove_folder(root);
                tokio::time::sleep(time).await;
                world.restore_folder(root);
            }
            (Event::SessionDies | Event::Gibberish, None) => {}
        }
    }
}

/// The disk and the power of a life.
#[derive(Debug)]
pub struct SimFaults {
    faults: BTreeMap<u64, Fate>,
    every_fifth: Fate,
    commits: AtomicU64,
}

impl SimFaults {
    /// As planned. `every_fifth`: what a store with a planted defect does with every fifth commit.
    pub fn new(plan: &Plan, life: u8, every_fifth: Option<Fate>) -> Self {
        let faults = plan.choices().filter_map(|choice| match choice {
            Choice::Fault(of, commit, fate) if *of == life => Some((*commit, *fate)),
            _ => None,
        });
        let every_fifth = every_fifth.unwrap_or(Fate::Commit);
        Self { faults: faults.collect(), every_fifth, commits: AtomicU64::new(0) }
    }

    /// Commits so far.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Whether so much was written that it cannot be right.
    pub fn is_flooded(&self) -> bool {
        self.commits() > COMMITS_MAX
    }
}

impl Faults for SimFaults {
    fn at_commit(&self) -> Fate {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed);
        if self.is_flooded() {
            return Fate::LoseBefore;
        }
        let unplanned = if nth % 5 == 4 { self.every_fifth } else { Fate::Commit };
        self.faults.get(&nth).copied().unwrap_or(unplanned)
    }
}

/// What is in the world that is not Cortex's.
pub fn strangers() -> BTreeSet<String> {
    ["claude of somebody else", "a server"].map(str::to_owned).into()
}
