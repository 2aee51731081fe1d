//! Programs as agents, with real shells.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    Health, McpAccess, OutputKind, ProcessStrategy, Runtime as _, Session, SessionEvent,
    SessionSpec, ToolAnswer, Turn, TurnOutcome,
};
use cortex_lib::secret::Secret;
use cortex_runtimes::{CommandConfig, CommandRuntime};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(10);

/// A session in folders of its own.
struct Fixture {
    session: Arc<dyn Session>,
    events: mpsc::Receiver<SessionEvent>,
    cwd: PathBuf,
    _folder: TempDir,
}

fn runtime(argv: &[&str]) -> CommandRuntime {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    let env = BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]);
    CommandRuntime::new(CommandConfig { name: "test".to_owned(), argv, env }).unwrap()
}

fn spec(folder: &TempDir) -> SessionSpec {
    spec_in(folder, "work")
}

/// The same at another path below the folder, for the work and for what a session needs.
fn spec_in(folder: &TempDir, path: &str) -> SessionSpec {
    let (cwd, scratch) = (folder.path().join(path), folder.path().join("scratch").join(path));
    fs_err::create_dir_all(&cwd).unwrap();
    fs_err::create_dir_all(&scratch).unwrap();
    SessionSpec {
        agent_id: Some(AgentId::new("g1")),
        instructions: Some("be brief".to_owned()),
        mcp: Some(McpAccess {
            url: "http://127.0.0.1:1/mcp".to_owned(),
            token: Secret::new("token"),
            hook_token: Secret::new("cortex_hook_1"),
        }),
        ..SessionSpec::new(SessionId::new("s1"), cwd, scratch)
    }
}

fn turn(id: &str, instruction: &str) -> Turn {
    Turn {
        id: TurnId::new(id),
        attempt_id: Some(AttemptId::new("a1")),
        instruction: instruction.to_owned(),
    }
}

impl Fixture {
    async fn open(script: &str) -> Self {
        Self::open_in(script, "work").await
    }

    async fn open_in(script: &str, path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(&folder, path);
        let cwd = spec.cwd.clone();
        let opened = runtime(&["sh", "-c", script]).open(spec).await.unwrap();
        Self { session: opened.session, events: opened.events, cwd, _folder: folder }
    }

    async fn next(&mut self) -> SessionEvent {
        timeout(PATIENCE, self.events.recv()).await.unwrap().unwrap()
    }

