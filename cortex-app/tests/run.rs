//! `cortex run` as a person uses it: the real program, real agents that are shell scripts, a data directory of its
//! own for each test.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may stop")]

#[path = "shared/pty.rs"]
mod pty;
#[path = "shared/wait.rs"]
mod wait;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use pty::Terminal;
use wait::wait_for;

/// Folders of one test, and the objective file in them.
struct Scene {
    folder: TempDir,
    file: PathBuf,
}

/// What a program that has ended said.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// What a file of one task has besides its agent's script.
struct Tail(&'static str);

const VERIFIED: Tail = Tail("[project.verification]\ncommands = [{ argv = [\"true\"] }]\n");
const UNVERIFIED: Tail = Tail("");

impl Scene {
    /// A file with one task for one agent, which is this script.
    fn of(script: &str, tail: &Tail) -> Self {
        Self::with(&format!(
            "[project]\nname = \"p\"\nroot = \"project\"\ncreate = true\n{}\
             [runtimes.agent]\nargv = [\"sh\", \"-c\", '''{script}''']\n\
             [[agents]]\nname = \"ada\"\n\
             [objective]\ntitle = \"One\"\n\
             [[objective.tasks]]\nkey = \"only\"\ndescription = \"do it\"\nmax_retries = 1\n",
            tail.0
        ))
    }

    fn with(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objective.toml");
        std::fs::write(&file, text).unwrap();
        let scene = Self { folder, file };
        std::fs::create_dir(scene.data_dir()).unwrap();
        // Retries are waited for; these are short.
        std::fs::write(
            scene.data_dir().join("config.json"),
            r#"{"retry": {"base_ms": 10, "max_ms": 20}}"#,
        )
        .unwrap();
        scene
    }

    /// The example, in a folder of its own.
    fn hello() -> Self {
        let mut scene = Self::with("");
        let objectives = scene.path("examples/objectives");
        std::fs::create_dir_all(&objectives).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/objectives");
        for entry in std::fs::read_dir(examples).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), objectives.join(entry.file_name())).unwrap();
        }
        scene.file = objectives.join("hello.toml");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    fn start(&self, args: &[&str]) -> Child {
        let file = self.file.to_str().unwrap();
        self.program(&[&["run"], args, &[file]].concat())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cortex"));
        command
            .args(args)
            .current_dir("/")
            .env("CORTEX_DATA_DIR", self.data_dir())
            .env("RUN_TEST_FOLDER", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn program(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    fn run(&self, args: &[&str]) -> Said {
        end(self.start(args))
    }

    /// A core in a process of its own, with this in its configuration.
    fn serve(&self, config: &Value) -> Child {
        std::fs::write(self.data_dir().join("config.json"), config.to_string()).unwrap();
        let mut child = self.program(&["serve", "--json"]);
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("data_dir"), "{ready}");
        child
    }

    /// A core whose configuration has the program `agent`.
    fn serve_program(&self, script: &str) -> Child {
        let commands = json!({ "agent": { "argv": ["sh", "-c", script] } });
        self.serve(&json!({ "mcp": { "enabled": false }, "runtimes": { "commands": commands } }))
    }

    /// Processes of this test's agents that live: their environment names its folder.
    fn agents(&self) -> Vec<String> {
        let mark = format!("RUN_TEST_FOLDER={}", self.folder.path().display());
        let own = std::process::id().to_string();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter(|entry| entry.file_name().to_string_lossy() != own)
            .filter(|entry| {
                let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                environ.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
            })
            .map(|entry| {
                let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&words).replace('\0', " ")
            })
            .collect()
    }
}

fn end(child: Child) -> Said {
    let out = child.wait_with_output().unwrap();
    Said {
        code: out.status.code(),
        stdout: String::from_utf8(out.stdout).unwrap(),
        stderr: String::from_utf8(out.stderr).unwrap(),
    }
}

impl Said {
    #[track_caller]
    fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn told(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not in:\n{}", self.stderr);
        self
    }

