//! Plans that wait for a person, and what becomes of them.

use cortex_lib::Caller;
use cortex_lib::api::operator::{AddProject, RemoveProject};
use cortex_lib::api::tool::{
    ApproveProposal, EditProposal, ListProjects, ListProposals, ListTasks, RejectProposal,
};
use cortex_lib::api::view::{ProposalView, SourceKind};
use cortex_lib::api::{Command, Cx, SessionCaller, SessionKind};
use cortex_lib::domain::plan::{Requirement, TaskType};
use cortex_lib::domain::proposal::{ProposalSource, ProposalState, ProposalStatus};
use cortex_lib::domain::proposed::{Estimate, ProposedPlan, ProposedTask};
use cortex_lib::domain::schedule::Priority;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::{Code, Error, Kind};
use cortex_lib::ids::{AgentId, ProjectId, ProposalId, RuntimeId, SessionId};
use cortex_lib::progress::NewProposal;
use cortex_lib::store::Proposal;
use serde_json::{Value, json};

use crate::bench::{Bench, Setup, pass, secs};

/// A task of a plan that does what its key says.
pub fn task(key: &str, depends_on: &[&str]) -> ProposedTask {
    ProposedTask {
        key: key.to_owned(),
        title: format!("The {key}"),
        description: format!("Do {key}."),
        task_type: TaskType::Implementation,
        priority: Priority::High,
        depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
        requirements: Vec::new(),
        estimate: Some(Estimate::Medium),
    }
}

pub fn plan(title: &str) -> ProposedPlan {
    let tasks = vec![task("x", &[]), task("y", &["x"])];
    ProposedPlan { title: title.to_owned(), summary: Some("First x, then y.".to_owned()), tasks }
}

pub fn one_task(task: ProposedTask) -> ProposedPlan {
    ProposedPlan { tasks: vec![task], ..plan("p") }
}

/// What the planner hands over when its turn has ended.
pub fn new_proposal(project: &ProjectId, plan: ProposedPlan) -> NewProposal {
    let source = ProposalSource::Planner {
        runtime_id: RuntimeId::new("claude-code"),
        model: Some("opus".to_owned()),
    };
    NewProposal { project_id: project.clone(), goal: "Ship it".to_owned(), source, plan }
}

pub async fn try_propose(bench: &Bench, new: NewProposal) -> Result<Proposal, Error> {
    bench.store.write(move |tx| tx.propose(new)).await
}

pub async fn propose(bench: &Bench, title: &str) -> ProposalId {
    try_propose(bench, new_proposal(&bench.project, plan(title))).await.unwrap().id
}

/// A pending proposal of a plan that no door lets in: the rules were others when it came.
pub async fn propose_anyway(bench: &Bench, plan: ProposedPlan) -> ProposalId {
    let id = ProposalId::new(format!("forced-{}", list(bench).await.len()));
    let proposal = Proposal {
        id: id.clone(),
        first_id: id.clone(),
        revision: 1,
        project_id: bench.project.clone(),
        goal: "Ship it".to_owned(),
        source: ProposalSource::Operator,
        previous: None,
        plan,
        state: ProposalState::Pending,
        resolution: None,
        created_at: cortex_lib::time::Timestamp::from_millis(0),
    };
    bench.store.write(move |tx| tx.insert_proposal(&proposal)).await.unwrap();
    id
}

pub fn edit(id: &ProposalId, plan: ProposedPlan) -> EditProposal {
    EditProposal { proposal_id: id.clone(), plan }
}

pub fn approve(id: &ProposalId) -> ApproveProposal {
    ApproveProposal { proposal_id: id.clone() }
}

pub fn reject(id: &ProposalId) -> RejectProposal {
    RejectProposal { proposal_id: id.clone(), reason: Some("too large".to_owned()) }
}

pub async fn list(bench: &Bench) -> Vec<ProposalView> {
    bench.call(ListProposals { project_id: None, state: None }).await.proposals
}

pub async fn see(bench: &Bench, id: &ProposalId) -> ProposalView {
    list(bench).await.into_iter().find(|proposal| proposal.proposal_id == *id).unwrap()
}