    /// Waits for the first line of output.
    async fn output(&mut self) -> String {
        match self.next().await {
            SessionEvent::Output { text, .. } => text,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the end of the turn; what came before, and how it ended.
    async fn end(&mut self) -> (Vec<(OutputKind, String)>, TurnOutcome) {
        let mut seen = Vec::new();
        loop {
            match self.next().await {
                SessionEvent::Output { kind, text, turn_id } => {
                    assert_eq!(turn_id, Some(TurnId::new("t1")));
                    seen.push((kind, text));
                }
                SessionEvent::TurnEnded(end) => {
                    assert_eq!(end.turn_id, TurnId::new("t1"));
                    assert!(end.usage.is_empty());
                    return (seen, end.outcome);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs one turn to its end.
    async fn run(script: &str, instruction: &str) -> TurnOutcome {
        let mut fixture = Self::open(script).await;
        fixture.session.send(turn("t1", instruction)).await.unwrap();
        fixture.end().await.1
    }

    /// Whether the process whose pid the program has written into this file still runs.
    fn runs(&self, file: &str) -> bool {
        let pid = fs_err::read_to_string(self.cwd.join(file)).unwrap();
        fs_err::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
    }
}

fn succeeded(text: &str) -> TurnOutcome {
    TurnOutcome::Succeeded { text: text.to_owned() }
}

/// The cause and the message of a failure.
fn failure(outcome: TurnOutcome) -> (Cause, String) {
    match outcome {
        TurnOutcome::Failed(failure) => (failure.cause, failure.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_claims_what_it_can_and_no_more() {
    let runtime = runtime(&["sh"]);
    let info = runtime.info();
    assert_eq!(info.id.as_str(), "command:test");
    let can = BTreeSet::from([Capability::StructuredSession, Capability::Interrupt]);
    assert_eq!(info.capabilities, can);
    assert_eq!(info.process_strategy, ProcessStrategy::ProcessPerTurn);
}

#[tokio::test]
async fn a_check_says_where_the_program_is_or_what_to_do() {
    let report = runtime(&["sh"]).check().await;
    assert_eq!((report.health, report.remediation), (Health::Healthy, None));
    assert!(report.executable.unwrap().ends_with("sh"));
    let report = runtime(&["cortex-no-such-program"]).check().await;
    assert_eq!(report.health, Health::Unhealthy);
    assert_eq!(report.message.unwrap(), "cortex-no-such-program was not found");
    assert!(report.remediation.unwrap().contains("command:test"));
}

#[tokio::test]
async fn a_program_that_is_missing_is_said_at_open() {
    for program in ["cortex-no-such-program", "./not-here", "/not/here"] {
        let folder = tempfile::tempdir().unwrap();
        let error = runtime(&[program]).open(spec(&folder)).await.unwrap_err();
        assert_eq!(error.code(), Code::RuntimeNotInstalled);
        assert!(error.message().contains(program), "{error}");
    }
}

#[tokio::test]
async fn a_read_only_turn_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(&folder);
    spec.read_only = true;
    let error = runtime(&["sh"]).open(spec).await.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeCapabilityMissing);
}

#[tokio::test]
async fn the_result_is_what_is_printed_and_each_line_is_seen_as_it_comes() {
    let mut fixture = Fixture::open("echo one; read line; echo $line; echo warn >&2").await;
    fixture.session.send(turn("t1", "two\n")).await.unwrap();
    let (mut seen, outcome) = fixture.end().await;
    seen.sort_by_key(|(kind, _)| *kind == OutputKind::Stderr);
    let text = |text: &str| (OutputKind::Text, text.to_owned());
    assert_eq!(seen, [text("one"), text("two"), (OutputKind::Stderr, "warn".to_owned())]);
    assert_eq!(outcome, succeeded("one\ntwo"));
}

#[tokio::test]
async fn a_line_is_seen_while_the_program_runs() {
    let mut fixture = Fixture::open("mkfifo go; echo early; read line <go; echo late").await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.output().await, "early");
    fs_err::write(fixture.cwd.join("go"), "go\n").unwrap();
    assert_eq!(fixture.end().await.1, succeeded("early\nlate"));
}

/// S-231.
#[tokio::test]
async fn the_instruction_comes_twice_and_the_program_knows_who_it_is() {
    let script = "cat; cat $CORTEX_INSTRUCTION_FILE; cat $CORTEX_AGENT_INSTRUCTIONS_FILE; echo;
        echo $GREETING $CORTEX_SESSION_ID $CORTEX_AGENT_ID $CORTEX_ATTEMPT_ID $CORTEX_OWNER;
        echo $CORTEX_MCP_URL $CORTEX_MCP_TOKEN; pwd";
    let mut fixture = Fixture::open(script).await;
    fixture.session.send(turn("t1", "do it\n")).await.unwrap();
    let cwd = fs_err::canonicalize(&fixture.cwd).unwrap();
    let want = format!(
        "do it\ndo it\nbe brief\nhello s1 g1 a1 s1\nhttp://127.0.0.1:1/mcp token\n{}",
        cwd.display()
    );
    assert_eq!(fixture.end().await.1, succeeded(&want));
}

/// Platform: paths with spaces, non-ASCII, 230 characters.
#[tokio::test]
async fn a_program_works_in_folders_with_spaces_non_ascii_and_230_characters() {
    let long = format!("{}/{}", "l".repeat(115), "m".repeat(115));
    for path in ["with space", "größe-項目", "a'b\"c;--$HOME*", &long] {
        let mut fixture = Fixture::open_in("pwd; tee made", path).await;
        fixture.session.send(turn("t1", "do it")).await.unwrap();
        let cwd = fs_err::canonicalize(&fixture.cwd).unwrap();
        assert_eq!(fixture.end().await.1, succeeded(&format!("{}\ndo it", cwd.display())));
        assert!(fixture.cwd.join("made").is_file(), "{path}");
    }
}

#[tokio::test]
async fn a_long_instruction_arrives_whole() {
    let instruction = "x".repeat(200 * 1024);
    assert_eq!(Fixture::run("wc -c | tr -d ' '", &instruction).await, succeeded("204800"));
    assert_eq!(Fixture::run("cat", &instruction).await, succeeded(&instruction));
}

#[tokio::test]
async fn a_program_that_does_not_read_is_no_error() {
    let instruction = "x".repeat(1024 * 1024);
    assert_eq!(Fixture::run("exec <&-; echo done", &instruction).await, succeeded("done"));
}

#[tokio::test]
async fn an_exit_code_is_a_failure_with_the_end_of_the_errors() {
    let (cause, message) =
        failure(Fixture::run("echo result; echo no such file >&2; exit 3", "").await);
    assert_eq!(cause, Cause::Error);
    assert_eq!(message, "test ended with exit code 3: no such file");
    let (_, message) = failure(Fixture::run("exit 4", "").await);
    assert_eq!(message, "test ended with exit code 4: it printed no error");
    let flood = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1";
    let (_, message) = failure(Fixture::run(flood, "").await);
    assert!(message.ends_with("last") && message.len() < 20_000, "{}", message.len());
}

#[tokio::test]
async fn a_signal_that_nobody_sent_is_a_crash() {
    let (cause, message) = failure(Fixture::run("echo broken >&2; kill -SEGV $$", "").await);
    assert_eq!(cause, Cause::Crashed);
    assert_eq!(message, "test was ended by signal 11: broken");
}

#[tokio::test]
async fn a_folder_that_is_gone_is_told_apart() {
    let fixture = Fixture::open("true").await;
    fs_err::remove_dir(&fixture.cwd).unwrap();
    let mut fixture = fixture;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(failure(fixture.end().await.1).0, Cause::InvalidRoot);
}

#[tokio::test]
async fn a_program_that_vanished_fails_the_turn() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(&folder);
    let program = spec.cwd.join("agent");
    fs_err::write(&program, "#!/bin/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs_err::set_permissions(&program, mode).unwrap();
    let mut opened = runtime(&["./agent"]).open(spec).await.unwrap();
    fs_err::remove_file(&program).unwrap();
    opened.session.send(turn("t1", "")).await.unwrap();
    match timeout(PATIENCE, opened.events.recv()).await.unwrap().unwrap() {
        SessionEvent::TurnEnded(end) => {
            let (cause, message) = failure(end.outcome);
            assert_eq!(cause, Cause::Error);
            assert!(message.contains("./agent was not found"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_whole_tree_and_the_session_lives_on() {
    let script = "read what; [ $what = quick ] && { echo quick; exit; }
        trap '' INT TERM; sleep 1000 & echo $! >child; setsid sleep 1000 & echo $! >other; echo up; wait; wait";
    let mut fixture = Fixture::open(script).await;
    fixture.session.send(turn("t1", "slow\n")).await.unwrap();
    assert_eq!(fixture.output().await, "up");
    let second = fixture.session.send(turn("t2", "quick\n")).await.unwrap_err();
    assert_eq!(second.code(), Code::RuntimeTurnInProgress);
    fixture.session.interrupt(&TurnId::new("t0")).await.unwrap();
    fixture.session.interrupt(&TurnId::new("t1")).await.unwrap();
    assert_eq!(fixture.end().await.1, TurnOutcome::Interrupted);
    assert!(!fixture.runs("child") && !fixture.runs("other"));
    fixture.session.interrupt(&TurnId::new("t1")).await.unwrap();
    fixture.session.send(turn("t1", "quick\n")).await.unwrap();
    assert_eq!(fixture.end().await.1, succeeded("quick"));
}

#[tokio::test]
async fn a_child_in_the_background_ends_with_the_program() {
    let script = "sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >child; echo result; exec >&-";
    let mut fixture = Fixture::open(script).await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.end().await.1, succeeded("result"));
    assert!(!fixture.runs("child"));
    // One that holds the output is ended as well, so it cannot keep the turn open.
    assert_eq!(Fixture::run("sleep 1000 & echo result", "").await, succeeded("result"));
}

#[tokio::test]
async fn closing_is_polite_first() {
    let mut fixture =
        Fixture::open("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done").await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.output().await, "up");
    timeout(GRACE, fixture.session.close(GRACE * 2)).await.unwrap();
    let (seen, outcome) = fixture.end().await;
    assert_eq!(seen, [(OutputKind::Text, "bye".to_owned())]);
    assert_eq!(outcome, TurnOutcome::Interrupted);
}

#[tokio::test]
async fn closing_ends_what_does_not_listen_and_is_the_last_event() {
    let script =
        "trap '' INT TERM; sleep 1000 & echo $! >child; echo $$ >program; echo up; wait; wait";
    let mut fixture = Fixture::open(script).await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.output().await, "up");
    timeout(PATIENCE, fixture.session.close(Duration::from_millis(50))).await.unwrap();
    assert!(!fixture.runs("program") && !fixture.runs("child"));
    timeout(PATIENCE, fixture.session.close(Duration::ZERO)).await.unwrap();
    assert_eq!(fixture.end().await.1, TurnOutcome::Interrupted);
    assert!(matches!(fixture.next().await, SessionEvent::Ended { .. }));

    for refused in [
        fixture.session.send(turn("t2", "")).await,
        fixture.session.interrupt(&TurnId::new("t1")).await,
        fixture.session.answer("r1", ToolAnswer::Allow).await,
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::RuntimeSessionEnded);
    }
}

#[tokio::test]
async fn closing_needs_nobody_who_reads_the_events() {
    let mut fixture = Fixture::open("yes").await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.output().await, "y");
    timeout(PATIENCE, fixture.session.close(GRACE)).await.unwrap();
    let (_, outcome) = fixture.end().await;
    assert_eq!(outcome, TurnOutcome::Interrupted);
    assert!(matches!(fixture.next().await, SessionEvent::Ended { .. }));
}

#[tokio::test]
async fn all_that_was_printed_is_seen_in_order_and_is_in_the_result() {
    let mut fixture = Fixture::open("seq 1 5000").await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    let (seen, outcome) = fixture.end().await;
    let want: Vec<String> = (1..=5000).map(|number| number.to_string()).collect();
    assert_eq!(seen.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), want);
    assert_eq!(outcome, succeeded(&want.join("\n")));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_session_ends_its_program() {
    let mut fixture =
        Fixture::open("echo $$ >program; echo up; trap '' TERM; sleep 1000; true").await;
    fixture.session.send(turn("t1", "")).await.unwrap();
    assert_eq!(fixture.output().await, "up");
    let Fixture { session, mut events, .. } = fixture;
    drop(session);
    let last = async {
        let mut last = None;
        while let Some(event) = events.recv().await {
            last = Some(event);
        }
        last
    };
    match timeout(PATIENCE, last).await.unwrap() {
        Some(SessionEvent::TurnEnded(end)) => assert_eq!(end.outcome, TurnOutcome::Interrupted),
        other => panic!("{other:?}"),
    }
}
