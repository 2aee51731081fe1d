//! The pinned Claude Code against the scripted server, spoken to in raw JSON lines: proves that the
//! server, the environment and the protocol that the driver relies on fit the installed version.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::panic, reason = "a test may stop, with what it saw")]
#![expect(clippy::indexing_slicing, reason = "a field that is missing reads as null")]

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cortex_scripted::{
    Answer, CliHome, Progress, Request, Script, ScriptedAnthropic, When, cases, cli, offline, suite,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// S-005: without a login, without tokens, and where there is no network at all.
fn main() -> ExitCode {
    if cli::require(cli::claude_code()).is_none() {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        the_pinned_version_runs,
        it_is_ready_when_it_answers_initialize,
        a_text_of_the_model_is_the_result_of_the_turn,
        a_denied_tool_call_reaches_the_model_as_an_error,
        an_allowed_tool_call_runs_and_its_output_reaches_the_model,
        a_wrong_key_ends_the_turn_at_once_without_retries,
        an_interrupt_ends_a_hanging_turn_and_the_session_goes_on,
        several_at_once_each_have_their_own_conversation,
        a_request_to_another_host_is_refused_and_seen,
        a_read_only_session_offers_only_the_tools_named,
    ])
}

/// No line may take longer; a start on a busy machine takes a few seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// A Claude Code in structured mode with its own server and home.
struct Claude {
    server: Arc<ScriptedAnthropic>,
    // Before its home: fields go in this order, and the home goes when nobody writes there.
    child: Child,
    home: CliHome,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Claude {
    /// Starts it with a server of its own, and hands on its answer to `initialize`.
    async fn start(script: Script, flags: &[&str], vars: &[(&str, &str)]) -> (Self, Value) {
        let server = Arc::new(ScriptedAnthropic::start(script).await.unwrap());
        Self::start_at(server, flags, vars).await
    }

    async fn start_at(
        server: Arc<ScriptedAnthropic>,
        flags: &[&str],
        vars: &[(&str, &str)],
    ) -> (Self, Value) {
        let home = CliHome::new(&server).unwrap();
        let mut command = Command::from(home.command(program()));
        command
            .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json"])
            .args([
                "--verbose",
                "--permission-prompt-tool",
                "stdio",
                "--permission-mode",
                "default",
            ])
            .args(["--setting-sources", "", "--strict-mcp-config", "--model", "sonnet"])
            .args(flags)
            .envs(vars.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut claude = Self { server, child, home, stdin, lines };
        let ready = claude.ask(json!({"subtype": "initialize", "hooks": null})).await;
        (claude, ready)
    }

    async fn send(&mut self, line: Value) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn say(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        self.send(json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""}))
            .await;
    }

    /// The next line that fits; those before it are only passed over.
    async fn next(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut passed = Vec::new();
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no such line, but {passed:?}")).unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended after {passed:?}"));
            let value: Value = serde_json::from_str(&line).unwrap();
            if fits(&value) {
                return value;
            }
            passed.push(value["type"].clone());
        }
    }

    async fn ask(&mut self, request: Value) -> Value {
        self.send(json!({"type": "control_request", "request_id": "mine", "request": request}))
            .await;
        let reply = self.next(|line| line["type"] == "control_response").await;
        assert_eq!(reply["response"]["subtype"], "success", "{reply}");
        assert_eq!(reply["response"]["request_id"], "mine");
        reply["response"]["response"].clone()
    }

    async fn result(&mut self) -> Value {
        self.next(|line| line["type"] == "result").await
    }

    async fn question(&mut self) -> Value {
        self.next(|line| line["request"]["subtype"] == "can_use_tool").await
    }

    async fn decide(&mut self, question: &Value, decision: Value) {
        let id = &question["request_id"];
        let response = json!({"subtype": "success", "request_id": id, "response": decision});
        self.send(json!({"type": "control_response", "response": response})).await;
    }

    /// Waits until the answer to its first request has come so far.
    async fn progress(&self, wanted: Progress) {
        let first = |all: &[Request]| all.first().filter(|one| one.progress == wanted).cloned();
        self.server.wait_for(first).await.unwrap();
    }

    /// Closes its input, returns how it ended, and makes sure it asked nobody but the server.
    async fn end(mut self) -> Option<i32> {
        drop(self.stdin);
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert_eq!(self.server.strangers(), []);
        assert_eq!(self.server.others(), []);
        ended.unwrap().unwrap().code()
    }
}

fn program() -> PathBuf {
    cli::claude_code().unwrap()
}

fn touch() -> Answer {
    let input = json!({"command": "touch made && echo created", "description": "Make a file"});
    Answer::text("One moment.").and_tool("Bash", input)
}

async fn the_pinned_version_runs() {
    let said = Command::new(program()).arg("--version").output().await.unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.trim(), format!("{} (Claude Code)", cli::claude_code_version()));
}

async fn it_is_ready_when_it_answers_initialize() {
    let (claude, ready) = Claude::start(Script::new(), &[], &[]).await;
    assert_eq!(ready["account"]["apiKeySource"], "ANTHROPIC_API_KEY", "{ready}");
    assert!(ready["pid"].is_u64() && ready["models"].is_array(), "{ready}");
    assert_eq!(claude.server.requests(), []);
    assert_eq!(claude.end().await, Some(0));
}

