//! Plans by the command line, with the real Claude Code and a model that a script plays: no login, no network.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

#[path = "shared/wait.rs"]
mod wait;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};

use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::{Value, json};

use wait::wait_for;

fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        a_goal_becomes_a_plan_with_and_without_a_core_that_serves,
        a_person_reads_edits_and_approves_a_plan,
    ])
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

    /// Runs the program to its end, with these variables.
    fn ran(self, args: &[&str], vars: &[(&str, &str)]) -> Ran {
        let out = self.command(args).envs(vars.iter().copied()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: out.status.code(), out: text(out.stdout), err: text(out.stderr) }
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

/// What a run of the program came to.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    #[track_caller]
    fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    fn told(self, text: &str) -> Self {
        assert!(self.err.contains(text), "{text:?} is not in:\n{}", self.err);
        self
    }
}

fn shown(out: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
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

/// The plan that the script gives for every goal.
fn plan_of_the_script() -> String {
    let task = json!({"key": "tea", "title": "Make tea", "description": "Make tea."});
    json!({"title": "Tea", "tasks": [task]}).to_string()
}

/// S-099, S-100, S-106, S-119
async fn a_goal_becomes_a_plan_with_and_without_a_core_that_serves() {
    let never = Answer::text("x").silent_until("never");
    let script = Script::new().on(When::last_user("Think for ever."), never);
    let server = ScriptedAnthropic::start(script.otherwise(Answer::text(plan_of_the_script())));
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
    wait_for("the model to be asked", || asked().then_some(()));
    assert_eq!(live_sessions(place), 1);
    interrupt(&thinking);
    assert!(!thinking.wait().unwrap().success());
    wait_for("the end of the planner", || (live_sessions(place) == 0).then_some(()));

    interrupt(&serving);
    assert!(serving.wait().unwrap().success());
}

fn live_sessions(place: Place<'_>) -> u64 {
    let status = place.call("core_status", &json!({}));
    status.pointer("/live_sessions").and_then(Value::as_u64).unwrap()
}

/// S-101, S-113, S-115, S-116, S-117, S-118, S-119
async fn a_person_reads_edits_and_approves_a_plan() {
    let script = Script::new().otherwise(Answer::text(plan_of_the_script()));
    let server = ScriptedAnthropic::start(script).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let (data, root) = (tempfile::tempdir().unwrap(), home.project());
    configure(data.path(), &home);
    let place = Place(data.path());
    tokio::task::block_in_place(|| {
        let root = root.to_str().unwrap();
        place.ran(&["project", "add", "web", root], &[]).ended(0);
        drafts(place);
        let first = edits(place);
        decides(place, &first);
    });
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}

/// A draft is a file for `cortex run`, or arguments for `create_objective`.
fn drafts(place: Place<'_>) {
    let said = place.ran(&["plan", "web", "Make tea."], &[]).ended(0);
    let file = place.0.join("tea.toml");
    std::fs::write(&file, &said.out).unwrap();
    // Nothing is wrong with it but the runtime that it is told.
    let run = ["run", file.to_str().unwrap(), "--runtime", "telepathy"];
    place.ran(&run, &[]).ended(2).told("(runtime.not_found)");
    let draft = place.ran(&["plan", "web", "Make tea.", "--json"], &[]).ended(0);
    let draft: Value = serde_json::from_str(&draft.out).unwrap();
    let made = place.call("create_objective", &draft);
    assert_eq!(made.pointer("/objective/tasks/0/key"), Some(&json!("tea")), "{made}");
}

/// Three revisions; the id of the first.
fn edits(place: Place<'_>) -> String {
    let proposed = place.ran(&["propose", "web", "Make tea."], &[]).ended(0);
    assert!(proposed.out.contains("1. tea: Make tea (other; priority normal)"), "{}", proposed.out);
    let revision = || {
        let shown = place.ran(&["proposal", "show", "Tea", "--json"], &[]).ended(0);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        let at = |field: &str| shown.pointer(&format!("/proposal/{field}")).unwrap().clone();
        let id = at("proposal_id").as_str().unwrap().to_owned();
        (id, at("revision"), at("plan/tasks/0/title"))
    };
    let (first, ..) = revision();
    let edit = ["proposal", "edit", "Tea"];
    let with = |editor: &'static str| [("VISUAL", ""), ("EDITOR", editor)];

    let kept = place.ran(&edit, &with("true")).ended(0).told("nothing was changed");
    assert!(kept.out.contains(&first), "{}", kept.out);
    place.ran(&edit, &with("false")).ended(2).told("the editor gave up").told("EDITOR");
    place.ran(&edit, &with("sed -i 's/Make tea\"/Make green tea\"/'")).ended(0);
    let (second, number, title) = revision();
    assert_eq!((number, title), (json!(2), json!("Make green tea")));
    place.ran(&["proposal", "edit", &first], &with("false")).ended(4).told(&second);

    // What a person wrote stays until it is taken, and is told by field and line.
    let wrong = with("sed -i 's/^key = .*/key = \"Green Tea\"/'");
    let file = place.0.join("edits").join(format!("{second}.toml"));
    let refused = place.ran(&edit, &wrong).ended(2).told("plan.tasks[0].key: ").told("(line ");
    refused.told(&format!("What you wrote is in {}", file.display())).told("proposal edit");
    assert!(std::fs::read_to_string(&file).unwrap().contains("Green Tea"));
    assert_eq!(revision().0, second, "nothing was changed");
    place.ran(&edit, &with("sed -i s/Green.Tea/green/")).ended(0);
    assert_eq!((revision().1, file.exists()), (json!(3), false));
    first
}

fn decides(place: Place<'_>, first: &str) {
    let task = |key: &str| json!({ "key": key, "title": "Black tea", "description": "Make it." });
    let mut plan = json!({ "title": "Tea", "tasks": [task("a")], "agents": [] });
    let file = place.0.join("plan.json");
    let edit = ["proposal", "edit", "Tea", "--file", file.to_str().unwrap()];
    std::fs::write(&file, plan.to_string()).unwrap();
    place.ran(&edit, &[]).ended(2).told("plan.agents: is not a known property");
    plan.as_object_mut().unwrap().remove("agents");
    std::fs::write(&file, plan.to_string()).unwrap();
    place.ran(&edit, &[]).ended(0);
    assert!(file.exists(), "a file of the person's own stays");

    let approved = place.ran(&["proposal", "approve", "Tea"], &[]).ended(0);
    assert!(approved.out.contains("made from  proposal "), "{}", approved.out);
    assert!(approved.out.contains("waits: the project has no agent"), "{}", approved.out);
    let list = place.ran(&["proposal", "list", "--all"], &[]).ended(0).out;
    let states = ["superseded", "superseded", "superseded", "approved"];
    let seen: Vec<_> =
        list.lines().skip(1).filter_map(|row| row.split_whitespace().nth(1)).collect();
    assert_eq!(seen, states, "{list}");
    let last = list.lines().last().and_then(|row| row.split_whitespace().nth(4)).unwrap();
    place.ran(&["proposal", "edit", last], &[]).ended(4).told("(proposal.already_decided)");
    place.ran(&["proposal", "reject", last], &[]).ended(4).told("(proposal.already_decided)");
    let shown = place.ran(&["proposal", "show", first], &[]).ended(0).out;
    assert!(shown.contains("superseded") && shown.contains("newer  "), "{shown}");

    place.ran(&["propose", "web", "Make tea."], &[]).ended(0);
    let waits = place.ran(&["proposal", "list", "--project", "web"], &[]).ended(0).out;
    assert!(waits.contains("pending") && !waits.contains("approved"), "{waits}");
    // Of several plans with that title the one that waits is meant.
    let reject = ["proposal", "reject", "Tea", "--reason", "no time"];
    let rejected = place.ran(&reject, &[]).ended(0).out;
    assert!(rejected.contains(": no time"), "{rejected}");
}
