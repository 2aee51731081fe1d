//! The example objective on the real Claude Code when not all goes well: a broken stream, a result that does not
//! hold, and in the end a page. A script plays the model; the tools are the real ones.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use cortex_lib::api::Command as Call;
use cortex_lib::api::tool::{ListAgents, ListTasks};
use cortex_lib::api::view::{AgentView, AttemptView, TaskView};
use cortex_lib::domain::task::Evidence;
use cortex_lib::domain::usage::Usage;
use cortex_scripted::{
    Answer, CliHome, Request, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::json;

const HISTORY: &str = "# History\nIt came from Yunnan.\n";
const BREWING: &str = "# Brewing\nHot water, a few leaves.\n";
/// What a request of the script costs.
const INPUT: u64 = 12;
const OUTPUT: u64 = 7;

fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![the_example_stumbles_and_completes])
}

/// A copy of the example in a folder of its own, so that its project is there, too.
struct Place {
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let copy = path.join("examples/objectives");
        fs_err::create_dir_all(&copy).unwrap();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/objectives");
        for entry in fs_err::read_dir(examples).unwrap() {
            let entry = entry.unwrap();
            fs_err::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        fs_err::create_dir(path.join("data")).unwrap();
        Self { folder, root: path.join("target/hello") }
    }

    fn configure(&self, home: &CliHome) {
        let vars = home.vars().into_iter();
        let mut env: serde_json::Map<_, _> = vars
            .map(|(name, value)| (name.to_owned(), value.into_string().unwrap().into()))
            .collect();
        env.insert("CLAUDE_CODE_MAX_RETRIES".to_owned(), "0".into());
        let allow = |tool: &str| json!({ "id": tool, "tool": tool, "decide": "allow" });
        let config = json!({
            "retry": { "base_ms": 20, "max_ms": 100 },
            "approvals": { "rules": [allow("Write"), allow("Read"), allow("Bash")] },
            "runtimes": { "claude_code": { "executable": cli::claude_code().unwrap(), "env": env } },
        });
        fs_err::write(self.folder.path().join("data/config.json"), config.to_string()).unwrap();
    }

    /// Runs the program to its end.
    async fn cortex(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cortex"));
        for name in CliHome::stripped() {
            program.env_remove(name);
        }
        program.arg("--data-dir").arg(self.folder.path().join("data")).args(arguments);
        tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap()
    }

