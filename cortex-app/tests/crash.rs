//! The real program is killed and stopped in the middle of an objective on the real Claude Code, and goes on.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{
    CreateAgent, CreateObjective, ListAgents, ListTasks, RetryTask, StartAgent,
};
use cortex_lib::api::view::{AttemptView, TaskView};
use cortex_lib::domain::agent::{AgentStatus, Role};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::verification::{Verification, VerificationCommand};
use cortex_lib::ids::RuntimeId;
use cortex_lib::local::Client;
use cortex_lib::store::AttemptStatus;
use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::json;

/// Nothing that a test waits for takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![a_killed_core_leaves_nothing_and_goes_on, a_stopped_core_goes_on_by_itself])
}

/// A data directory, a project, and a home and a model for the CLI.
struct Place {
    data: tempfile::TempDir,
    root: tempfile::TempDir,
    home: CliHome,
    server: ScriptedAnthropic,
}

impl Place {
    async fn new(left: Answer) -> Self {
        let script = Script::new()
            .on(When::last_user("interrupted by a crash"), Answer::text("LEFT-RESULT"))
            .on(When::last_user("TASK-LEFT"), left)
            .on(When::last_user("TASK-"), Answer::text("RESULT"))
            .otherwise(Answer::text("so be it"));
        let server = ScriptedAnthropic::start(script).await.unwrap();
        let home = CliHome::new(&server).unwrap();
        let (data, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let vars = home
            .vars()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let env: serde_json::Map<_, _> = vars.map(|(name, value)| (name, json!(value))).collect();
        let config = json!({
            "mcp": { "port": 0 },
            "retry": { "base_ms": 20, "max_ms": 100 },
            "approvals": { "rules": [{ "id": "shell", "tool": "Bash", "decide": "allow" }] },
            "runtimes": { "claude_code": { "executable": cli::claude_code().unwrap(), "env": env } },
        });
        fs_err::write(data.path().join("config.json"), config.to_string()).unwrap();
        Self { data, root, home, server }
    }

    /// Runs `cortex serve` and reaches it.
    async fn serve(&self) -> Core {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_cortex"));
        command.arg("--data-dir").arg(self.data.path()).arg("serve");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let reach = async || Client::connect(self.data.path()).await.ok().flatten();
        Core { child, client: until("the core answers", reach).await }
    }

    /// How many processes of the CLI live: each carries the folder of its home.
    fn agents_alive(&self) -> usize {
        let home = self.home.config().into_os_string().into_string().unwrap();
        processes().into_iter().filter(|process| process.environment.contains(&home)).count()
    }

    async fn begin(&self, core: &Core) {
        let argv = ["sh", "-c", "test ! -e broken"].map(Into::into).to_vec();
        let verification = Verification {
            commands: vec![VerificationCommand { argv, name: None }],
            timeout_secs: 60,
        };
        let add = AddProject {
            name: "p".into(),
            root: self.root.path().into(),
            verification: Some(verification),
        };
        let project_id = core.client.call(add).await.unwrap().project.project_id;
        for name in ["ada", "bob"] {
            let create = CreateAgent {
                project_id: project_id.clone(),
                name: name.into(),
                runtime_id: RuntimeId::new("claude-code"),
                model: None,
                role: Role::Worker,
                instructions: None,
                skills: true,
            };
            let agent_id = core.client.call(create).await.unwrap().agent.agent_id;
            core.client.call(StartAgent { agent_id }).await.unwrap();
        }
        let task = |key: &str, depends_on: &[&str]| TaskSpec {
            key: key.into(),
            description: format!("Do TASK-{}.", key.to_uppercase()),
            depends_on: depends_on.iter().map(|key| (*key).to_owned()).collect(),
            ..TaskSpec::default()
        };
        let tasks = vec![
            task("plan", &[]),
            task("left", &["plan"]),
            task("right", &["plan"]),
            task("combine", &["left", "right"]),
            task("check", &["combine"]),
        ];
        core.client
            .call(CreateObjective { project_id, title: "A diamond".into(), tasks })
            .await
            .unwrap();
    }
}

/// A program that serves, and the way to it.
struct Core {
    child: Child,
    client: Client,
}

impl Core {
    async fn task(&self, key: &str) -> TaskView {
        let objective = self.client.call(ListTasks {}).await.unwrap().objectives.pop().unwrap();
        objective.tasks.into_iter().find(|task| task.key == key).unwrap()
    }

    async fn until_task(&self, key: &str, status: TaskStatus) -> TaskView {
        let wanted = format!("{key} is {}", status.as_str());
        until(&wanted, async || Some(self.task(key).await).filter(|task| task.status == status))
            .await
    }

