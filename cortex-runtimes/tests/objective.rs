//! An objective on real agents, from the first task to the last: five tasks in a diamond on two agents.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, CreateObjective, GetTaskStatus, ListTasks, StartAgent};
use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::approval::{Decide, Rule};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::Evidence;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::{ProjectId, RuntimeId};
use cortex_lib::port::Runtime;
use cortex_lib::settings::Retry;
use cortex_lib::{Code, Cortex, Settings};
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig, CommandConfig, CommandRuntime};
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
    suite::run(&cases![
        programs_run_a_diamond,
        several_cores_live_in_one_process,
        claude_code_runs_a_diamond
    ])
}

/// Tries quickly; lets agents write and run commands.
fn settings() -> Settings {
    let allow = |tool: &str| Rule {
        id: tool.to_lowercase(),
        tool: tool.into(),
        input: None,
        agent: None,
        decide: Decide::Allow,
    };
    let mut settings = Settings {
        retry: Retry { base_ms: 20, max_ms: 100, ..Retry::default() },
        ..Settings::default()
    };
    settings.approvals.rules = vec![allow("Write"), allow("Bash")];
    settings
}

async fn open(dir: &Path, runtime: Arc<dyn Runtime>) -> Cortex {
    Cortex::builder(dir).settings(settings()).runtime(runtime).open().await.unwrap()
}

/// A project whose results hold as long as no file `broken` is there, with two agents that run.
async fn project(cortex: &Cortex, root: &Path, runtime: &RuntimeId) -> ProjectId {
    let user = cortex.as_user();
    let argv = ["sh", "-c", "if test -e broken; then echo 'broken is there' >&2; exit 1; fi"];
    let command =
        VerificationCommand { argv: argv.map(Into::into).to_vec(), name: Some("whole".into()) };
    let verification = Some(Verification { commands: vec![command], timeout_secs: 60 });
    let add = AddProject { name: "diamond".into(), root: root.to_owned(), verification };
    let project_id = user.call(add).await.unwrap().project.project_id;
    for name in ["ada", "bob"] {
        let create = CreateAgent::new(&project_id, name, runtime.as_str());
        let agent_id = user.call(create).await.unwrap().agent.agent_id;
        user.call(StartAgent { agent_id }).await.unwrap();
    }
    project_id
}

fn task(key: &str, depends_on: &[&str]) -> TaskSpec {
    TaskSpec::new(key, format!("Do TASK-{}.", key.to_uppercase())).after(depends_on.iter().copied())
}

fn diamond(project_id: ProjectId) -> CreateObjective {
    let tasks = vec![
        task("plan", &[]),
        task("left", &["plan"]),
        task("right", &["plan"]),
        task("combine", &["left", "right"]),
        task("check", &["combine"]),
    ];
    CreateObjective { project_id, title: "A diamond".into(), tasks }
}

/// Runs it to its end.
async fn run(cortex: &Cortex, objective: CreateObjective) -> ObjectiveView {
    let mut events = cortex.events(Some(cortex.newest_event().unwrap()));
    cortex.as_user().call(objective).await.unwrap();
    let ended = async {
        while events.next().await.unwrap().unwrap().kind != EventKind::ObjectiveEnded {}
        cortex.as_user().call(ListTasks {}).await.unwrap().objectives.pop().unwrap()
    };
    let Ok(objective) = tokio::time::timeout(Duration::from_mins(2), ended).await else {
        panic!("it never ended: {:#?}", cortex.as_user().call(ListTasks {}).await)
    };
    objective
}

async fn whole(cortex: &Cortex, objective: &ObjectiveView, key: &str) -> TaskView {
    let task = objective.tasks.iter().find(|task| task.key == key).unwrap();
    cortex.as_user().call(GetTaskStatus { task_id: task.task_id.clone() }).await.unwrap().task
}

/// A diamond that stumbled twice and still holds: `left` failed once, `combine` was verified twice.
async fn stumbled_and_holds(cortex: &Cortex, objective: &ObjectiveView, stumble: &str) {
    assert_eq!(objective.status, ObjectiveStatus::Completed, "{objective:#?}");
    for task in &objective.tasks {
        assert_eq!(task.result.as_ref().unwrap().evidence, Evidence::Verified, "{task:#?}");
        let tries = if ["left", "combine"].contains(&task.key.as_str()) { 2 } else { 1 };
        assert_eq!(task.attempts.len(), tries, "{task:#?}");
    }
    let left = whole(cortex, objective, "left").await;
    let causes: Vec<_> = left.attempts.iter().map(|attempt| attempt.cause.as_deref()).collect();
    assert_eq!(causes, [Some(stumble), None], "{left:#?}");
    let combine = whole(cortex, objective, "combine").await;
    let [first, second] = combine.attempts.as_slice() else { panic!("{combine:#?}") };
    assert_eq!(first.cause.as_deref(), Some("verification_failed"));
    let commands = first.verification.as_ref().unwrap().commands.as_ref().unwrap();
    assert!(commands.first().unwrap().output.contains("broken is there"), "{commands:?}");
    assert_eq!(second.cause, None);
    let agents: std::collections::BTreeSet<_> = objective
        .tasks
        .iter()
        .flat_map(|task| &task.attempts)
        .map(|attempt| &attempt.agent_id)
        .collect();
    assert_eq!(agents.len(), 2, "both agents took part");
}

