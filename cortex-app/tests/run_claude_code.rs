//! The example objective on the real Claude Code, with a model that a script plays: no login, no network.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

#[path = "shared/pty.rs"]
mod pty;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};

use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::{Value, json};

use pty::Terminal;

fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        the_example_runs_on_claude_code,
        without_leave_to_write_nothing_is_written,
        a_run_that_nobody_watches_says_what_waits_and_is_answered_from_elsewhere,
        a_run_at_a_terminal_goes_on_when_it_is_answered_from_elsewhere
    ])
}

/// A model that does the tasks of the example. A conversation has several tasks, so the latest come first.
fn script() -> Script {
    let bash = |command: &str| Answer::tool("Bash", json!({ "command": command }));
    let part = |title: &str, text: &str| {
        let file = format!("parts/{}.txt", title.to_lowercase());
        let lines = format!("# {title}\n{text}");
        (bash(&format!("mkdir -p parts && printf '%s\\n' '# {title}' '{text}' > {file}")), lines)
    };
    let (history, history_text) = part("History", "It came from Yunnan.");
    let (brewing, brewing_text) = part("Brewing", "Hot water, a few leaves.");
    let page = format!("# Tea\n{history_text}\n{brewing_text}");
    let did = |task: &str| When::tool_result("").and_any_text(task);
    Script::new()
        .on(When::last_user("Check the page."), bash("wc -lw page.txt"))
        .on(
            // Only with the results of both parts in the instruction.
            When::last_user("It came from Yunnan.").and_any_text("Hot water, a few leaves."),
            bash("(echo '# Tea'; cat parts/history.txt parts/brewing.txt) > page.txt"),
        )
        .on(When::last_user("Write the part: history"), history)
        .on(When::last_user("Write the part: brewing"), brewing)
        .on(
            When::last_user("Plan the page."),
            bash("printf 'history: Yunnan\\nbrewing: water\\n' > plan.txt; echo '# Draft' > page.txt"),
        )
        .on(did("Check the page."), Answer::text("They are the same."))
        .on(did("Combine the parts."), Answer::text(page))
        .on(did("Write the part: history"), Answer::text(history_text))
        .on(did("Write the part: brewing"), Answer::text(brewing_text))
        .on(did("Plan the page."), Answer::text("history: Yunnan\nbrewing: water"))
}

/// What happens to a tool that no rule is for.
const ASK: &str = "ask";
const DENY: &str = "deny";

/// A run of the example, which is copied so that its project is in this folder, too.
fn run(folder: &Path, home: &CliHome, default: &str, flags: &[&str]) -> Command {
    let objectives = folder.join("examples/objectives");
    std::fs::create_dir_all(&objectives).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/objectives");
    for entry in std::fs::read_dir(examples).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), objectives.join(entry.file_name())).unwrap();
    }
    let vars = home.vars().into_iter();
    let env: serde_json::Map<_, _> =
        vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap().into())).collect();
    let config = json!({
        "retry": { "max_retries": 0 },
        "approvals": { "default": default },
        "runtimes": { "claude_code": { "executable": cli::claude_code().unwrap(), "env": env } },
    });
    let data_dir = folder.join("data");
    std::fs::create_dir(&data_dir).unwrap();
    std::fs::write(data_dir.join("config.json"), config.to_string()).unwrap();
    let mut run = cortex(folder);
    run.args(["run", "--runtime", "claude-code"])
        .args(flags)
        .arg(objectives.join("hello.toml"))
        .stdin(Stdio::null());
    run
}

/// The program on the data directory of this folder.
fn cortex(folder: &Path) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cortex"));
    for name in CliHome::stripped() {
        program.env_remove(name);
    }
    program.arg("--data-dir").arg(folder.join("data"));
    program
}

/// Runs it to its end as one who reads its errors does, and allows each request with the command that is told there.
fn run_and_allow(mut run: Command, folder: &Path) -> (Output, usize) {
    let mut running = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut told, mut allowed) = (String::new(), 0);
    for line in BufReader::new(running.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((_, id)) = line.split_once(" approvals allow ") {
            let answered = cortex(folder).args(["approvals", "allow", id]).output().unwrap();
            assert!(answered.status.success(), "{line}: {answered:?}");
            allowed += 1;
        }
        told = told + &line + "\n";
    }
    let out = running.wait_with_output().unwrap();
    (Output { stderr: told.into_bytes(), ..out }, allowed)
}

async fn the_example_runs_on_claude_code() {
    let server = ScriptedAnthropic::start(script()).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let out = tokio::task::spawn_blocking(move || {
        run(&path, &home, DENY, &["--allow", "Bash"]).output().unwrap()
    });
    let out = out.await.unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("== check: Check the page (verified)\nThey are the same."), "{stdout}");
    let page = std::fs::read_to_string(folder.path().join("target/hello/page.txt")).unwrap();
    assert_eq!(
        page,
        "# Tea\n# History\nIt came from Yunnan.\n# Brewing\nHot water, a few leaves.\n"
    );
    assert_eq!(server.strangers().len(), 0, "nothing but the scripted server was asked");
}

async fn without_leave_to_write_nothing_is_written() {
    let server = ScriptedAnthropic::start(script()).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let out = tokio::task::spawn_blocking(move || run(&path, &home, DENY, &[]).output().unwrap());
    let out = out.await.unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("verification.failed"), "{stderr}");
    assert!(!folder.path().join("target/hello/plan.txt").exists());
}

async fn a_run_that_nobody_watches_says_what_waits_and_is_answered_from_elsewhere() {
    let server = ScriptedAnthropic::start(script()).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let ran =
        tokio::task::spawn_blocking(move || run_and_allow(run(&path, &home, ASK, &[]), &path));
    let (out, allowed) = ran.await.unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(allowed >= 4, "each task that writes was asked about: {stderr}");
    assert!(stderr.contains("wants to use Bash"), "{stderr}");
    assert!(folder.path().join("target/hello/page.txt").exists());
}

async fn a_run_at_a_terminal_goes_on_when_it_is_answered_from_elsewhere() {
    let server = ScriptedAnthropic::start(script()).await.unwrap();
    let home = CliHome::new(&server).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::runs(&run(&path, &home, ASK, &[]));
        terminal.sees("May it?");
        let code = terminal.ended(|| allow_all(&path));
        (code, terminal.all())
    });
    let (code, seen) = ran.await.unwrap();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("Too late: "), "the question was given up: {seen}");
    assert!(folder.path().join("target/hello/page.txt").exists());
}

/// Allows what waits. The run may end meanwhile, and its core with it.
fn allow_all(folder: &Path) {
    let list = cortex(folder).args(["approvals", "list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap_or_default();
    let waiting = list.get("approvals").and_then(Value::as_array).into_iter().flatten();
    for id in waiting.filter_map(|approval| approval.get("approval_id")?.as_str()) {
        cortex(folder).args(["approvals", "allow", id]).output().unwrap();
    }
}