    async fn until_agents_are_back(&self) {
        until("both agents are back in their sessions", async || {
            let agents = self.client.call(ListAgents { project_id: None }).await.unwrap().agents;
            let back = agents
                .iter()
                .filter(|agent| matches!(agent.state, AgentStatus::Ready | AgentStatus::Busy));
            let back: Vec<_> = back.map(|agent| agent.session.as_ref().unwrap().resumed).collect();
            assert!(back.iter().all(|resumed| *resumed), "{agents:#?}");
            (back.len() == 2).then_some(())
        })
        .await;
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Stops it in order; it ends well.
    fn stop(mut self) {
        self.signal("-TERM");
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended:?}");
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // A test that stopped in the middle.
        if self.child.try_wait().is_ok_and(|exit| exit.is_none()) {
            self.signal("-KILL");
        }
    }
}

struct Process {
    arguments: String,
    environment: String,
}

fn processes() -> Vec<Process> {
    let read = |path: PathBuf| {
        fs_err::read(path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    let process = |path: PathBuf| {
        let state = read(path.join("stat")).ok()?;
        let dead =
            state.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'));
        (!dead).then(|| Process {
            arguments: read(path.join("cmdline")).unwrap_or_default(),
            environment: read(path.join("environ")).unwrap_or_default(),
        })
    };
    all.filter_map(|entry| process(entry.path())).collect()
}

/// How many programs live that only this number in their arguments tells apart from others.
fn sleepers(number: u32) -> usize {
    let wanted = format!("sleep {number}");
    processes().into_iter().filter(|process| process.arguments.contains(&wanted)).count()
}

/// Waits for a condition of the world, which tells nobody when it comes about.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let search = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("it never came: {what}"))
}

async fn a_killed_core_leaves_nothing_and_goes_on() {
    on_one_thread(killed).await;
}

async fn a_stopped_core_goes_on_by_itself() {
    on_one_thread(stopped).await;
}

/// Conditions are closures over what a test holds, which stays on its thread.
async fn on_one_thread<F: Future<Output = ()> + 'static>(case: fn() -> F) {
    let here = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || here.block_on(case())).await;
    done.unwrap_or_else(|stopped| std::panic::resume_unwind(stopped.into_panic()));
}

async fn killed() {
    let number = 710_000_000 + std::process::id();
    let forks = format!(
        "sleep {number}1 &\nsetsid sleep {number}2 &\n(setsid env -i /usr/bin/sleep {number}3 &)\ntail -f /dev/null\n"
    );
    let place = Place::new(Answer::tool("Bash", json!({ "command": "sh ./forks.sh" }))).await;
    fs_err::write(place.root.path().join("forks.sh"), forks).unwrap();
    let mut core = place.serve().await;
    place.begin(&core).await;
    core.until_task("right", TaskStatus::Completed).await;
    until("the tool has forked", async || (sleepers(number) == 3).then_some(())).await;
    assert!(place.agents_alive() > 0);
    assert_eq!(core.task("left").await.status, TaskStatus::Running);

    let killed = Instant::now();
    core.signal("-KILL");
    core.child.wait().unwrap();
    let nothing = async || (sleepers(number) == 0 && place.agents_alive() == 0).then_some(());
    until("nothing of it lives", nothing).await;
    assert!(killed.elapsed() < Duration::from_secs(1), "it took {:?}", killed.elapsed());

    let core = place.serve().await;
    core.until_agents_are_back().await;
    let left = core.until_task("left", TaskStatus::Blocked).await;
    assert_eq!(left.failure.unwrap().cause, "recovery.outcome_unknown");
    assert_eq!(statuses(&left.attempts), [AttemptStatus::Lost]);
    for key in ["plan", "right"] {
        let status = core.task(key).await.status;
        assert_eq!(status, TaskStatus::Completed, "what was acknowledged is not lost: {key}");
    }
    let retry = RetryTask { task_id: left.task_id, execution_id: None, reason: None };
    core.client.call(retry).await.unwrap();
    core.until_task("check", TaskStatus::Completed).await;
    let left = core.task("left").await;
    assert_eq!(statuses(&left.attempts), [AttemptStatus::Lost, AttemptStatus::Succeeded]);
    for key in ["plan", "right", "combine", "check"] {
        let attempts = core.task(key).await.attempts;
        assert_eq!(statuses(&attempts), [AttemptStatus::Succeeded], "{key} is done once");
    }
    assert_eq!(place.server.strangers().len(), 0);
    core.stop();
    assert_eq!(place.agents_alive(), 0);
}

fn statuses(attempts: &[AttemptView]) -> Vec<AttemptStatus> {
    attempts.iter().map(|attempt| attempt.status).collect()
}

async fn stopped() {
    let place = Place::new(Answer::text("LEFT-RESULT").silent_until("left")).await;
    let core = place.serve().await;
    place.begin(&core).await;
    core.until_task("right", TaskStatus::Completed).await;
    core.until_task("left", TaskStatus::Running).await;
    core.stop();
    assert_eq!(place.agents_alive(), 0);

    place.server.open("left");
    let core = place.serve().await;
    core.until_agents_are_back().await;
    core.until_task("check", TaskStatus::Completed).await;
    let left = core.task("left").await;
    let causes: Vec<_> = left.attempts.iter().map(|attempt| attempt.cause.as_deref()).collect();
    assert_eq!(causes, [Some("core.stopping"), None], "no task was BLOCKED: {left:#?}");
    core.stop();
}
