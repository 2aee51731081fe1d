//! The planner: one reading turn of its own, and what becomes of its answer.
#![expect(clippy::indexing_slicing, reason = "a test may stop")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cortex_lib::api::operator::{CoreStatus, RemoveProject, UpdateProject};
use cortex_lib::api::tool::{
    ListAgents, ListTasks, PlanObjective, ProposeObjective, StartAgent, StopAgent,
};
use cortex_lib::api::view::SourceKind;
use cortex_lib::api::{Caller, Command as _, SessionCaller, SessionKind};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::proposal::ProposalStatus;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, ProjectId, RuntimeId, SessionId};
use cortex_lib::limits::GOAL_BYTES_MAX;
use cortex_lib::port::{
    Asked, Health, HealthReport, Opening, Script, SessionSpec, ToolAnswer, Turn,
};
use cortex_lib::settings::Settings;
use cortex_lib::store::{Fate, Faults};
use serde_json::{Value, json};

use crate::bench::{Bench, SCRIPTED, Setup, pass, secs};

/// A plan of two tasks, as a draft.
fn plan() -> Value {
    json!({"title": "Count words", "tasks": [
        {"key": "count", "title": "Count", "description": "Add it.", "type": "implementation", "priority": "high"},
        {"key": "tell", "title": "Tell", "description": "Describe it.", "depends_on": ["count"], "requirements": ["interrupt"]},
    ]})
}

/// The same, as only a proposal may be.
fn proposable() -> Value {
    let mut plan = plan();
    plan["summary"] = json!("First one, then the other.");
    plan["tasks"][0]["estimate"] = json!("small");
    plan
}

fn answer(plan: &Value) -> Script {
    Script::new().answer(plan.to_string())
}

fn plans(settings: &mut Settings) {
    settings.planner.runtime_id = RuntimeId::new(SCRIPTED);
}

/// A core whose planner does this.
fn planner(script: impl Fn(&Turn) -> Script + Send + Sync + 'static) -> Setup {
    Setup::new().runtime(|runtime| runtime.turn(script).default_model("m-1")).settings(plans)
}

/// A planner that opens like this and never answers.
fn opening(how: impl Fn(&SessionSpec) -> Opening + Send + Sync + 'static) -> Setup {
    planner(|_| Script::new()).runtime(|runtime| runtime.opening(how))
}

fn draft(bench: &Bench) -> PlanObjective {
    PlanObjective { project_id: bench.project.clone(), goal: "Count the words.".to_owned() }
}

fn propose(bench: &Bench) -> ProposeObjective {
    ProposeObjective { project_id: bench.project.clone(), goal: "Count the words.".to_owned() }
}

/// Nothing of a planner is left: no process, no folder, no row.
async fn nothing_is_left(bench: &Bench) {
    let planners = bench.store.read(|tx| tx.planner_sessions()).unwrap();
    let left = (bench.world.processes(), bench.world.scratch(), planners);
    assert_eq!(left, (BTreeSet::new(), BTreeSet::new(), Vec::new()));
    assert_eq!(bench.call(CoreStatus {}).await.live_sessions, 0);
}

/// Waits until nothing of a planner is left.
async fn until_nothing_is_left(bench: &Bench) {
    let look = async || {
        let rows = bench.store.read(|tx| tx.planner_sessions()).unwrap();
        (rows.is_empty() && bench.world.processes().is_empty()).then_some(())
    };
    bench.until("the end of the planner", look).await;
    nothing_is_left(bench).await;
}

/// Nothing came of a plan.
async fn nothing_was_made(bench: &Bench) {
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    assert_eq!(bench.store.read(|tx| tx.proposals(None, None)).unwrap(), []);
}

/// S-099, S-100, S-101, S-102
#[tokio::test(start_paused = true)]
async fn a_draft_is_taken_by_create_objective_as_it_is() {
    let bench = planner(|_| answer(&plan())).open().await;
    let args = json!({"project_id": bench.project, "goal": "Count the words."});
    let answer = bench.cx.call_json("plan_objective", args).await.unwrap();
    let expected = json!({"draft": {"project_id": bench.project, "title": "Count words", "tasks": [
        {"key": "count", "title": "Count", "description": "Add it.", "type": "implementation",
         "priority": "high", "depends_on": [], "requirements": []},
        {"key": "tell", "title": "Tell", "description": "Describe it.", "type": "other",
         "priority": "normal", "depends_on": ["count"], "requirements": ["interrupt"]},
    ]}});
    assert_eq!(answer, expected);
    nothing_was_made(&bench).await;
    nothing_is_left(&bench).await;

    let made = bench.cx.call_json("create_objective", answer["draft"].clone()).await.unwrap();
    assert_eq!(made["objective"]["tasks"][1]["key"], "tell");
}