    /// Its lines as JSON.
    fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// An agent that says that it began, and ends when it is told to.
const WAITS: &str = r#"touch "$RUN_TEST_FOLDER/began"
while [ ! -e "$RUN_TEST_FOLDER/go" ]; do sleep 0.02; done
echo done"#;

#[test]
fn the_example_runs_to_its_end_and_prints_what_its_tasks_returned() {
    let scene = Scene::hello();
    let said =
        scene.run(&[]).ended(0).told("history: waits for plan").told("5 of 5 tasks completed");
    let parts = ["== plan: ", "== history: ", "== brewing: ", "== combine: ", "== check: "];
    for part in parts {
        assert!(said.stdout.contains(part), "{part} is not in:\n{}", said.stdout);
    }
    let (_, check) = said.stdout.split_once("== check: ").unwrap();
    assert!(
        check.contains("# History\nIn short: it came from Yunnan"),
        "the parts are in the last result: {check}"
    );
    assert!(
        check.contains("# Brewing\nIn short: hot water"),
        "the parts are in the last result: {check}"
    );
    let page = std::fs::read_to_string(scene.path("target/hello/page.txt")).unwrap();
    assert!(page.starts_with("# Tea\n# History\n"), "{page}");

    // Again: the same project and agents, a new objective. Going on: nothing is left.
    scene.run(&[]).ended(0);
    scene.run(&["--resume"]).ended(0).told("Nothing is left to do");
}

#[test]
fn with_json_every_line_is_an_object_and_the_last_one_tells_the_end() {
    let said = Scene::hello().run(&["--json"]).ended(0);
    let events = said.events();
    assert_eq!(events[0]["type"], "run.started");
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of("objective.ended"), 1);
    assert!(of("attempt.changed") >= 10 && of("output") >= 5);
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["status"], &last["exit_code"]),
        (&"run.ended".into(), &"COMPLETED".into(), &0.into())
    );
    let tasks = last["objective"]["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["result"]["evidence"] == "verified"), "{tasks:?}");
}

#[test]
fn a_task_that_fails_is_tried_again_and_then_the_run_has_failed() {
    let said = Scene::of("echo broken >&2; exit 7", &VERIFIED).run(&[]).ended(1);
    said.told("only: attempt 1 failed: agent ended with exit code 7: broken")
        .told("only: started by ada again, attempt 2")
        .told("FAILED: One, 0 of 1 tasks completed");
}

#[test]
fn without_a_verification_and_a_terminal_a_person_must_decide() {
    let scene = Scene::of("echo done", &UNVERIFIED);
    scene
        .run(&[])
        .ended(3)
        .told("verification.missing")
        .told(" run --resume --approve-unverified ");
    let said = scene.run(&["--resume", "--approve-unverified"]).ended(0);
    assert!(said.stdout.contains("== only: only (approved by you)\ndone"), "{}", said.stdout);
}

#[test]
fn a_person_who_is_asked_does_not_hold_up_what_was_answered_elsewhere() {
    let scene = Scene::of("echo done", &UNVERIFIED);
    let file = scene.file.to_str().unwrap();
    let mut terminal = Terminal::runs(&scene.command(&["run", file]));
    terminal.sees("Does it hold?");
    end(scene.program(&["task", "approve", "only", "--reason", "seen"])).ended(0);
    assert_eq!(terminal.ended(|| {}), 0);
    assert!(terminal.all().contains("1 of 1 tasks completed"), "{}", terminal.all());

    // Nor what has ended: nothing is left to say about it.
    let mut terminal = Terminal::runs(&scene.command(&["run", file]));
    terminal.sees("Does it hold?");
    end(scene.program(&["objective", "cancel", "One"])).ended(0);
    assert_eq!(terminal.ended(|| {}), 1);
    assert!(terminal.all().contains("CANCELLED: One"), "{}", terminal.all());
}

#[test]
fn whoever_approves_beforehand_is_not_asked() {
    Scene::of("echo done", &UNVERIFIED).run(&["--approve-unverified"]).ended(0);
}

#[test]
fn an_interrupted_run_leaves_no_process_and_goes_on() {
    let scene = Scene::of(WAITS, &VERIFIED);
    scene.run(&["--resume"]).ended(1).told("nothing to go on with");
    let child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    signal(&child, "-INT");
    end(child).ended(130).told("Stopping in order").told(" run --resume ");
    assert_eq!(scene.agents(), [""; 0]);

    scene.run(&[]).ended(1).told("an earlier run of \"One\" has not ended").told("--anew");
    std::fs::write(scene.path("go"), "").unwrap();
    let said = scene.run(&["--resume"]).ended(0);
    assert!(said.stdout.contains("== only: only (verified)\ndone"), "{}", said.stdout);
}

