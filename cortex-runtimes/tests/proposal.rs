//! From a goal to staged changes, on real agents: proposed, edited, approved, three isolated tasks at once, one of them
//! tried twice, verified, two integrated, the third in conflict.
//!
//! Linux only, like every test with a real CLI.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]
#![expect(clippy::disallowed_methods, reason = "a person's git is run by the test itself")]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    ApproveProposal, CreateAgent, EditProposal, GetTaskStatus, IntegrateTask, ProposeObjective,
    StartAgent,
};
use cortex_lib::api::view::TaskView;
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::domain::plan::Requirement;
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::{ProjectId, TaskId};
use cortex_lib::settings::Retry;
use cortex_lib::{Code, Cortex, Settings};
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig};
use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::json;

fn main() -> ExitCode {
    cortex_lib::process::init();
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![a_goal_becomes_staged_changes])
}

const PLAN: &str = r#"{
  "title": "Three files",
  "summary": "Each task changes one file.",
  "tasks": [
    {"key": "alpha", "title": "Alpha", "description": "Do TASK-ALPHA.", "estimate": "small"},
    {"key": "beta", "title": "Beta", "description": "Do TASK-BETA.", "estimate": "small"},
    {"key": "gamma", "title": "Gamma", "description": "Do TASK-GAMMA.", "estimate": "large"}
  ]
}"#;

/// A model that plans, and that does the tasks with a shell. Each task is begun only when the gate is open; `beta` does not
/// hold the first time.
fn script() -> Script {
    let shell = |command: &str| Answer::tool("Bash", json!({ "command": command }));
    Script::new()
        .on(When::tool_result(""), Answer::text("It is done."))
        .on(When::last_user("GOAL-THREE"), Answer::text(PLAN))
        .on(When::last_user("broken is there"), shell("echo beta >shared.txt"))
        .on(When::last_user("TASK-ALPHA"), shell("echo alpha >alpha.txt").silent_until("all run"))
        .on(
            When::last_user("TASK-BETA"),
            shell("echo beta >shared.txt; touch broken").silent_until("all run"),
        )
        .on(When::last_user("TASK-GAMMA"), shell("echo gamma >shared.txt").silent_until("all run"))
}

fn settings() -> Settings {
    let mut settings = Settings {
        retry: Retry { base_ms: 20, max_ms: 100, ..Retry::default() },
        ..Settings::default()
    };
    settings.approvals.rules = vec![Rule {
        id: "shell".into(),
        tool: "Bash".into(),
        input: None,
        agent: None,
        decide: Decide::Allow,
    }];
    settings
}

/// Runs the person's own git and returns what it printed.
fn git(root: &Path, args: &[&str]) -> String {
    let me = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let output = Command::new("git").arg("-C").arg(root).args(me).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with one file.
fn repository(root: &Path) {
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    fs_err::write(root.join("shared.txt"), "base\n").unwrap();
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "--message=base"]);
}

async fn project(cortex: &Cortex, root: &Path) -> ProjectId {
    let user = cortex.as_user();
    let argv = ["sh", "-c", "if test -e broken; then echo 'broken is there' >&2; exit 1; fi"];
    let command = VerificationCommand { argv: argv.map(Into::into).to_vec(), name: None };
    let verification = Some(Verification { commands: vec![command], timeout_secs: 60 });
    let add = AddProject { name: "files".into(), root: root.to_owned(), verification };
    let project_id = user.call(add).await.unwrap().project.project_id;
    for name in ["ada", "bob", "cyd"] {
        let create = CreateAgent::new(&project_id, name, "claude-code");
        let agent_id = user.call(create).await.unwrap().agent.agent_id;
        user.call(StartAgent { agent_id }).await.unwrap();
    }
    project_id
}