/// S-099
#[tokio::test(start_paused = true)]
async fn the_planner_has_a_reading_session_in_the_root_without_a_credential() {
    let setup = planner(|_| answer(&plan()));
    let bench = setup.open().await;
    let trusted = Some(true);
    bench.call(UpdateProject { trusted, ..UpdateProject::new(bench.project.clone()) }).await;
    bench.call(draft(&bench)).await;
    let [spec] = &bench.world.openings()[..] else { panic!("one session") };
    assert!(!spec.trusted, "what it reads runs nothing, whatever its project is to others");
    assert!(spec.read_only && spec.mcp.is_none() && spec.agent_id.is_none(), "{spec:?}");
    assert_eq!((&spec.cwd, &spec.resume, &spec.model), (&setup.root(), &None, &None));
    let [turn] = &bench.world.turns()[..] else { panic!("one turn") };
    assert!(turn.instruction.contains("```\nCount the words.\n```"), "{}", turn.instruction);
    assert_eq!(turn.attempt_id, None);
}

/// S-106, S-107
#[tokio::test(start_paused = true)]
async fn a_proposal_keeps_the_plan_and_who_wrote_it_and_makes_nothing() {
    let bench = planner(|_| answer(&proposable())).open().await;
    bench.ready("idle").await;
    let made = bench.call(propose(&bench)).await.proposal;
    assert_eq!((made.state, made.revision), (ProposalStatus::Pending, 1));
    assert_eq!((made.goal.as_str(), &made.previous), ("Count the words.", &None));
    let source = &made.source;
    assert_eq!(source.kind, SourceKind::Planner);
    let wrote = (source.runtime_id.as_ref(), source.model.as_deref());
    assert_eq!(wrote, (Some(&RuntimeId::new(SCRIPTED)), Some("m-1")));
    let kept = serde_json::to_value(&made.plan).unwrap();
    assert_eq!(kept["summary"], "First one, then the other.");
    assert_eq!(kept["tasks"][0]["estimate"], "small");

    pass(secs(60)).await;
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    assert_eq!(bench.world.turns().len(), 1, "only the planner's");
    let stored = bench.store.read(|tx| tx.proposal(&made.proposal_id)).unwrap();
    assert_eq!(stored.plan, made.plan);
}

/// Answers that are no plan, each with its code: for a draft, and for a proposal.
fn no_plans() -> Vec<(String, Code, Code)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut plan = plan();
        change(&mut plan);
        plan.to_string()
    };
    let many: Vec<_> = (0..11)
        .map(|n| json!({"key": format!("t{n}"), "title": "t", "description": "d"}))
        .collect();
    let same = |text: String, code| (text, code, code);
    let invalid = Code::PlannerInvalidPlan;
    vec![
        same(String::new(), invalid),
        same("Here is the plan.".to_owned(), invalid),
        same(format!("Here it is: {}", plan()), invalid),
        same(format!("```json\n{}\n```", plan()), invalid),
        same(format!("{} {}", plan(), plan()), invalid),
        same(json!([plan()]).to_string(), invalid),
        same(json!({"plan": plan()}).to_string(), invalid),
        same(with(&|plan| plan["title"] = json!("x".repeat(300 * 1024))), invalid),
        same(with(&|plan| plan["tasks"][0]["assigned_agent_id"] = json!("a")), invalid),
        same(with(&|plan| plan["tasks"][0]["paths"] = json!(["src"])), invalid),
        same(with(&|plan| plan["tasks"][0]["timeout_secs"] = json!(60)), invalid),
        same(with(&|plan| plan["tasks"][0]["max_retries"] = json!(9)), invalid),
        same(with(&|plan| plan["tasks"][0]["model"] = json!("m")), invalid),
        same(with(&|plan| plan["tasks"][0]["outputs"] = json!([])), invalid),
        same(with(&|plan| plan["permissions"] = json!(["Bash"])), invalid),
        same(with(&|plan| plan["tasks"][0]["commands"] = json!(["rm"])), invalid),
        same(
            with(&|plan| plan["tasks"][0]["requirements"] = json!(["workspace_isolation"])),
            invalid,
        ),
        (
            with(&|plan| plan["tasks"][0]["estimate"] = json!("huge")),
            invalid,
            Code::InvalidProposal,
        ),
        same(with(&|plan| plan["tasks"] = json!([])), Code::InvalidObjective),
        same(with(&|plan| plan["tasks"] = json!(many)), Code::InvalidObjective),
        same(
            with(&|plan| plan["tasks"][0]["depends_on"] = json!(["x"])),
            Code::TaskUnknownDependency,
        ),
        same(
            with(&|plan| plan["tasks"][0]["depends_on"] = json!(["tell"])),
            Code::TaskDependencyCycle,
        ),
    ]
}

