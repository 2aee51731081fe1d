//! Every code that a tool declares can be met.

use std::collections::BTreeSet;

use crate::bench::{Bench, SCRIPTED, Setup, new_agent, pass, secs, spec};
use crate::proposals as proposed;
use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{
    AckMessage, ApproveTask, CancelObjective, CancelTask, CreateAgent, CreateObjective,
    GetAgentStatus, GetTaskStatus, IntegrateTask, InterruptAgent, ListAgents, ListProjects,
    ListProposals, ListTasks, PauseObjective, PollAgentEvents, PostMessage, ReadMessages,
    ReassignTask, ResumeObjective, RetryTask, SendMessage, StartAgent, StopAgent, UpdateAgent,
};
use cortex_lib::api::view::ObjectiveView;
use cortex_lib::api::{Command, Cx, TOOLS};
use cortex_lib::domain::agent::{AgentState, AgentStatus, Interaction, Role, Wanted};
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::message::{Addressee, Channel, Purpose};
use cortex_lib::domain::objective::PausePolicy;
use cortex_lib::domain::plan::{Requirement, TaskSpec};
use cortex_lib::domain::proposed::ProposedPlan;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::usage::Usage;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{
    AgentId, AttemptId, MessageId, ObjectiveId, ProjectId, ProposalId, RuntimeId, TaskId,
};
use cortex_lib::port::{GitFate, Opening, Script, ScriptedRuntime};
use cortex_lib::store::Agent;

/// Codes that a driver may answer a start with.
const START: [Code; 7] = [
    Code::RuntimeNotInstalled,
    Code::RuntimeNotLoggedIn,
    Code::RuntimeStartFailed,
    Code::RuntimeCapabilityMissing,
    Code::RuntimeProtocol,
    Code::RuntimeSessionEnded,
    Code::DataDirUnusable,
];

/// Codes that a driver may answer a turn with.
const SEND: [Code; 5] = [
    Code::RuntimeSessionEnded,
    Code::RuntimeStartFailed,
    Code::RuntimeProtocol,
    Code::RuntimeRefused,
    Code::RuntimeNotLoggedIn,
];

/// What was met so far.
struct Met {
    bench: Bench,
    codes: BTreeSet<(&'static str, Code)>,
}

impl Met {
    async fn meet<C: Command<Output: std::fmt::Debug>>(&mut self, call: C, code: Code) {
        let user = self.bench.cx.clone();
        self.meet_as(&user, call, code).await;
    }

    async fn meet_as<C: Command<Output: std::fmt::Debug>>(&mut self, cx: &Cx, call: C, code: Code) {
        let error = cx.call(call).await.unwrap_err();
        assert_eq!(error.code(), code, "{}: {error}", C::NAME);
        self.codes.insert((C::NAME, code));
    }