    /// What a tool answers.
    async fn ask<C: Call>(&self) -> C::Output {
        let out = self.cortex(&["--json", "call", C::NAME, "{}"]).await;
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    fn page(&self) -> String {
        fs_err::read_to_string(self.root.join("page.txt")).unwrap()
    }
}

/// A model that does the tasks of the example with the tools of the CLI. A conversation has several tasks, so the
/// latest come first.
fn script(root: &Path) -> Script {
    let write = |file: &str, content: &str| {
        Answer::tool("Write", json!({ "file_path": root.join(file), "content": content }))
    };
    let read = || Answer::tool("Read", json!({ "file_path": root.join("page.txt") }));
    let page = format!("# Tea\n{HISTORY}{BREWING}");
    let combine = || When::tool_result("page.txt").and_any_text("Combine the parts.");
    Script::new()
        .on(
            When::last_user("Check the page.").and_any_text(page.trim_end()),
            Answer::tool("Bash", json!({ "command": "wc -l -w page.txt" })),
        )
        .on(When::tool_result("page.txt").and_any_text("Check the page."), Answer::text("All is well."))
        // The result did not hold. It says why, so it can be mended.
        .on(When::last_user("page.txt lacks the line: # History"), read())
        .on(
            When::tool_result("half a page").and_any_text("lacks the line"),
            write("page.txt", &page),
        )
        .on(combine().and_any_text("lacks the line"), Answer::text(page.trim_end()))
        // Only with the results of both parts in the instruction.
        .on(When::last_user(HISTORY.trim_end()).and_any_text(BREWING.trim_end()), read())
        .on(
            When::tool_result("# Draft").and_any_text("Combine the parts."),
            write("page.txt", "# Tea\nhalf a page\n"),
        )
        .on(combine(), Answer::text("That is the page."))
        // Only with the result of the plan.
        .on(
            When::last_user("Write the part: history").and_any_text("[result of plan: Plan the page]"),
            write("parts/history.txt", HISTORY),
        )
        .on(When::tool_result("history.txt"), Answer::text(HISTORY.trim_end()))
        .on(
            When::last_user("Write the part: brewing").and_any_text("[result of plan: Plan the page]"),
            Answer::tool(
                "Bash",
                json!({ "command": format!("mkdir -p parts && printf '{BREWING}' | tee parts/brewing.txt") }),
            ),
        )
        .on(When::tool_result("# Brewing"), Answer::text(BREWING.trim_end()))
        // The first try at the plan breaks off.
        .on(When::last_user("The last attempt"), write("plan.txt", "history: Yunnan\nbrewing: water\n"))
        .on(When::tool_result("plan.txt"), write("page.txt", "# Draft\n"))
        .on(When::tool_result("page.txt"), Answer::text("history: Yunnan\nbrewing: water"))
        .on(When::last_user("Plan the page."), Answer::text("half a word").cut_after(3))
        // A stream that was cut: the CLI asks the model to go on.
        .on(When::any(), Answer::text("").cut_after(1))
}

async fn the_example_stumbles_and_completes() {
    let place = Place::new();
    let server = ScriptedAnthropic::start(script(&place.root)).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    place.configure(&home);
    let file = place.folder.path().join("examples/objectives/hello.toml");
    let out = place.cortex(&["run", "--runtime", "claude-code", file.to_str().unwrap()]).await;
    let (stdout, stderr) =
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    let seen: Vec<_> = server.requests().iter().map(brief).collect();
    assert_eq!(out.status.code(), Some(0), "{stdout}\n{stderr}\n{seen:#?}");

    // Each result once, and nothing else.
    let page = format!("# Tea\n{HISTORY}{BREWING}");
    let printed = format!(
        "\n== plan: Plan the page (verified)\nhistory: Yunnan\nbrewing: water\n\
         \n== history: Write about its history (verified)\n{HISTORY}\
         \n== brewing: Write about brewing (verified)\n{BREWING}\
         \n== combine: Combine the parts (verified)\n{page}\
         \n== check: Check the page (verified)\nAll is well.\n"
    );
    assert_eq!(stdout, printed, "{stderr}");
    assert!(stderr.contains("COMPLETED: A page about tea, 5 of 5 tasks completed"), "{stderr}");
    assert_eq!(place.page(), page);

    let objectives = place.ask::<ListTasks>().await.objectives;
    let agents = place.ask::<ListAgents>().await.agents;
    let [objective] = objectives.as_slice() else { panic!("{objectives:#?}") };
    let tasks = &objective.tasks;
    stumbled_twice(tasks);
    both_worked_and_were_counted_once(tasks, &agents);
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}

/// A request, for a person who reads why the test failed.
fn brief(request: &Request) -> String {
    let results = request.tool_results.iter().map(|result| result.text.as_str());
    let results: Vec<_> = results.collect();
    format!("{:?} {results:?} {:?}", request.last_user, request.progress)
}

fn stumbled_twice(tasks: &[TaskView]) {
    let causes = |task: &TaskView| -> Vec<_> {
        task.attempts.iter().map(|attempt| attempt.cause.clone()).collect()
    };
    let failed = |cause: &str| vec![Some(cause.to_owned()), None];
    for task in tasks {
        let wanted = match task.key.as_str() {
            "plan" => failed("transient"),
            "combine" => failed("verification_failed"),
            _ => vec![None],
        };
        assert_eq!(causes(task), wanted, "{task:#?}");
        assert_eq!(task.result.as_ref().unwrap().evidence, Evidence::Verified);
    }
}

fn both_worked_and_were_counted_once(tasks: &[TaskView], agents: &[AgentView]) {
    let attempts: Vec<&AttemptView> = tasks.iter().flat_map(|task| &task.attempts).collect();
    // Of each attempt, as often as it asked the model; what broke off cost nothing that is known.
    let asked = |task: &TaskView| -> Vec<u64> {
        let used = task.attempts.iter().map(|attempt| attempt.usage.unwrap_or_default());
        used.map(|used| used.output_tokens.unwrap_or_default() / OUTPUT).collect()
    };
    for task in tasks {
        let wanted: &[u64] = match task.key.as_str() {
            "plan" => &[0, 3],
            "combine" => &[3, 3],
            _ => &[2],
        };
        assert_eq!(asked(task), wanted, "{task:#?}");
    }
    for agent in agents {
        let own = attempts.iter().filter(|attempt| attempt.agent_id == agent.agent_id);
        let own = own.filter_map(|attempt| attempt.usage).fold(Usage::default(), Usage::plus);
        assert_eq!(agent.usage.output_tokens, own.output_tokens, "{}", agent.name);
        assert_eq!(agent.usage.input_tokens, own.input_tokens, "{}", agent.name);
        assert!(own.input_tokens.unwrap() >= 2 * INPUT, "{} worked", agent.name);
    }
}