/// What is told of proposals and objectives, as pairs of kind and data.
fn told(bench: &Bench, after: u64) -> Vec<(String, Value)> {
    let events = bench.store.read(|tx| tx.events_after(Some(after), 1_000)).unwrap();
    events.into_iter().map(|event| (event.kind.as_str().to_owned(), event.data)).collect()
}

/// Sees that a call is refused and leaves no trace.
pub async fn refused<C: Command<Output: std::fmt::Debug>>(bench: &Bench, call: C) -> Error {
    let seen = (bench.cortex.newest_event().unwrap(), list(bench).await);
    let error = bench.refuse(call).await;
    assert_eq!((bench.cortex.newest_event().unwrap(), list(bench).await), seen, "{error}");
    error
}

fn paths(error: &Error) -> Vec<&str> {
    error.problems().iter().map(|problem| problem.path.as_str()).collect()
}

/// S-036, S-106, S-107, S-113
#[tokio::test(start_paused = true)]
async fn a_proposed_plan_is_kept_and_nothing_runs() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let before = bench.cortex.newest_event().unwrap();
    let id = propose(&bench, "p").await;
    pass(secs(3_600)).await;

    let proposal = see(&bench, &id).await;
    assert_eq!(
        serde_json::to_value(&proposal).unwrap(),
        json!({
            "proposal_id": id, "revision": 1, "project_id": bench.project, "goal": "Ship it",
            "state": "pending",
            "source": { "kind": "planner", "runtime_id": "claude-code", "model": "opus" },
            "previous": null, "superseded_by": null,
            "plan": { "title": "p", "summary": "First x, then y.", "tasks": [
                { "key": "x", "title": "The x", "description": "Do x.", "type": "implementation",
                  "priority": "high", "depends_on": [], "requirements": [], "estimate": "medium" },
                { "key": "y", "title": "The y", "description": "Do y.", "type": "implementation",
                  "priority": "high", "depends_on": ["x"], "requirements": [], "estimate": "medium" },
            ]},
            "created_at": proposal.created_at, "resolution": null,
        })
    );
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    assert_eq!(bench.world.turns().len(), 0);
    let told = told(&bench, before);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "proposal.created");
    assert_eq!(told[0].1["proposal_id"], json!(id));
}