/// S-104, S-105, S-108, S-109, S-110
#[tokio::test(start_paused = true)]
async fn what_is_no_plan_fails_with_the_code_of_its_fault_and_leaves_nothing() {
    for (text, drafted, proposed) in no_plans() {
        let said = text.clone();
        let bench = planner(move |_| Script::new().answer(said.clone())).open().await;
        let error = bench.refuse(draft(&bench)).await;
        assert_eq!(error.code(), drafted, "{text:.200}: {error}");
        let error = bench.refuse(propose(&bench)).await;
        assert_eq!(error.code(), proposed, "{text:.200}: {error}");
        nothing_was_made(&bench).await;
        nothing_is_left(&bench).await;
    }
}

/// S-103
#[tokio::test(start_paused = true)]
async fn a_turn_without_an_answer_fails_with_the_reason_of_the_runtime() {
    use cortex_lib::domain::attempt::Cause;
    let refused = Error::new(Code::RuntimeRefused, "no credit left");
    let scripts = [
        (Script::new().fail(Cause::Refused, "no credit left"), "no credit left"),
        (Script::new().crash("it fell over"), "it fell over"),
        (Script::new().let_go(), "let go"),
        (Script::new().refused(refused), "no credit left"),
        (Script::new().never_accepted().fail(Cause::Transient, "overloaded"), "overloaded"),
    ];
    for (script, why) in scripts {
        let bench = planner(move |_| script.clone()).open().await;
        let error = bench.refuse(draft(&bench)).await;
        assert_eq!(error.code(), Code::PlannerFailed, "{error}");
        assert!(error.message().contains(why), "{error}");
        nothing_is_left(&bench).await;
    }
}

/// S-103
#[tokio::test(start_paused = true)]
async fn a_planner_that_cannot_start_is_unavailable() {
    let failing = |code| {
        opening(move |_| Opening::Fail(secs(1), Error::new(code, "as told").remedy("Do this.")))
    };
    let lacking =
        |capability| planner(|_| Script::new()).runtime(|runtime| runtime.without(capability));
    let setups = [
        (Setup::new(), "claude-code is not registered"),
        (lacking(Capability::ReadOnlyTurn), "lacks read_only_turn"),
        (lacking(Capability::StructuredSession), "lacks structured_session"),
        (failing(Code::RuntimeNotLoggedIn), "as told"),
        (failing(Code::RuntimeStartFailed), "as told"),
        (failing(Code::RuntimeProtocol), "as told"),
        (opening(|_| Opening::Never), "not ready within 60 s"),
    ];
    for (setup, why) in setups {
        let bench = setup.open().await;
        let error = bench.refuse(draft(&bench)).await;
        assert_eq!(error.code(), Code::PlannerUnavailable, "{error}");
        assert!(error.message().contains(why), "{error}");
        nothing_is_left(&bench).await;
        assert_eq!(bench.world.turns(), [], "no turn was spent");
    }
    let bench = failing(Code::RuntimeNotInstalled).open().await;
    let error = bench.refuse(propose(&bench)).await;
    assert_eq!((error.code(), error.remediation()), (Code::RuntimeNotInstalled, "Do this."));
    nothing_is_left(&bench).await;
}

fn ill(version: Option<&str>) -> HealthReport {
    HealthReport {
        health: Health::Unhealthy,
        version: version.map(str::to_owned),
        executable: None,
        logged_in: None,
        message: Some("it is too old".to_owned()),
        remediation: Some("Update it.".to_owned()),
    }
}

/// S-103: what is known to be ill is looked at again, because somebody may have mended it.
#[tokio::test(start_paused = true)]
async fn a_planner_that_is_known_to_be_ill_spends_no_turn() {
    for (version, code) in
        [(Some("1"), Code::PlannerUnavailable), (None, Code::RuntimeNotInstalled)]
    {
        let setup = planner(|_| answer(&plan())).runtime(|runtime| runtime.health(ill(version)));
        let bench = setup.open().await;
        bench.call(cortex_lib::api::operator::CheckRuntimes {}).await;
        let error = bench.refuse(draft(&bench)).await;
        assert_eq!((error.code(), error.remediation()), (code, "Update it."));
        assert!(error.message().contains("it is too old"), "{error}");
        assert_eq!(bench.world.openings().len(), 0);
    }
}