async fn a_text_of_the_model_is_the_result_of_the_turn() {
    let script =
        Script::new().on(When::last_user("hello"), Answer::thinking("hm").and_text("Good day."));
    let (mut claude, _) = Claude::start(script, &[], &[]).await;
    claude.say("hello").await;
    let init = claude.next(|line| line["subtype"] == "init").await;
    assert_eq!(init["claude_code_version"], cli::claude_code_version());
    let result = claude.result().await;
    assert_eq!(result["result"], "Good day.");
    assert_eq!(
        (&result["is_error"], &result["terminal_reason"]),
        (&json!(false), &json!("completed"))
    );
    assert_eq!(result["usage"]["output_tokens"], 7);
    let asked = &claude.server.requests()[0];
    assert_eq!((asked.last_user.as_str(), asked.stream), ("hello", true));
    assert_eq!(asked.conversation.as_deref(), result["session_id"].as_str());
    assert_eq!(claude.end().await, Some(0));
}

async fn a_denied_tool_call_reaches_the_model_as_an_error() {
    let script = Script::new()
        .on(When::last_user("make it"), touch())
        .on(When::tool_result("not today"), Answer::text("Then not."));
    let (mut claude, _) = Claude::start(script, &[], &[]).await;
    claude.say("make it").await;
    let question = claude.question().await;
    assert_eq!(question["request"]["tool_name"], "Bash");
    claude.decide(&question, json!({"behavior": "deny", "message": "not today"})).await;
    let result = claude.result().await;
    assert_eq!((&result["result"], &result["is_error"]), (&json!("Then not."), &json!(false)));
    assert_eq!(result["permission_denials"][0]["tool_name"], "Bash");
    assert!(claude.server.requests()[1].tool_results[0].is_error);
    assert!(!claude.home.project().join("made").exists());
    assert_eq!(claude.end().await, Some(0));
}

async fn an_allowed_tool_call_runs_and_its_output_reaches_the_model() {
    let script = Script::new()
        .on(When::last_user("make it"), touch())
        .on(When::tool_result("created"), Answer::text("Done."));
    let (mut claude, _) = Claude::start(script, &[], &[]).await;
    claude.say("make it").await;
    let question = claude.question().await;
    let input = &question["request"]["input"];
    claude.decide(&question, json!({"behavior": "allow", "updatedInput": input})).await;
    assert_eq!(claude.result().await["result"], "Done.");
    assert!(claude.home.project().join("made").exists());
    assert_eq!(claude.end().await, Some(0));
}

async fn a_wrong_key_ends_the_turn_at_once_without_retries() {
    let script = Script::new().otherwise(Answer::status(401));
    let (mut claude, _) = Claude::start(script, &[], &[("CLAUDE_CODE_MAX_RETRIES", "0")]).await;
    claude.say("hello").await;
    let result = claude.result().await;
    assert_eq!(
        (&result["is_error"], &result["api_error_status"]),
        (&json!(true), &json!(401)),
        "{result}"
    );
    assert_eq!(claude.server.requests().len(), 1);
    assert_eq!(claude.end().await, Some(1));
}

async fn an_interrupt_ends_a_hanging_turn_and_the_session_goes_on() {
    let script = Script::new()
        .on(When::last_user("hang"), Answer::text("On my way to the end").hang_after(3, "never"))
        .on(When::last_user("again"), Answer::text("Back."));
    let (mut claude, _) = Claude::start(script, &[], &[]).await;
    claude.say("hang").await;
    claude.progress(Progress::Held).await;
    claude.ask(json!({"subtype": "interrupt"})).await;
    let result = claude.result().await;
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    assert_eq!(result["terminal_reason"], "aborted_streaming", "{result}");
    claude.progress(Progress::Abandoned).await;
    claude.say("again").await;
    assert_eq!(claude.result().await["result"], "Back.");
    assert_eq!(claude.end().await, Some(0));
}

async fn several_at_once_each_have_their_own_conversation() {
    let script = Script::new()
        .on(When::last_user("who").nth(1).take("name", "I am ", "."), Answer::text("{{name}}"))
        .otherwise(Answer::text("again"));
    let server = Arc::new(ScriptedAnthropic::start(script).await.unwrap());
    let one = async |name: &str| {
        let (mut claude, _) = Claude::start_at(Arc::clone(&server), &[], &[]).await;
        claude.say(&format!("I am {name}. who?")).await;
        let first = claude.result().await["result"].clone();
        claude.say("who?").await;
        (first, claude.result().await["result"].clone(), claude.end().await)
    };
    let (left, right) = tokio::join!(one("left"), one("right"));
    assert_eq!(left, (json!("left"), json!("again"), Some(0)));
    assert_eq!(right, (json!("right"), json!("again"), Some(0)));
}

async fn a_request_to_another_host_is_refused_and_seen() {
    let fetch = json!({"url": "https://example.com/", "prompt": "What does it say?"});
    let script = Script::new()
        .on(When::last_user("fetch it"), Answer::tool("WebFetch", fetch))
        .on(When::tool_result(""), Answer::text("No way out."));
    let (mut claude, _) = Claude::start(script, &["--allowedTools", "WebFetch"], &[]).await;
    claude.say("fetch it").await;
    assert_eq!(claude.result().await["result"], "No way out.");
    let results = &claude.server.requests()[1].tool_results;
    assert!(results[0].is_error, "{results:?}");
    let strangers = claude.server.strangers();
    assert!(strangers.iter().all(|one| one.method == "CONNECT") && !strangers.is_empty());
}

async fn a_read_only_session_offers_only_the_tools_named() {
    let script = Script::new().otherwise(Answer::text("ok"));
    let (mut claude, _) = Claude::start(script, &["--tools", "Read,Grep,Glob"], &[]).await;
    claude.say("hello").await;
    let init = claude.next(|line| line["subtype"] == "init").await;
    assert_eq!(init["tools"], json!(["Glob", "Grep", "Read"]));
    claude.result().await;
    assert_eq!(claude.end().await, Some(0));
}