/// S-105, S-107: the door of the planner checks the rules itself.
#[tokio::test(start_paused = true)]
async fn a_plan_that_breaks_a_rule_is_not_kept() {
    let bench = Setup::new().open().await;
    let many = (0..11).map(|n| task(&format!("t{n}"), &[])).collect();
    let isolated =
        ProposedTask { requirements: vec![Requirement::WorkspaceIsolation], ..task("x", &[]) };
    for (plan, code) in [
        (ProposedPlan { tasks: Vec::new(), ..plan("p") }, Code::InvalidObjective),
        (ProposedPlan { tasks: many, ..plan("p") }, Code::InvalidObjective),
        (one_task(isolated), Code::InvalidObjective),
        (one_task(task("x", &["z"])), Code::TaskUnknownDependency),
    ] {
        let error = try_propose(&bench, new_proposal(&bench.project, plan)).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    let nowhere = new_proposal(&ProjectId::new("nowhere"), plan("p"));
    assert_eq!(try_propose(&bench, nowhere).await.unwrap_err().code(), Code::ProjectNotFound);
    assert_eq!(list(&bench).await, []);
}

/// S-114, S-115, S-116
#[tokio::test(start_paused = true)]
async fn an_edit_is_a_new_revision_and_the_old_one_is_over() {
    let bench = Setup::new().open().await;
    let id = propose(&bench, "p").await;
    let before = bench.cortex.newest_event().unwrap();
    let mut changed = see(&bench, &id).await.plan;
    changed.title = "q".to_owned();
    let next = bench.call(edit(&id, changed.clone())).await.proposal;
    assert_eq!((next.revision, next.state), (2, ProposalStatus::Pending));
    assert_eq!((next.source.kind, &next.source.runtime_id), (SourceKind::Operator, &None));
    assert_eq!(next.source.model, None);
    assert_eq!((next.previous.as_ref(), &next.plan), (Some(&id), &changed));
    assert_eq!((next.goal.as_str(), &next.superseded_by), ("Ship it", &None));
    assert_eq!(next.resolution, None);

    let old = see(&bench, &id).await;
    assert_eq!(
        (old.state, old.superseded_by),
        (ProposalStatus::Superseded, Some(next.proposal_id.clone()))
    );
    let resolution = old.resolution.unwrap();
    assert_eq!((resolution.by.as_str(), resolution.at), ("user", next.created_at));
    assert_eq!((resolution.reason, resolution.objective_id), (None, None));
    assert_eq!(old.plan.title, "p", "the history can be read");
    let told: Vec<_> = told(&bench, before).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(told, ["proposal.superseded", "proposal.created"]);

    let third = bench.call(edit(&next.proposal_id, plan("r"))).await.proposal;
    let ids: Vec<_> = list(&bench).await.into_iter().map(|p| (p.revision, p.proposal_id)).collect();
    assert_eq!(ids, [(1, id), (2, next.proposal_id), (3, third.proposal_id)], "oldest first");
}

/// S-116: the plan is passed as `list_proposals` shows it, `null` for what it does not have.
#[tokio::test(start_paused = true)]
async fn a_listed_plan_can_be_passed_back() {
    let bench = Setup::new().open().await;
    let bare = ProposedPlan {
        summary: None,
        ..one_task(ProposedTask { estimate: None, ..task("x", &[]) })
    };
    let id = try_propose(&bench, new_proposal(&bench.project, bare)).await.unwrap().id;
    let listed = bench.cx.call_json("list_proposals", json!({})).await.unwrap();
    let plan = &listed["proposals"][0]["plan"];
    assert_eq!((&plan["summary"], &plan["tasks"][0]["estimate"]), (&Value::Null, &Value::Null));
    let args = json!({ "proposal_id": id, "plan": plan });
    let edited = bench.cx.call_json("edit_proposal", args).await.unwrap();
    assert_eq!(&edited["proposal"]["plan"], plan);
}

/// S-116, S-118, S-120, H-12
#[tokio::test(start_paused = true)]
async fn an_edit_that_breaks_a_rule_changes_nothing() {
    let bench = Setup::new().open().await;
    let id = propose(&bench, "p").await;
    let isolated =
        ProposedTask { requirements: vec![Requirement::WorkspaceIsolation], ..task("x", &[]) };
    let many =
        ProposedPlan { tasks: (0..11).map(|n| task(&format!("t{n}"), &[])).collect(), ..plan("p") };
    let cycle = ProposedPlan { tasks: vec![task("x", &["y"]), task("y", &["x"])], ..plan("p") };
    for (plan, code, path) in [
        (many, Code::InvalidObjective, "plan.tasks"),
        (one_task(task("X", &[])), Code::InvalidObjective, "plan.tasks[0].key"),
        (one_task(isolated), Code::InvalidObjective, "plan.tasks[0].requirements"),
        (one_task(task("x", &["z"])), Code::TaskUnknownDependency, "plan.tasks[0].depends_on[0]"),
        (cycle, Code::TaskDependencyCycle, "plan.tasks"),
    ] {
        let error = refused(&bench, edit(&id, plan)).await;
        assert_eq!((error.code(), paths(&error)), (code, vec![path]));
        assert!(error.message().starts_with(path), "{error}");
    }
    let before = list(&bench).await;
    for (field, value, path) in [
        ("title", json!(null), "plan.tasks[0].title"),
        ("estimate", json!("huge"), "plan.tasks[0].estimate"),
        ("assigned_agent_id", json!("a"), "plan.tasks[0].assigned_agent_id"),
        ("max_retries", json!(3), "plan.tasks[0].max_retries"),
        ("timeout_secs", json!(60), "plan.tasks[0].timeout_secs"),
        ("paths", json!(["src"]), "plan.tasks[0].paths"),
    ] {
        let mut wire = serde_json::to_value(plan("p")).unwrap();
        wire["tasks"][0][field] = value;
        let args = json!({ "proposal_id": id, "plan": wire });
        let error = bench.cx.call_json("edit_proposal", args).await.unwrap_err();
        assert_eq!((error.code(), paths(&error)), (Code::InvalidArguments, vec![path]));
    }
    assert_eq!(list(&bench).await, before);
}

/// S-119, S-120, S-122
#[tokio::test(start_paused = true)]
async fn an_approval_makes_exactly_the_plan() {
    let bench = Setup::new().open().await;
    let id = propose(&bench, "p").await;
    let before = bench.cortex.newest_event().unwrap();
    let approved = bench.call(approve(&id)).await;
    let objective = &approved.objective;
    assert_eq!((objective.title.as_str(), objective.created_by.as_str()), ("p", "user"));
    assert_eq!(objective.source.as_ref().unwrap().proposal_id, id);
    let [x, y] = objective.tasks.as_slice() else { panic!("{objective:?}") };
    assert_eq!((x.key.as_str(), x.title.as_str(), x.description.as_str()), ("x", "The x", "Do x."));
    assert_eq!((x.task_type, x.priority), (TaskType::Implementation, Priority::High));
    assert_eq!((x.status, y.status), (TaskStatus::Ready, TaskStatus::Created));
    assert_eq!(y.depends_on, std::slice::from_ref(&x.task_id));
    assert_eq!((&x.assigned_agent_id, x.timeout_secs, x.max_retries), (&None, 3_600, 2));
    assert_eq!(x.paths, [""; 0]);
    assert!(serde_json::to_value(x).unwrap().get("estimate").is_none());

    assert_eq!(approved.proposal.state, ProposalStatus::Approved);
    let resolution = approved.proposal.resolution.clone().unwrap();
    assert_eq!((resolution.by.as_str(), resolution.reason), ("user", None));
    assert_eq!(resolution.objective_id.as_ref(), Some(&objective.objective_id));
    assert_eq!(see(&bench, &id).await, approved.proposal);
    let told: Vec<_> = told(&bench, before).into_iter().map(|(kind, _)| kind).collect();
    assert!(told.contains(&"objective.created".to_owned()), "{told:?}");
    assert!(told.contains(&"proposal.approved".to_owned()), "{told:?}");

    let error = refused(&bench, approve(&id)).await;
    assert_eq!(
        (error.code(), error.code().kind()),
        (Code::ProposalAlreadyDecided, Kind::StateConflict)
    );
    assert_eq!(error.detail("objective_id"), Some(&json!(objective.objective_id)));
    assert!(error.message().contains(objective.objective_id.as_str()), "{error}");
    assert_eq!(bench.call(ListTasks {}).await.objectives.len(), 1);
}

/// S-119: what is approved runs, and what is not approved does not.
#[tokio::test(start_paused = true)]
async fn approved_work_runs() {
    let bench = Setup::new().settings(|s| s.approvals.approve_unverified = true).open().await;
    bench.ready("a").await;
    let id = propose(&bench, "p").await;
    let tasks = bench.call(approve(&id)).await.objective.tasks;
    for task in tasks {
        bench.until_task(&task.task_id, TaskStatus::Completed).await;
    }
}

/// S-123
#[tokio::test(start_paused = true)]
async fn when_no_objective_can_be_made_the_proposal_stays_pending() {
    let bench = Setup::new().open().await;
    let isolated =
        ProposedTask { requirements: vec![Requirement::WorkspaceIsolation], ..task("x", &[]) };
    let id = propose_anyway(&bench, one_task(isolated)).await;
    let error = refused(&bench, approve(&id)).await;
    assert_eq!(
        (error.code(), paths(&error)),
        (Code::InvalidObjective, vec!["plan.tasks[0].requirements"])
    );
    assert_eq!(see(&bench, &id).await.state, ProposalStatus::Pending);
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    let mended = bench.call(edit(&id, plan("p"))).await.proposal;
    let error = refused(&bench, approve(&id)).await;
    assert_eq!(
        error.code(),
        Code::ProposalSuperseded,
        "nobody asks any more whether it could be made"
    );
    bench.call(approve(&mended.proposal_id)).await;
}

/// S-126
#[tokio::test(start_paused = true)]
async fn a_rejection_is_for_good() {
    let bench = Setup::new().open().await;
    let first = propose(&bench, "p").await;
    let second = bench.call(edit(&first, plan("q"))).await.proposal.proposal_id;
    let before = bench.cortex.newest_event().unwrap();
    let rejected = bench.call(reject(&second)).await.proposal;
    assert_eq!(rejected.state, ProposalStatus::Rejected);
    let resolution = rejected.resolution.clone().unwrap();
    assert_eq!((resolution.by.as_str(), resolution.reason.as_deref()), ("user", Some("too large")));
    assert_eq!(resolution.objective_id, None);
    let told = told(&bench, before);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0].0.as_str(), &told[0].1["reason"]),
        ("proposal.rejected", &json!("too large"))
    );

    assert_eq!(see(&bench, &first).await.state, ProposalStatus::Superseded, "none comes back");
    for error in [
        refused(&bench, reject(&second)).await,
        refused(&bench, approve(&second)).await,
        refused(&bench, edit(&second, plan("r"))).await,
    ] {
        assert_eq!(error.code(), Code::ProposalAlreadyDecided);
        assert_eq!(error.detail("objective_id"), None);
    }
    let error = refused(&bench, approve(&first)).await;
    assert_eq!(error.code(), Code::ProposalSuperseded, "the first was edited, not rejected");

    let silent = RejectProposal { proposal_id: propose(&bench, "s").await, reason: None };
    assert_eq!(bench.call(silent).await.proposal.resolution.unwrap().reason, None);
}

