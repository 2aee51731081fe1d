//! The configuration that `cortex mcp config` installs, read by the real CLIs: no login, no network.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use cortex_scripted::{
    Answer, CliHome, Script, ScriptedAnthropic, ScriptedChat, ScriptedResponses, ScriptedServer,
    When, cases, cli, offline, suite,
};
use serde_json::json;

fn main() -> ExitCode {
    let found = [cli::claude_code(), cli::codex(), cli::opencode()].map(cli::require);
    if found.iter().any(Option::is_none) {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        claude_code_uses_what_was_installed,
        codex_uses_what_was_installed,
        opencode_uses_what_was_installed,
    ])
}

fn script(tool: &str) -> Script {
    Script::new()
        .on(When::during("Look.", 0), Answer::tool(tool, json!({})))
        .otherwise(Answer::text("It was looked at."))
}

/// A data directory with a project, and the program on it in the home of a CLI.
struct Place {
    data: tempfile::TempDir,
    home: CliHome,
}

impl Place {
    fn new(server: &ScriptedServer) -> Self {
        let place =
            Self { data: tempfile::tempdir().unwrap(), home: CliHome::new(server).unwrap() };
        let config = json!({ "mcp": { "port": 0 } }).to_string();
        std::fs::write(place.data.path().join("config.json"), config).unwrap();
        let root = place.home.project();
        place.cortex(&["project", "add", "birds", root.to_str().unwrap()]);
        place
    }

    fn cortex(&self, args: &[&str]) {
        let mut program = self.home.command(env!("CARGO_BIN_EXE_cortex"));
        ran(program.arg("--data-dir").arg(self.data.path()).args(args));
    }

    fn install(&self, client: &str) {
        self.cortex(&["mcp", "config", "--client", client, "--embedded", "--install", "--yes"]);
    }

    /// Lets the CLI work to its end.
    fn run(&self, program: &Path, args: &[&str]) {
        ran(self.home.command(program).args(args));
    }
}

fn ran(command: &mut Command) -> Output {
    let out = tokio::task::block_in_place(|| command.stdin(Stdio::null()).output()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{command:?}\n{}\n{}", text(&out.stdout), text(&out.stderr));
    out
}

/// The model was offered the tool, called it, and read the answer of the core.
fn was_used(server: &ScriptedServer) {
    let requests = server.requests();
    let results = requests.iter().flat_map(|request| &request.tool_results);
    let results: Vec<&str> = results.map(|result| result.text.as_str()).collect();
    assert!(results.iter().any(|result| result.contains("birds")), "{results:?}");
}

fn found(cli: Result<PathBuf, cli::MissingCli>) -> PathBuf {
    cli.unwrap()
}

async fn claude_code_uses_what_was_installed() {
    let tool = "mcp__cortex__list_projects";
    let server = ScriptedAnthropic::start(script(tool)).await.unwrap();
    let place = Place::new(&server);
    place.install("claude-code");
    let claude = found(cli::claude_code());
    let listed = ran(place.home.command(&claude).args(["mcp", "list"]));
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("cortex") && listed.contains("Connected"), "{listed}");
    place.run(&claude, &["--print", "Look.", "--allowedTools", tool]);
    was_used(&server);
}

async fn codex_uses_what_was_installed() {
    let server = ScriptedResponses::start(script("mcp__cortex__list_projects")).await.unwrap();
    let place = Place::new(&server);
    place.install("codex");
    let args = ["exec", "--skip-git-repo-check", "-c", "approval_policy=\"never\"", "Look."];
    place.run(&found(cli::codex()), &args);
    was_used(&server);
}

async fn opencode_uses_what_was_installed() {
    let server = ScriptedChat::start(script("cortex_list_projects")).await.unwrap();
    let place = Place::new(&server);
    place.home.configure_opencode().unwrap();
    place.install("opencode");
    place.run(&found(cli::opencode()), &["run", "Look."]);
    was_used(&server);
}