#[test]
fn a_second_interrupt_ends_even_an_agent_that_ignores_the_first() {
    // Told politely, it takes the time that a polite end leaves it.
    let late = r#"touch "$RUN_TEST_FOLDER/told"; (sleep 1.5; touch "$RUN_TEST_FOLDER/late") &"#;
    let scene = Scene::of(&format!("trap '{late}' INT\ntrap '' TERM\n{WAITS}"), &VERIFIED);
    let mut child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    signal(&child, "-INT");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("Stopping in order") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    wait_for("the agent was told", || scene.path("told").exists().then_some(()));
    signal(&child, "-INT");
    end(child).ended(130);
    assert_eq!(scene.agents(), [""; 0]);
    assert!(!scene.path("late").exists(), "the second interrupt did not wait for the first");
    std::fs::write(scene.path("go"), "").unwrap();
    // Whether the turn said that it was interrupted or was lost: it is tried again.
    scene.run(&["--resume"]).ended(0).told("only: started by ada again, attempt 2");
}

#[test]
fn an_earlier_run_can_be_cancelled_instead() {
    let scene = Scene::of(WAITS, &VERIFIED);
    let child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    signal(&child, "-TERM");
    end(child).ended(130);
    std::fs::write(scene.path("go"), "").unwrap();
    scene.run(&["--anew"]).ended(0).told("Earlier runs that were cancelled: 1.");
}

#[test]
fn after_a_kill_the_lost_attempt_is_told_and_tried_again() {
    let scene = Scene::of(WAITS, &VERIFIED);
    let mut child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(scene.path("go"), "").unwrap();
    scene
        .run(&["--resume"])
        .ended(0)
        .told("only: the core went down while it ran (recovery.outcome_unknown)")
        .told("only: started by ada again, attempt 2")
        .told("COMPLETED");
    assert_eq!(scene.agents(), [""; 0]);
}

#[test]
fn a_bad_file_is_refused_by_field_and_line_before_anything_is_written() {
    let scene = Scene::of("echo done", &VERIFIED);
    let text = std::fs::read_to_string(&scene.file).unwrap();
    std::fs::write(&scene.file, text.replace("max_retries = 1", "max_retries = 11")).unwrap();
    scene.run(&[]).ended(2).told(":16: objective.tasks[0].max_retries: ");
    let said = scene.run(&["--json"]).ended(2);
    let last = said.events().pop().unwrap();
    assert_eq!(last["error"]["problems"][0]["path"], "objective.tasks[0].max_retries");
    assert!(!scene.data_dir().join("cortex.db").exists() && !scene.path("project").exists());
}

#[test]
fn a_program_that_is_not_there_is_told_with_its_remedy() {
    let scene = Scene::of("", &VERIFIED);
    let text = std::fs::read_to_string(&scene.file).unwrap();
    std::fs::write(&scene.file, text.replace("\"sh\"", "\"no-such-agent\"")).unwrap();
    scene
        .run(&[])
        .ended(1)
        .told("agent ada did not start")
        .told("runtime.not_installed")
        .told("next: Install the program");
    scene.run(&["--runtime", "telepathy"]).ended(2).told("runtime.not_found");
}

#[test]
fn a_served_core_goes_on_when_its_follower_leaves() {
    let scene = Scene::of(WAITS, &VERIFIED);
    let core = scene.serve_program(WAITS);
    let child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    signal(&child, "-INT");
    end(child).ended(130).told("The core that serves this data directory goes on with it");
    std::fs::write(scene.path("go"), "").unwrap();
    let said = scene.run(&["--resume"]).ended(0);
    assert!(said.stdout.contains("== only: only (verified)\ndone"), "{}", said.stdout);
    signal(&core, "-TERM");
    end(core).ended(0);
    assert_eq!(scene.agents(), [""; 0]);
}

