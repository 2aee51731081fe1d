//! Plans by `cortex call`, with the real Claude Code and a model that a script plays: no login, no network.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::{Value, json};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![a_goal_becomes_a_plan_with_and_without_a_core_that_serves])
}

/// A data directory with the program to use on it.
#[derive(Clone, Copy)]
struct Place<'a>(&'a Path);

impl Place<'_> {
    fn command(self, args: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cortex"));
        for name in CliHome::stripped() {
            program.env_remove(name);
        }
        program.arg("--data-dir").arg(self.0).args(args).stdin(Stdio::null());
        program
    }

    /// What a tool answers.
    fn call(self, tool: &str, args: &Value) -> Value {
        let out = self.command(&["call", tool, &args.to_string()]).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", shown(&out));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    /// Starts the core and waits until it says that it runs.
    fn serve(self) -> Child {
        let mut serve = self.command(&["serve", "--json"]);
        let mut serving = serve.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("local_socket"), "{line}");
        serving
    }
}

fn shown(out: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ask() {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::yield_now();
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(sent.success());
}

fn configure(data: &Path, home: &CliHome) {
    let vars = home.vars().into_iter();
    let env: serde_json::Map<_, _> =
        vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap().into())).collect();
    let config = json!({
        "mcp": { "port": 0 },
        "planner": { "runtime_id": "claude-code" },
        "runtimes": { "claude_code": { "executable": cli::claude_code().unwrap(), "env": env } },
    });
    std::fs::write(data.join("config.json"), config.to_string()).unwrap();
}

/// S-099, S-100, S-106, S-119
async fn a_goal_becomes_a_plan_with_and_without_a_core_that_serves() {
    let task = json!({"key": "tea", "title": "Make tea", "description": "Make tea."});
    let plan = json!({"title": "Tea", "tasks": [task]});
    let never = Answer::text("x").silent_until("never");
    let script = Script::new().on(When::last_user("Think for ever."), never);
    let server = ScriptedAnthropic::start(script.otherwise(Answer::text(plan.to_string())));
    let server = server.await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let (data, root) = (tempfile::tempdir().unwrap(), home.project());
    configure(data.path(), &home);
    let asked = || server.requests().iter().any(|one| one.last_user.contains("Think for ever."));
    tokio::task::block_in_place(|| plans(Place(data.path()), &root, asked));
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}

fn plans(place: Place<'_>, root: &Path, asked: impl Fn() -> bool) {
    let add = place.command(&["project", "add", "web", root.to_str().unwrap()]).output().unwrap();
    assert_eq!(add.status.code(), Some(0), "{}", shown(&add));
    let projects = place.call("list_projects", &json!({}));
    let project = projects.pointer("/projects/0/project_id").unwrap();
    let goal = |goal: &str| json!({ "project_id": project, "goal": goal });
    let draft = place.call("plan_objective", &goal("Make tea."));
    assert_eq!(draft.pointer("/draft/title"), Some(&json!("Tea")), "{draft}");

    let mut serving = place.serve();
    let proposed = place.call("propose_objective", &goal("Make tea."));
    let proposal = |field: &str| proposed.pointer(&format!("/proposal/{field}")).unwrap();
    assert_eq!((proposal("state"), proposal("revision")), (&json!("pending"), &json!(1)));
    let approve = json!({ "proposal_id": proposal("proposal_id") });
    let approved = place.call("approve_proposal", &approve);
    assert_eq!(approved.pointer("/objective/tasks/0/key"), Some(&json!("tea")), "{approved}");

    // A person who does not want to wait any longer.
    let args = goal("Think for ever.").to_string();
    let mut thinking = place.command(&["call", "propose_objective", &args]).spawn().unwrap();
    until("the model to be asked", &asked);
    assert_eq!(live_sessions(place), 1);
    interrupt(&thinking);
    assert!(!thinking.wait().unwrap().success());
    until("the end of the planner", || live_sessions(place) == 0);

    interrupt(&serving);
    assert!(serving.wait().unwrap().success());
}

fn live_sessions(place: Place<'_>) -> u64 {
    let status = place.call("core_status", &json!({}));
    status.pointer("/live_sessions").and_then(Value::as_u64).unwrap()
}