/// S-103: the five minutes hold for all of it.
#[tokio::test(start_paused = true)]
async fn a_planner_that_never_answers_is_ended_after_five_minutes() {
    let slow = |_: &SessionSpec| Opening::After(secs(50));
    let ignoring = |_: &Turn| Script::new().say("hm").deaf();
    let setup = planner(ignoring).runtime(|runtime| runtime.opening(slow).close_takes(secs(9)));
    let bench = setup.open().await;
    let began = tokio::time::Instant::now();
    let error = bench.refuse(propose(&bench)).await;
    assert_eq!(error.code(), Code::PlannerTimedOut, "{error}");
    assert!((secs(300)..secs(301)).contains(&began.elapsed()), "{:?}", began.elapsed());
    nothing_is_left(&bench).await;
    nothing_was_made(&bench).await;
}

/// S-099
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_ends_the_turn() {
    for slow in [false, true] {
        let how = move |_: &SessionSpec| {
            if slow { Opening::Never } else { Opening::AT_ONCE }
        };
        let bench = opening(how).open().await;
        let look = async || (bench.world.openings().len() == 1).then_some(());
        tokio::select! {
            _ = bench.cx.call(propose(&bench)) => panic!("it has no answer"),
            () = async {
                if slow { bench.until("the start", look).await } else { bench.until_turns(1).await }
            } => {}
        }
        assert_eq!(bench.world.processes().len(), 1);
        until_nothing_is_left(&bench).await;
        nothing_was_made(&bench).await;
    }
}

/// S-099
#[tokio::test(start_paused = true)]
async fn a_core_that_stops_ends_the_planner_and_tells_its_caller() {
    for at_once in [false, true] {
        let bench = planner(|_| Script::new()).open().await;
        let stopping = async {
            bench.until_turns(1).await;
            let began = tokio::time::Instant::now();
            if at_once {
                bench.cortex.shutdown_at_once().await.unwrap();
            } else {
                bench.cortex.shutdown().await.unwrap();
            }
            began.elapsed()
        };
        let (planned, took) = tokio::join!(bench.cx.call(draft(&bench)), stopping);
        assert_eq!(planned.unwrap_err().code(), Code::CoreNotReady);
        assert!(took < secs(1), "{took:?}");
        assert_eq!(bench.world.processes(), BTreeSet::new());
        assert_eq!(bench.world.scratch(), BTreeSet::new());
    }
}

/// S-099: the core dies while the planner works; its process lives on until the next start ends it.
#[test]
fn a_crash_during_planning_leaves_nothing() {
    fn life<T>(work: impl Future<Output = T>) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(work)
    }
    for opens in [true, false] {
        let how = move |_: &SessionSpec| if opens { Opening::AT_ONCE } else { Opening::Never };
        let mut setup = opening(how);
        let project = life(async {
            let bench = setup.open().await;
            let look = async || (!bench.world.processes().is_empty()).then_some(());
            tokio::select! {
                _ = bench.cx.call(propose(&bench)) => panic!("it has no answer"),
                () = bench.until("the session", look) => {}
            }
            setup.world.lose_core();
            bench.project.clone()
        });
        assert_eq!(setup.world.processes().len(), 1, "it lives on");
        life(async {
            let bench = setup.reopen(&project).await;
            nothing_is_left(&bench).await;
            nothing_was_made(&bench).await;
            let sweeps = bench.world.asked().into_iter();
            assert_eq!(sweeps.filter(|asked| matches!(asked, Asked::Sweep(_))).count(), 1);
        });
    }
}