#[test]
fn a_served_core_that_lacks_the_runtimes_of_the_file_is_told_how_to_get_them() {
    let scene = Scene::of("echo done", &VERIFIED);
    let core = scene.serve(&json!({ "mcp": { "enabled": false } }));
    scene
        .run(&[])
        .ended(2)
        .told("runtime.not_found")
        .told("config.json")
        .told(r#"{"runtimes":{"commands":{"agent":{"argv":["sh","-c","echo done"],"env":{}}}}}"#);
    scene.run(&["--allow", "Write"]).ended(2).told("approvals.rules");
    assert!(!scene.path("project").exists(), "nothing was done");
    signal(&core, "-TERM");
    end(core).ended(0);
}

#[test]
fn whoever_follows_a_core_that_stops_is_told_how_to_go_on() {
    let scene = Scene::of(WAITS, &VERIFIED);
    let core = scene.serve_program(WAITS);
    let child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    signal(&core, "-TERM");
    end(core).ended(0);
    end(child).ended(1).told("core.stopped").told("--resume");
    std::fs::write(scene.path("go"), "").unwrap();
    scene.run(&["--resume"]).ended(0);
}

#[test]
fn a_served_core_with_another_program_of_that_name_is_not_used() {
    let scene = Scene::of("echo done", &VERIFIED);
    let core = scene.serve_program("echo something else");
    scene.run(&[]).ended(2).told("no program agent like the file's").told("--data-dir");
    assert!(!scene.path("project").exists(), "nothing was done");
    signal(&core, "-HUP");
    end(core).ended(0);
}

#[test]
fn a_run_whose_agents_were_stopped_says_what_starts_them() {
    let scene = Scene::of(WAITS, &VERIFIED);
    let core = scene.serve_program(WAITS);
    let child = scene.start(&[]);
    wait_for("the agent", || scene.path("began").exists().then_some(()));
    end(scene.program(&["agent", "stop", "ada"])).ended(0);
    end(child).ended(3).told("No agent that may run the rest is up").told(" run --resume ");
    std::fs::write(scene.path("go"), "").unwrap();
    scene.run(&["--resume"]).ended(0);
    signal(&core, "-TERM");
    end(core).ended(0);
}

#[test]
fn a_command_line_that_is_wrong_is_told_apart_from_a_run_that_failed() {
    let scene = Scene::of("echo done", &VERIFIED);
    scene.run(&["--data-dir", "here"]).ended(2).told("core.data_dir_not_absolute");
    std::fs::write(scene.data_dir().join("config.json"), r#"{"retry": {"tries": 1}}"#).unwrap();
    scene.run(&[]).ended(2).told("core.config_invalid");
    assert!(!scene.path("project").exists(), "nothing was done");
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_a_failure_and_the_objective_is_kept() {
    for args in [&[][..], &["--json"]] {
        let scene = Scene::of("echo done", &VERIFIED);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = scene.command(&[&["run"], args, &[scene.file.to_str().unwrap()]].concat());
        let said = end(child.stdout(full).spawn().unwrap());
        said.ended(1).told("core.output_failed").told("No space left on device");
        let list = end(scene.program(&["task", "list", "--all", "--json"])).ended(0);
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        assert_eq!(list["objectives"][0]["status"], "COMPLETED");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let scene = Scene::of("echo done", &VERIFIED);
    let mut child = scene.start(&[]);
    drop(child.stdout.take());
    end(child).ended(0);
}

/// The agents of a run can reach each other: an endpoint is served for them, on a port that nobody else has.
#[test]
fn the_agents_of_a_run_are_given_the_endpoint_unless_it_is_switched_off() {
    let script = "echo \"tools at ${CORTEX_MCP_URL:-none} with ${CORTEX_MCP_TOKEN:+a credential}\"";
    let scene = Scene::of(script, &VERIFIED);
    let ran = scene.run(&[]).ended(0);
    let (_, port) = ran.stdout.split_once("tools at http://127.0.0.1:").unwrap();
    let (port, rest) = port.split_once('/').unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port != 47_821), "{}", ran.stdout);
    assert!(rest.starts_with("mcp with a credential"), "{}", ran.stdout);

    let scene = Scene::of(script, &VERIFIED);
    std::fs::write(scene.data_dir().join("config.json"), r#"{"mcp": {"enabled": false}}"#).unwrap();
    let ran = scene.run(&[]).ended(0);
    assert!(ran.stdout.contains("tools at none with"), "{}", ran.stdout);
}