const PROGRAM: &str = r#"
instruction=$(cat)
case "$instruction" in
*TASK-PLAN*) echo "PLAN-RESULT" ;;
*TASK-LEFT*) if test -e tried; then echo "LEFT-RESULT"; else touch tried; echo "a stumble" >&2; exit 3; fi ;;
*TASK-RIGHT*) echo "RIGHT-RESULT" ;;
*TASK-COMBINE*)
    case "$instruction" in *verification_failed*"broken is there"*) rm broken ;; *) touch broken ;; esac
    echo "$instruction" | grep -o -e LEFT-RESULT -e RIGHT-RESULT | sort -u ;;
*TASK-CHECK*) echo "$instruction" | grep -c RESULT ;;
esac
"#;

fn shell() -> Arc<CommandRuntime> {
    let argv = ["sh", "-c", PROGRAM].map(Into::into).to_vec();
    let config = CommandConfig { name: "shell".into(), argv, env: BTreeMap::new() };
    Arc::new(CommandRuntime::new(config).unwrap())
}

async fn several_cores_live_in_one_process() {
    let one = async || {
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let runtime = shell();
        let id = runtime.info().id.clone();
        let cortex = open(data.path(), runtime).await;
        let again = Cortex::builder(data.path()).open().await.unwrap_err();
        assert_eq!(again.code(), Code::DataDirInUse);
        assert!(again.message().contains(&std::process::id().to_string()), "{again}");
        let project_id = project(&cortex, root.path(), &id).await;
        let objective = run(&cortex, diamond(project_id)).await;
        assert_eq!(cortex.as_user().call(ListTasks {}).await.unwrap().objectives.len(), 1);
        cortex.shutdown().await.unwrap();
        objective.status
    };
    let ended = tokio::join!(one(), one(), one());
    let completed = ObjectiveStatus::Completed;
    assert_eq!(ended, (completed, completed, completed));
}

async fn programs_run_a_diamond() {
    let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runtime = shell();
    let id = runtime.info().id.clone();
    let cortex = open(data.path(), runtime).await;
    let project_id = project(&cortex, root.path(), &id).await;
    let objective = run(&cortex, diamond(project_id)).await;
    stumbled_and_holds(&cortex, &objective, "error").await;
    assert_eq!(
        whole(&cortex, &objective, "combine").await.result.unwrap().text.trim(),
        "LEFT-RESULT\nRIGHT-RESULT"
    );
    cortex.shutdown().await.unwrap();
}

async fn claude_code_runs_a_diamond() {
    let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let broken = fs_err::canonicalize(root.path()).unwrap().join("broken");
    let script = Script::new()
        .on(When::tool_result(""), Answer::text("LEFT-RESULT and RIGHT-RESULT"))
        .on(
            When::last_user("broken is there"),
            Answer::tool("Bash", json!({"command": format!("rm {}", broken.display())})),
        )
        .on(
            When::last_user("TASK-COMBINE")
                .and_any_text("LEFT-RESULT")
                .and_any_text("RIGHT-RESULT"),
            Answer::tool("Write", json!({"file_path": broken, "content": "oops"})),
        )
        .on(When::last_user("The last attempt"), Answer::text("LEFT-RESULT"))
        .on(When::last_user("TASK-LEFT"), Answer::text("half a word").cut_after(3))
        .on(When::last_user("TASK-RIGHT"), Answer::text("RIGHT-RESULT"))
        .on(When::last_user("TASK-PLAN"), Answer::text("PLAN-RESULT"))
        .on(When::last_user("TASK-CHECK"), Answer::text("all is well"))
        // A stream that was cut: the CLI asks the model to go on.
        .on(When::any(), Answer::text("").cut_after(1));
    let server = ScriptedAnthropic::start(script).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let vars = home
        .vars()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
    let env = vars.chain([("CLAUDE_CODE_MAX_RETRIES".to_owned(), "0".to_owned())]).collect();
    let config = ClaudeCodeConfig { executable: Some(cli::claude_code().unwrap()), env };
    let runtime = Arc::new(ClaudeCode::new(config));
    let id = runtime.info().id.clone();
    let cortex = open(data.path(), runtime).await;
    let project_id = project(&cortex, root.path(), &id).await;

    let objective = run(&cortex, diamond(project_id)).await;
    stumbled_and_holds(&cortex, &objective, "transient").await;
    assert!(!broken.exists());
    let combine = server
        .requests()
        .into_iter()
        .find(|request| request.last_user.contains("TASK-COMBINE"))
        .unwrap();
    for part in ["[result of left", "LEFT-RESULT", "[result of right", "RIGHT-RESULT"] {
        assert!(combine.last_user.contains(part), "S-094: {part} is not in {}", combine.last_user);
    }
    for attempt in objective.tasks.iter().flat_map(|task| &task.attempts) {
        let used = attempt.usage.and_then(|usage| usage.output_tokens);
        // A stream that was cut may have told a part, or nothing.
        let cut = attempt.cause.as_deref() == Some("transient");
        assert!(cut || used.is_some_and(|tokens| tokens > 0), "{attempt:#?}");
    }
    cortex.shutdown().await.unwrap();
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}