/// S-117
#[tokio::test(start_paused = true)]
async fn whoever_holds_an_old_revision_is_told_the_newest() {
    let bench = Setup::new().open().await;
    let first = propose(&bench, "p").await;
    let second = bench.call(edit(&first, plan("q"))).await.proposal.proposal_id;
    let third = bench.call(edit(&second, plan("r"))).await.proposal.proposal_id;
    for old in [&first, &second] {
        for error in [
            refused(&bench, edit(old, plan("s"))).await,
            refused(&bench, approve(old)).await,
            refused(&bench, reject(old)).await,
        ] {
            assert_eq!(
                (error.code(), error.code().kind()),
                (Code::ProposalSuperseded, Kind::StateConflict)
            );
            assert_eq!(error.detail("newest_proposal_id"), Some(&json!(third)));
            assert!(error.message().contains(third.as_str()), "{error}");
        }
    }
    let nobody = ProposalId::new("nobody");
    for error in [
        refused(&bench, edit(&nobody, plan("s"))).await,
        refused(&bench, approve(&nobody)).await,
        refused(&bench, reject(&nobody)).await,
    ] {
        assert_eq!(error.code(), Code::ProposalNotFound);
        assert_eq!(error.detail("proposal_id"), Some(&json!(nobody)));
    }
}