/// S-111, H-44: no turn is spent on a plan that may not be kept.
#[tokio::test(start_paused = true)]
async fn with_twenty_proposals_waiting_no_turn_is_spent() {
    let setup = planner(|_| Script::new().wait(secs(5)).answer(plan().to_string()));
    let bench = setup.open().await;
    for _ in 0..19 {
        bench.call(propose(&bench)).await;
    }
    let turns = bench.world.turns().len();
    // Two for one place: both turns are spent, and the commit decides.
    let both = tokio::join!(bench.cx.call(propose(&bench)), bench.cx.call(propose(&bench)));
    let (kept, refused) = match both {
        (Ok(kept), Err(error)) | (Err(error), Ok(kept)) => (kept, error),
        both => panic!("one of them: {both:?}"),
    };
    assert_eq!(kept.proposal.state, ProposalStatus::Pending);
    assert_eq!(refused.code(), Code::ProposalTooManyPending);
    assert_eq!(bench.world.turns().len(), turns + 2);
    let error = bench.refuse(propose(&bench)).await;
    assert_eq!(error.code(), Code::ProposalTooManyPending);
    assert_eq!(bench.world.turns().len(), turns + 2);
    bench.call(draft(&bench)).await;
}

/// H-22
#[tokio::test(start_paused = true)]
async fn a_planner_counts_as_a_session_that_lives() {
    let setup = planner(|_| Script::new().wait(secs(60)).answer(plan().to_string()))
        .settings(|settings| settings.resources.max_active_processes = 2);
    let bench = setup.open().await;
    let agent = bench.agent("a").await;
    let meanwhile = async {
        bench.until_turns(2).await;
        let third = bench.refuse(propose(&bench)).await;
        let start = bench.refuse(StartAgent { agent_id: agent.clone() }).await;
        (third.code(), start.code(), bench.call(CoreStatus {}).await.live_sessions)
    };
    // Several plan at once.
    let (one, two, seen) =
        tokio::join!(bench.cx.call(draft(&bench)), bench.cx.call(draft(&bench)), meanwhile);
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    assert_eq!(seen, (Code::ResourceLimitReached, Code::ResourceLimitReached, 2));
    bench.call(StartAgent { agent_id: agent.clone() }).await;
    bench.call(StopAgent { agent_id: agent }).await;
    nothing_is_left(&bench).await;
}

/// S-099
#[tokio::test(start_paused = true)]
async fn a_planner_is_never_seen_as_an_agent() {
    let script = Script::new().say("I look.").use_tool("Read: x").wait(secs(60));
    let setup = planner(move |_| script.clone().answer(proposable().to_string()));
    let bench = setup.open().await;
    let mut output = bench.cortex.output();
    let meanwhile = async {
        bench.until_turns(1).await;
        assert_eq!(bench.call(ListAgents { project_id: None }).await.agents, []);
        assert_eq!(bench.store.read(|tx| tx.live_sessions()).unwrap(), []);
        assert_eq!(bench.agent_events().await, []);
        let remove = RemoveProject { project_id: bench.project.clone() };
        assert_eq!(bench.refuse(remove).await.code(), Code::ProjectInUse);
    };
    let (proposed, ()) = tokio::join!(bench.cx.call(propose(&bench)), meanwhile);
    assert!(proposed.is_ok(), "{proposed:?}");
    assert_eq!(bench.call(ListAgents { project_id: None }).await.agents, []);
    assert_eq!(bench.agent_events().await, []);
    let shown = tokio::time::timeout(secs(1), output.next()).await;
    assert!(shown.is_err(), "nothing of it is shown: {shown:?}");
}

/// S-099
#[tokio::test(start_paused = true)]
async fn whatever_the_planner_asks_for_is_denied() {
    let allow = |settings: &mut Settings| {
        let rule = json!([{"id": "all", "tool": "*", "decide": "allow"}]);
        settings.approvals.rules = serde_json::from_value(rule).unwrap();
    };
    let script =
        |_: &Turn| Script::new().ask("Write", json!({"file_path": "x"})).ask("Bash", json!({}));
    let setup = planner(move |turn| script(turn).answer(plan().to_string())).settings(allow);
    let bench = setup.open().await;
    bench.call(draft(&bench)).await;
    let asked = bench.world.asked();
    let answers = asked.iter().filter_map(|asked| match asked {
        Asked::Answer(_, _, answer) => Some(answer.clone()),
        _ => None,
    });
    let denied = ToolAnswer::Deny { reason: "The planner may only read the project.".to_owned() };
    assert_eq!(answers.collect::<Vec<_>>(), [denied.clone(), denied]);
}