/// Waits until a look at the tasks finds what it looks for.
async fn until(
    cortex: &Cortex,
    ids: &[TaskId],
    found: impl Fn(&[TaskView]) -> bool,
) -> Vec<TaskView> {
    let mut events = cortex.events(Some(cortex.newest_event().unwrap()));
    let look = async {
        loop {
            let mut tasks = Vec::new();
            for task_id in ids {
                let call = GetTaskStatus { task_id: task_id.clone() };
                tasks.push(cortex.as_user().call(call).await.unwrap().task);
            }
            if found(&tasks) {
                return tasks;
            }
            events.next().await.unwrap().unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(2), look).await.unwrap()
}

async fn integrate(cortex: &Cortex, task: &TaskView) -> Result<TaskView, cortex_lib::Error> {
    let call = IntegrateTask { task_id: task.task_id.clone() };
    cortex.as_user().call(call).await.map(|reply| reply.task)
}

/// S-099, S-106, S-115, S-119, S-173, S-174, S-176, S-178, S-179.
async fn a_goal_becomes_staged_changes() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = fs_err::canonicalize(folder.path()).unwrap();
    repository(&root);
    let head = git(&root, &["rev-parse", "HEAD"]);
    let server = ScriptedAnthropic::start(script()).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let vars = home.vars().into_iter();
    let env = vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap())).collect();
    let config = ClaudeCodeConfig { executable: Some(cli::claude_code().unwrap()), env };
    let runtime = Arc::new(ClaudeCode::new(config));
    let builder = Cortex::builder(data.path()).settings(settings()).runtime(runtime);
    let cortex = builder.open().await.unwrap();
    let user = cortex.as_user();
    let project_id = project(&cortex, &root).await;

    // Proposed, edited, approved.
    let goal = "GOAL-THREE: three files.".to_owned();
    let first = user.call(ProposeObjective { project_id, goal }).await.unwrap().proposal;
    let mut plan = first.plan.clone();
    for task in &mut plan.tasks {
        task.requirements.push(Requirement::WorkspaceIsolation);
    }
    let edit = EditProposal { proposal_id: first.proposal_id.clone(), plan };
    let second = user.call(edit).await.unwrap().proposal;
    let stale = ApproveProposal { proposal_id: first.proposal_id };
    assert_eq!(user.call(stale).await.unwrap_err().code(), Code::ProposalSuperseded);
    let approve = ApproveProposal { proposal_id: second.proposal_id };
    let objective = user.call(approve).await.unwrap().objective;
    let ids: Vec<_> = objective.tasks.iter().map(|task| task.task_id.clone()).collect();

    // All three at once; beta stumbles over its verification.
    until(&cortex, &ids, |tasks| tasks.iter().all(|task| task.status == TaskStatus::Running)).await;
    server.open("all run");
    let tasks = until(&cortex, &ids, |tasks| tasks.iter().all(|task| task.status.is_ended())).await;
    let [alpha, beta, gamma] = tasks.as_slice() else { panic!("{tasks:#?}") };
    for (task, tries) in [(alpha, 1), (beta, 2), (gamma, 1)] {
        assert_eq!(task.status, TaskStatus::Completed, "{task:#?}");
        assert_eq!(task.attempts.len(), tries, "{task:#?}");
        assert_eq!(task.result.as_ref().unwrap().evidence, Evidence::Verified);
    }
    let causes: Vec<_> = beta.attempts.iter().map(|attempt| attempt.cause.as_deref()).collect();
    assert_eq!(causes, [Some("verification_failed"), None]);
    let state =
        |root: &Path| (git(root, &["status", "--porcelain"]), git(root, &["rev-parse", "HEAD"]));
    assert_eq!(state(&root), (String::new(), head.clone()), "nothing has touched the folder");

    // Two are integrated, each staged and committed by the person.
    let integration = integrate(&cortex, alpha).await.unwrap().integration.unwrap();
    assert_eq!(state(&root), ("A  alpha.txt\n".to_owned(), head), "staged, not committed");
    assert_eq!(integration.branch, format!("cortex/{}", alpha.task_id));
    assert_eq!(git(&root, &["rev-parse", &integration.branch]).trim(), integration.commit);
    let waits = integrate(&cortex, beta).await.unwrap_err();
    assert_eq!(waits.code(), Code::WorkspaceIndexNotClean, "{waits}");
    git(&root, &["commit", "--quiet", "--message=alpha"]);
    integrate(&cortex, beta).await.unwrap();
    assert_eq!(state(&root).0, "M  shared.txt\n");
    assert_eq!(fs_err::read_to_string(root.join("shared.txt")).unwrap(), "beta\n");
    assert!(!root.join("broken").exists(), "what the first try left is not in the second");
    git(&root, &["commit", "--quiet", "--message=beta"]);

    // The third conflicts, and nothing changes.
    let before = state(&root);
    let conflict = integrate(&cortex, gamma).await.unwrap_err();
    assert_eq!(conflict.code(), Code::WorkspaceConflict, "{conflict}");
    assert!(conflict.message().contains("shared.txt"), "{conflict}");
    assert_eq!(state(&root), before);
    assert_eq!(fs_err::read_to_string(root.join("shared.txt")).unwrap(), "beta\n");
    let again = integrate(&cortex, alpha).await.unwrap_err();
    assert_eq!(again.code(), Code::TaskStateConflict, "S-177");

    cortex.shutdown().await.unwrap();
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}