/// S-113
#[tokio::test(start_paused = true)]
async fn the_list_is_filtered_by_project_and_state() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let other = another_project(&bench).await;
    let first = propose(&bench, "p").await;
    let second = bench.call(edit(&first, plan("q"))).await.proposal.proposal_id;
    let foreign = try_propose(&bench, new_proposal(&other, plan("r"))).await.unwrap().id;
    let approved = propose(&bench, "s").await;
    bench.call(approve(&approved)).await;

    let ids = async |project_id: Option<&ProjectId>, state| {
        let call = ListProposals { project_id: project_id.cloned(), state };
        let proposals = bench.call(call).await.proposals;
        proposals.into_iter().map(|proposal| proposal.proposal_id).collect::<Vec<_>>()
    };
    let own = Some(&bench.project);
    assert_eq!(ids(own, None).await, [first.clone(), second.clone(), approved.clone()]);
    assert_eq!(ids(Some(&other), None).await, std::slice::from_ref(&foreign));
    assert_eq!(ids(None, Some(ProposalStatus::Pending)).await, [second, foreign]);
    assert_eq!(ids(own, Some(ProposalStatus::Superseded)).await, [first]);
    assert_eq!(ids(own, Some(ProposalStatus::Approved)).await, [approved]);
    assert_eq!(ids(own, Some(ProposalStatus::Rejected)).await, []);
    let nowhere = ListProposals { project_id: Some(ProjectId::new("nowhere")), state: None };
    assert_eq!(bench.refuse(nowhere).await.code(), Code::ProjectNotFound);
}