    /// Puts an agent into the store that no tool of this version makes.
    async fn insert(&self, name: &str, change: impl FnOnce(&mut Agent)) -> AgentId {
        let id = AgentId::new(name);
        let mut agent = Agent {
            id: id.clone(),
            project_id: self.bench.project.clone(),
            name: name.to_owned(),
            runtime_id: RuntimeId::new(SCRIPTED),
            model: None,
            role: Role::Worker,
            interaction: Interaction::Structured,
            instructions: None,
            skills: true,
            state: AgentState::Created,
            wanted: Wanted::Stopped,
            last_failure: None,
            native_session_id: None,
            usage: Usage::default(),
            idle_since: cortex_lib::time::Timestamp::from_millis(0),
            created_at: cortex_lib::time::Timestamp::from_millis(0),
            updated_at: cortex_lib::time::Timestamp::from_millis(0),
        };
        change(&mut agent);
        self.bench.store.write(move |tx| tx.insert_agent(&agent)).await.unwrap();
        id
    }
}

fn start(id: &AgentId) -> StartAgent {
    StartAgent { agent_id: id.clone() }
}

fn send(id: &AgentId, message: &str) -> SendMessage {
    SendMessage { agent_id: id.clone(), message: message.to_owned() }
}

fn interrupt(id: &AgentId) -> InterruptAgent {
    InterruptAgent { agent_id: id.clone() }
}

fn update(id: &AgentId) -> UpdateAgent {
    UpdateAgent {
        agent_id: id.clone(),
        name: Some("new".to_owned()),
        runtime_id: None,
        model: None,
        instructions: None,
        skills: None,
    }
}

/// A runtime that answers as the model of an agent, or a message, says.
fn obedient(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime
        .opening(|spec| match spec.model.as_deref() {
            Some("never") => Opening::Never,
            Some(code) => {
                let code = Code::parse(code).unwrap();
                Opening::Fail(secs(0), Error::new(code, "as asked"))
            }
            None => Opening::AT_ONCE,
        })
        .turn(|turn| match Code::parse(&turn.instruction) {
            Some(code) => Script::new().refused(Error::new(code, "as asked")),
            None => Script::new(),
        })
}

/// S-068, S-071, S-235.
#[tokio::test(start_paused = true)]
async fn every_declared_code_can_be_met() {
    let plain = ScriptedRuntime::new("plain").capabilities([Capability::StructuredSession]);
    let setup = Setup::new()
        .runtime(obedient)
        .another(plain)
        .settings(|settings| settings.resources.max_active_processes = 3);
    let mut met = Met { bench: setup.open().await, codes: BTreeSet::new() };
    agents(&mut met).await;
    starts(&mut met).await;
    turns(&mut met).await;
    tasks(&mut met).await;
    proposals(&mut met).await;
    flows(&mut met).await;
    moves(&mut met).await;
    messages(&mut met).await;
    integrations(&mut met).await;

    met.codes.extend(crate::planning::met().await);
    let declared: BTreeSet<_> =
        TOOLS.iter().flat_map(|tool| tool.errors.iter().map(|code| (tool.name, *code))).collect();
    let missing: Vec<_> = declared.difference(&met.codes).collect();
    assert!(missing.is_empty(), "declared and never met: {missing:#?}");
    let more: Vec<_> = met.codes.difference(&declared).collect();
    assert!(more.is_empty(), "met and not declared: {more:#?}");
}

async fn agents(met: &mut Met) {
    let nobody = AgentId::new("nobody");
    let project = met.bench.project.clone();
    met.meet(GetAgentStatus { agent_id: nobody.clone() }, Code::AgentNotFound).await;
    met.meet(StopAgent { agent_id: nobody.clone() }, Code::AgentNotFound).await;
    let poll =
        PollAgentEvents { after: None, limit: 1, agent_id: Some(nobody.clone()), wait_ms: 0 };
    met.meet(poll, Code::AgentNotFound).await;
    let nowhere = ProjectId::new("nowhere");
    let list = ListAgents { project_id: Some(nowhere.clone()) };
    met.meet(list, Code::ProjectNotFound).await;

    let modelled = |runtime| CreateAgent {
        model: Some("never".to_owned()),
        ..new_agent(&project, "m", runtime)
    };
    let taken = met.bench.agent("taken").await;
    met.meet(new_agent(&project, "taken", SCRIPTED), Code::AgentNameTaken).await;
    met.meet(new_agent(&nowhere, "x", SCRIPTED), Code::ProjectNotFound).await;
    met.meet(new_agent(&project, "x", "none"), Code::RuntimeNotFound).await;
    met.meet(modelled("plain"), Code::RuntimeCapabilityMissing).await;

    let agent = met.bench.ready("a").await;
    met.meet(update(&nobody), Code::AgentNotFound).await;
    met.meet(update(&agent), Code::AgentStateConflict).await;
    let rename = UpdateAgent { name: Some("a".to_owned()), ..update(&taken) };
    met.meet(rename, Code::AgentNameTaken).await;
    let none = Some(RuntimeId::new("none"));
    met.meet(UpdateAgent { runtime_id: none, ..update(&taken) }, Code::RuntimeNotFound).await;
    let plain = UpdateAgent {
        runtime_id: Some(RuntimeId::new("plain")),
        model: Some(Some("m".to_owned())),
        ..update(&taken)
    };
    met.meet(plain, Code::RuntimeCapabilityMissing).await;
    met.bench.call(StopAgent { agent_id: agent }).await;
}

async fn starts(met: &mut Met) {
    met.meet(start(&AgentId::new("nobody")), Code::AgentNotFound).await;
    let orphan = met.insert("orphan", |agent| agent.runtime_id = RuntimeId::new("none")).await;
    met.meet(start(&orphan), Code::RuntimeNotFound).await;
    met.meet(interrupt(&orphan), Code::RuntimeNotFound).await;
    let boss = met
        .insert("boss", |agent| {
            (agent.role, agent.interaction) = (Role::Orchestrator, Interaction::Terminal);
        })
        .await;
    met.meet(start(&boss), Code::AgentOrchestratorNeedsStructured).await;
    assert_eq!(met.bench.status(&boss).await, AgentStatus::Failed, "H-20");
    let chief = met.insert("chief", |agent| agent.role = Role::Orchestrator).await;
    met.meet(start(&chief), Code::McpDisabled).await;

    for code in START {
        let model = Some(code.as_str().to_owned());
        let create =
            CreateAgent { model, ..new_agent(&met.bench.project, code.as_str(), SCRIPTED) };
        let agent = met.bench.call(create).await.agent.agent_id;
        met.meet(start(&agent), code).await;
    }
    let never = CreateAgent {
        model: Some("never".to_owned()),
        ..new_agent(&met.bench.project, "never", SCRIPTED)
    };
    let never = met.bench.call(never).await.agent.agent_id;
    met.meet(start(&never), Code::RuntimeStartTimedOut).await;
    let starting = met.bench.cx.call(start(&never));
    let stopping = async {
        met.bench.until_agent(&never, AgentStatus::Starting).await;
        met.bench.call(StopAgent { agent_id: never.clone() }).await;
    };
    let (started, ()) = tokio::join!(starting, stopping);
    assert_eq!(started.unwrap_err().code(), Code::AgentStartCancelled);
    met.codes.insert((StartAgent::NAME, Code::AgentStartCancelled));

    let agent = met.bench.agent("homeless").await;
    let root = met.bench.call(ListProjects {}).await.projects.remove(0).root;
    met.bench.world.remove_folder(&root);
    met.meet(start(&agent), Code::ProjectInvalidRoot).await;
    met.bench.world.restore_folder(&root);

    met.bench.call(start(&agent)).await;
    met.bench.call(PauseAgent { agent_id: agent.clone() }).await;
    met.meet(start(&agent), Code::AgentStateConflict).await;
    let (second, third) = (met.bench.ready("second").await, met.bench.ready("third").await);
    met.meet(start(&never), Code::ResourceLimitReached).await;
    for agent_id in [agent, second, third] {
        met.bench.call(StopAgent { agent_id }).await;
    }
}

async fn turns(met: &mut Met) {
    let nobody = AgentId::new("nobody");
    met.meet(send(&nobody, "hi"), Code::AgentNotFound).await;
    met.meet(interrupt(&nobody), Code::AgentNotFound).await;
    let terminal = met.insert("terminal", |agent| agent.interaction = Interaction::Terminal).await;
    met.meet(send(&terminal, "hi"), Code::RuntimeUnsupportedInTerminalMode).await;
    met.meet(interrupt(&terminal), Code::RuntimeUnsupportedInTerminalMode).await;
    let plain = met.bench.agent_on("p", "plain").await;
    met.meet(interrupt(&plain), Code::RuntimeCapabilityMissing).await;

    let agent = met.bench.agent("talker").await;
    met.meet(send(&agent, "hi"), Code::AgentStateConflict).await;
    met.meet(interrupt(&agent), Code::AgentStateConflict).await;
    met.bench.call(start(&agent)).await;
    for code in SEND {
        met.meet(send(&agent, code.as_str()), code).await;
    }
    met.bench.call(send(&agent, "hi")).await;
    met.meet(send(&agent, "hi"), Code::RuntimeTurnInProgress).await;
    met.bench.call(StopAgent { agent_id: agent }).await;
}

async fn tasks(met: &mut Met) {
    let project_id = met.bench.project.clone();
    let plan = |tasks| CreateObjective { project_id: project_id.clone(), title: "o".into(), tasks };
    let nowhere = CreateObjective { project_id: ProjectId::new("nowhere"), ..plan(Vec::new()) };
    met.meet(nowhere, Code::ProjectNotFound).await;
    met.meet(plan(Vec::new()), Code::InvalidObjective).await;
    met.meet(plan(vec![spec("x", &["y"])]), Code::TaskUnknownDependency).await;
    let cycle = vec![spec("x", &["y"]), spec("y", &["x"])];
    met.meet(plan(cycle), Code::TaskDependencyCycle).await;

    let none = TaskId::new("none");
    let id = met.bench.one_task(spec("x", &[])).await;
    let approve =
        |id: &TaskId| ApproveTask { task_id: id.clone(), execution_id: None, reason: None };
    let retry = |id: &TaskId| RetryTask { task_id: id.clone(), execution_id: None, reason: None };
    met.meet(GetTaskStatus { task_id: none.clone() }, Code::TaskNotFound).await;
    met.meet(approve(&none), Code::TaskNotFound).await;
    met.meet(retry(&none), Code::TaskNotFound).await;
    met.meet(CancelTask { task_id: none, reason: None }, Code::TaskNotFound).await;
    met.meet(approve(&id), Code::TaskStateConflict).await;
    met.meet(retry(&id), Code::TaskStateConflict).await;
    let worker = met.bench.agent_on("worker", "plain").await;
    met.bench.call(start(&worker)).await;
    let done = met.bench.one_task(spec("y", &[])).await;
    met.bench.until_task(&done, TaskStatus::Blocked).await;
    met.bench.call(approve(&done)).await;
    met.meet(CancelTask { task_id: done, reason: None }, Code::TaskStateConflict).await;
    met.bench.call(StopAgent { agent_id: worker }).await;
}

async fn proposals(met: &mut Met) {
    use proposed::{approve, edit, one_task, plan, propose, propose_anyway, reject, task};

    let nowhere = ListProposals { project_id: Some(ProjectId::new("nowhere")), state: None };
    met.meet(nowhere, Code::ProjectNotFound).await;
    let (none, waits) = (ProposalId::new("none"), propose(&met.bench, "p").await);
    met.meet(edit(&none, plan("q")), Code::ProposalNotFound).await;
    met.meet(approve(&none), Code::ProposalNotFound).await;
    met.meet(reject(&none), Code::ProposalNotFound).await;
    for (tasks, code) in [
        (vec![task("X", &[])], Code::InvalidObjective),
        (vec![task("x", &["z"])], Code::TaskUnknownDependency),
        (vec![task("x", &["y"]), task("y", &["x"])], Code::TaskDependencyCycle),
    ] {
        let broken = ProposedPlan { tasks, ..plan("p") };
        met.meet(edit(&waits, broken.clone()), code).await;
        let kept = propose_anyway(&met.bench, broken).await;
        met.meet(approve(&kept), code).await;
    }
    let newest = met.bench.call(edit(&waits, one_task(task("x", &[])))).await.proposal.proposal_id;
    met.meet(edit(&waits, plan("q")), Code::ProposalSuperseded).await;
    met.meet(approve(&waits), Code::ProposalSuperseded).await;
    met.meet(reject(&waits), Code::ProposalSuperseded).await;
    met.bench.call(reject(&newest)).await;
    met.meet(edit(&newest, plan("q")), Code::ProposalAlreadyDecided).await;
    met.meet(approve(&newest), Code::ProposalAlreadyDecided).await;
    met.meet(reject(&newest), Code::ProposalAlreadyDecided).await;

    let gone = proposed::of_a_removed_project(&met.bench).await;
    met.meet(edit(&gone, plan("q")), Code::ProjectNotFound).await;
    met.meet(approve(&gone), Code::ProjectNotFound).await;
}

/// S-139, S-153
async fn flows(met: &mut Met) {
    let pause = |id: &ObjectiveId| PauseObjective {
        objective_id: id.clone(),
        policy: PausePolicy::Drain,
        reason: None,
    };
    let none = ObjectiveId::new("none");
    met.meet(pause(&none), Code::ObjectiveNotFound).await;
    met.meet(ResumeObjective { objective_id: none.clone() }, Code::ObjectiveNotFound).await;
    let cancel = CancelObjective { objective_id: none, reason: None };
    met.meet(cancel, Code::ObjectiveNotFound).await;
    let ended = met.bench.objective(vec![spec("x", &[])]).await.objective_id;
    met.bench.call(CancelObjective { objective_id: ended.clone(), reason: None }).await;
    met.meet(pause(&ended), Code::ObjectiveStateConflict).await;
}

/// S-164
async fn moves(met: &mut Met) {
    let reassign = |task: &TaskId, agent: &AgentId| ReassignTask {
        task_id: task.clone(),
        to_agent_id: Some(agent.clone()),
        execution_id: None,
        reason: None,
    };
    let worker = met.bench.agent("mover").await;
    met.meet(reassign(&TaskId::new("none"), &worker), Code::TaskNotFound).await;
    let id = met.bench.one_task(spec("x", &[])).await;
    met.meet(reassign(&id, &AgentId::new("nobody")), Code::AgentNotFound).await;
    let terminal = met.insert("screen", |agent| agent.interaction = Interaction::Terminal).await;
    met.meet(reassign(&id, &terminal), Code::TaskAgentNotEligible).await;
    met.bench.call(CancelTask { task_id: id.clone(), reason: None }).await;
    met.meet(reassign(&id, &worker), Code::TaskStateConflict).await;
}

async fn messages(met: &mut Met) {
    let project = Channel::Project(met.bench.project.clone());
    let (ann, bob) = (met.bench.agent("ann").await, met.bench.agent("bob").await);
    let to_bob = PostMessage::new(project.clone(), Addressee::Agent(bob.clone()), "hi");
    let in_channel = |channel| PostMessage { channel, ..to_bob.clone() };
    let for_reader = |to| PostMessage { to, ..to_bob.clone() };
    let nowhere = Channel::Project(ProjectId::new("nowhere"));
    met.meet(in_channel(nowhere), Code::ProjectNotFound).await;
    let none = Channel::Objective(ObjectiveId::new("none"));
    met.meet(in_channel(none), Code::ObjectiveNotFound).await;
    let nobody = Addressee::Agent(AgentId::new("nobody"));
    met.meet(for_reader(nobody), Code::AgentNotFound).await;
    let never = Addressee::Attempt(AttemptId::new("never"));
    met.meet(for_reader(never), Code::ExecutionNotFound).await;
    let unwritten = MessageId::new("unwritten");
    let reply = PostMessage { in_reply_to: Some(unwritten.clone()), ..to_bob.clone() };
    met.meet(reply, Code::MessageNotFound).await;

    let objectives = met.bench.call(ListTasks {}).await.objectives;
    let first_attempt = |one: &ObjectiveView| {
        let attempt = one.tasks.first()?.attempts.first()?;
        Some((one.objective_id.clone(), attempt.execution_id.clone()))
    };
    let (objective, ended) = objectives.iter().rev().find_map(first_attempt).unwrap();
    let objective = Channel::Objective(objective);
    met.meet(in_channel(objective), Code::MessageOutOfScope).await;
    let ended = Addressee::Attempt(ended);
    met.meet(for_reader(ended), Code::MessageRecipientUnavailable).await;
    let action = Some("cancel_task".to_owned());
    let request = PostMessage { purpose: Purpose::Request { action }, ..to_bob.clone() };
    met.meet(request, Code::MessageActionNotAllowed).await;

    let as_ann = crate::messages::agent(&met.bench, &ann);
    for _ in 0..32 {
        as_ann.call(to_bob.clone()).await.unwrap();
    }
    met.meet(to_bob.clone(), Code::MessageInboxFull).await;
    let to_cid = for_reader(Addressee::Agent(met.bench.agent("cid").await));
    met.meet_as(&as_ann, to_cid.clone(), Code::MessageSenderLimit).await;

    let nobody = ReadMessages { agent_id: Some(AgentId::new("nobody")), ..ReadMessages::default() };
    met.meet(nobody, Code::AgentNotFound).await;
    met.meet(AckMessage { message_id: unwritten }, Code::MessageNotFound).await;
    let short = PostMessage { ttl_secs: 60, ..to_cid };
    let message_id = met.bench.call(short).await.message.message_id;
    pass(secs(60)).await;
    met.meet(AckMessage { message_id }, Code::MessageExpired).await;
}

async fn integrations(met: &mut Met) {
    let root = met.bench.call(ListProjects {}).await.projects.remove(0).root;
    let world = met.bench.world.clone();
    world.make_repository(&root, [("a.txt", "a")]);
    let integrate = |id: &TaskId| IntegrateTask { task_id: id.clone() };
    met.meet(integrate(&TaskId::new("none")), Code::TaskNotFound).await;

    let writer = met.bench.agent_on("writer", "plain").await;
    met.bench.call(start(&writer)).await;
    let isolated = vec![Requirement::WorkspaceIsolation];
    let id = met.bench.one_task(TaskSpec { requirements: isolated, ..spec("i", &[]) }).await;
    let task = met.bench.until_task(&id, TaskStatus::Blocked).await;
    met.meet(integrate(&id), Code::TaskStateConflict).await;
    let worktree = task.workspace.unwrap().path;
    met.bench.call(ApproveTask { task_id: id.clone(), execution_id: None, reason: None }).await;

    for code in [
        Code::WorkspaceIndexNotClean,
        Code::WorkspaceConflict,
        Code::WorkspaceLocalChanges,
        Code::WorkspaceUnavailable,
    ] {
        world.git_fate("plan_squash", GitFate::Fail(Error::new(code, "as asked")));
        met.meet(integrate(&id), code).await;
    }
    world.disown_worktree(&worktree);
    met.meet(integrate(&id), Code::WorkspaceUnowned).await;
    met.bench.call(StopAgent { agent_id: writer }).await;
}