/// S-112
#[tokio::test(start_paused = true)]
async fn only_the_user_plans_and_proposes() {
    let bench = planner(|_| answer(&plan())).open().await;
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let cx = bench.cortex.as_caller(Caller::Session(SessionCaller {
            kind,
            agent_id: AgentId::new("a1"),
            project_id: bench.project.clone(),
            session_id: SessionId::new("s1"),
        }));
        let drafted = cx.call(draft(&bench)).await.unwrap_err();
        let proposed = cx.call(propose(&bench)).await.unwrap_err();
        let denied = (Code::PermissionDenied, Code::PermissionDenied);
        assert_eq!((drafted.code(), proposed.code()), denied);
    }
    assert_eq!(bench.world.openings().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_goal_has_one_byte_to_sixteen_kib() {
    let bench = planner(|_| answer(&plan())).open().await;
    for (goal, holds) in [
        (String::new(), false),
        ("x".to_owned(), true),
        ("ä".repeat(GOAL_BYTES_MAX / 2), true),
        ("ä".repeat(GOAL_BYTES_MAX / 2) + "x", false),
    ] {
        let planned = bench.cx.call(PlanObjective { goal, ..draft(&bench) }).await;
        assert_eq!(
            planned.as_ref().err().map(Error::code),
            (!holds).then_some(Code::InvalidArguments)
        );
    }
}

/// Another program holds the file.
#[derive(Debug, Default)]
struct Held(AtomicBool);

impl Faults for Held {
    fn at_commit(&self) -> Fate {
        if self.0.load(Ordering::Relaxed) { Fate::Locked } else { Fate::Commit }
    }
}

/// The session is over, and that cannot be written at first.
#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_kept_is_kept_later() {
    let held = Arc::new(Held::default());
    let mut setup = planner(|_| Script::new().wait(secs(5)).answer(plan().to_string()));
    setup.faults = held.clone();
    let bench = setup.open().await;
    let holding = async {
        bench.until_turns(1).await;
        held.0.store(true, Ordering::Relaxed);
    };
    let (planned, ()) = tokio::join!(bench.cx.call(draft(&bench)), holding);
    assert!(planned.is_ok(), "{planned:?}");
    assert_eq!(bench.world.processes(), BTreeSet::new());
    assert_eq!(bench.call(CoreStatus {}).await.live_sessions, 1, "as far as the store knows");
    held.0.store(false, Ordering::Relaxed);
    until_nothing_is_left(&bench).await;
}

/// Every code that the planning tools declare, met by both.
pub async fn met() -> BTreeSet<(&'static str, Code)> {
    let mut met = BTreeSet::new();
    for (text, drafted, proposed) in no_plans() {
        let bench = planner(move |_| Script::new().answer(text.clone())).open().await;
        assert_eq!(bench.refuse(draft(&bench)).await.code(), drafted);
        assert_eq!(bench.refuse(propose(&bench)).await.code(), proposed);
        met.insert((PlanObjective::NAME, drafted));
        met.insert((ProposeObjective::NAME, proposed));
    }
    let missing = || Error::new(Code::RuntimeNotInstalled, "as told");
    let cases = [
        (Setup::new(), Code::PlannerUnavailable),
        (planner(|_| Script::new()), Code::PlannerTimedOut),
        (planner(|_| Script::new().crash("it fell over")), Code::PlannerFailed),
        (opening(move |_| Opening::Fail(secs(0), missing())), Code::RuntimeNotInstalled),
        (planner(|_| Script::new()), Code::ProjectInvalidRoot),
        (planner(|_| Script::new()), Code::ResourceLimitReached),
        (planner(|_| Script::new()), Code::DataDirUnusable),
        (planner(|_| Script::new()), Code::ProjectNotFound),
    ];
    for (mut setup, code) in cases {
        if code == Code::ResourceLimitReached {
            setup.settings.resources.max_active_processes = 0;
        }
        let bench = setup.open().await;
        if code == Code::ProjectInvalidRoot {
            bench.world.remove_folder(setup.root());
        }
        bench.world.allow_scratch(code != Code::DataDirUnusable);
        let project_id = match code {
            Code::ProjectNotFound => ProjectId::new("nowhere"),
            _ => bench.project.clone(),
        };
        let drafted = PlanObjective { project_id: project_id.clone(), ..draft(&bench) };
        let error = bench.cx.call(drafted).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        let error = bench.cx.call(ProposeObjective { project_id, ..propose(&bench) }).await;
        assert_eq!(error.unwrap_err().code(), code);
        nothing_is_left(&bench).await;
        met.insert((PlanObjective::NAME, code));
        met.insert((ProposeObjective::NAME, code));
    }
    let bench = planner(|_| answer(&plan())).open().await;
    for _ in 0..20 {
        bench.call(propose(&bench)).await;
    }
    let full = bench.refuse(propose(&bench)).await.code();
    met.insert((ProposeObjective::NAME, full));
    met
}