pub async fn another_project(bench: &Bench) -> ProjectId {
    let root = bench.call(ListProjects {}).await.projects.remove(0).root.join("other");
    fs_err::create_dir(&root).unwrap();
    let add = AddProject { name: "other".into(), root, verification: None };
    bench.call(add).await.project.project_id
}

/// A proposal whose project is not there any more.
pub async fn of_a_removed_project(bench: &Bench) -> ProposalId {
    let project_id = another_project(bench).await;
    let id = try_propose(bench, new_proposal(&project_id, plan("p"))).await.unwrap().id;
    bench.call(RemoveProject { project_id }).await;
    id
}

fn session(bench: &Bench, project: &ProjectId, kind: SessionKind) -> Cx {
    bench.cortex.as_caller(Caller::Session(SessionCaller {
        kind,
        agent_id: AgentId::new("a1"),
        project_id: project.clone(),
        session_id: SessionId::new("s1"),
    }))
}

/// S-125
#[tokio::test(start_paused = true)]
async fn sessions_read_the_plans_of_their_project_and_decide_none() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let other = another_project(&bench).await;
    let id = propose(&bench, "p").await;
    let all = ListProposals { project_id: None, state: None };
    let foreign = ListProposals { project_id: Some(other.clone()), state: None };
    for kind in [SessionKind::Orchestrator, SessionKind::Agent, SessionKind::Hook] {
        let own = session(&bench, &bench.project, kind);
        let seen = own.call(all.clone()).await.unwrap().proposals;
        assert_eq!(
            seen.into_iter().map(|p| p.proposal_id).collect::<Vec<_>>(),
            std::slice::from_ref(&id)
        );
        let outside = session(&bench, &other, kind);
        assert_eq!(outside.call(all.clone()).await.unwrap().proposals, []);
        assert_eq!(own.call(foreign.clone()).await.unwrap_err().code(), Code::ProjectNotFound);

        let codes = [
            own.call(edit(&id, plan("q"))).await.unwrap_err().code(),
            own.call(approve(&id)).await.unwrap_err().code(),
            own.call(reject(&id)).await.unwrap_err().code(),
        ];
        assert_eq!(codes, [Code::PermissionDenied; 3], "{kind:?}");
    }
    assert_eq!(see(&bench, &id).await.state, ProposalStatus::Pending);
}

/// S-123, H-26, H-44
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_project_that_goes_is_rejected() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let other = another_project(&bench).await;
    let first = propose(&bench, "p").await;
    let second = bench.call(edit(&first, plan("q"))).await.proposal.proposal_id;
    let foreign = try_propose(&bench, new_proposal(&other, plan("r"))).await.unwrap().id;
    bench.call(RemoveProject { project_id: bench.project.clone() }).await;

    assert_eq!(see(&bench, &first).await.state, ProposalStatus::Superseded);
    assert_eq!(see(&bench, &foreign).await.state, ProposalStatus::Pending, "not its business");
    let rejected = see(&bench, &second).await;
    assert_eq!(rejected.state, ProposalStatus::Rejected);
    let resolution = rejected.resolution.clone().unwrap();
    assert_eq!(
        (resolution.by.as_str(), resolution.reason.as_deref()),
        ("user", Some("project removed"))
    );
    assert_eq!(refused(&bench, approve(&second)).await.code(), Code::ProjectNotFound);
    assert_eq!(refused(&bench, edit(&second, plan("s"))).await.code(), Code::ProjectNotFound);
    assert_eq!(see(&bench, &second).await, rejected, "it stays as it was");
    let late = try_propose(&bench, new_proposal(&bench.project, plan("t"))).await.unwrap_err();
    assert_eq!(late.code(), Code::ProjectNotFound, "a turn that ended after the project");
}
