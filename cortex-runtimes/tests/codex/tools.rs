//! What agents may do: tools that ask, and what tools leave behind.

use std::collections::BTreeMap;
use std::time::Duration;

use cortex_lib::port::{Choice, ToolAnswer, TurnOutcome};
use cortex_runtimes::{ProcessUse, Sandbox};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::{Value, json};

use crate::place::{Live, Place, alive, kill, sh, succeeded, until_gone};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_command_is_asked_for_and_the_answer_counts,
        a_change_of_files_is_asked_for_and_the_answer_counts,
        the_newest_models_ask_through_their_script_as_well,
        what_is_allowed_stays_in_the_sandbox_unless_it_is_let_out,
        a_question_reaches_the_user_and_the_answer_the_agent,
        nothing_outlives_an_attempt,
        nothing_outlives_an_interrupt,
        what_a_direct_turn_left_is_gone_after_the_close,
        nothing_outlives_the_crash_of_the_cli,
        nothing_outlives_a_session_that_is_dropped,
        the_tools_of_one_session_end_and_those_of_another_live,
        a_process_for_each_agent_leaves_nothing_either,
        keys_and_tokens_are_kept_from_tools,
        a_commit_in_a_worktree_works_and_its_hooks_are_safe,
    ]
    .into()
}

fn run(command: &str) -> Answer {
    Answer::tool("exec_command", json!({"cmd": command, "yield_time_ms": 2000}))
}

/// Asks to leave the sandbox, as a model does.
fn run_outside(command: &str) -> Answer {
    let input = json!({"cmd": command, "yield_time_ms": 2000,
        "sandbox_permissions": "require_escalated", "justification": "it needs to"});
    Answer::tool("exec_command", input)
}

async fn allow(live: &mut Live) {
    let request = live.request().await;
    live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
}

fn deny() -> ToolAnswer {
    ToolAnswer::Deny { reason: "Not today.".to_owned() }
}

/// Approvals: also a command that only reads is asked for, so that a rule against it holds.
async fn a_command_is_asked_for_and_the_answer_counts() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result("rejected"), Answer::text("sad"))
            .on(When::tool_result("made"), Answer::text("glad"))
            .on(When::last_user("look"), run("ls"))
            .otherwise(run("touch new.txt; echo made")),
    )
    .await;
    let file = place.home.project().join("new.txt");
    let mut live = place.open().await;
    for (answer, said, written) in [(deny(), "sad", false), (ToolAnswer::Allow, "glad", true)] {
        let turn = live.send("write").await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.turn_id.as_ref()), ("shell", Some(&turn)));
        assert_eq!(request.summary, "shell: touch new.txt; echo made");
        let cwd = place.home.project();
        assert_eq!(request.input.get("cwd").and_then(Value::as_str), cwd.to_str());
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer.clone()).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
        assert_eq!(file.exists(), written);
        // It no longer waits.
        live.session.answer(&request.request_id, answer).await.unwrap();
    }
    let turn = live.send("look").await;
    let request = live.request().await;
    assert_eq!(request.summary, "shell: ls");
    live.session.answer(&request.request_id, deny()).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, succeeded("sad"));
    live.close().await;
}

async fn a_change_of_files_is_asked_for_and_the_answer_counts() {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n";
    let place = Place::new(
        Script::new()
            .on(When::tool_result("rejected"), Answer::text("sad"))
            .on(When::tool_result(""), Answer::text("glad"))
            .otherwise(Answer::tool("apply_patch", json!(patch))),
    )
    .await;
    let file = place.home.project().join("new.txt");
    let mut live = place.open().await;
    for (answer, said, written) in [(deny(), "sad", false), (ToolAnswer::Allow, "glad", true)] {
        let turn = live.send("write").await;
        let request = live.request().await;
        assert_eq!(request.tool, "apply_patch");
        assert_eq!(request.summary, format!("apply_patch: {}", file.display()));
        assert_eq!(request.input.pointer("/changes/0/diff"), Some(&json!("hello\n")));
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
        assert_eq!(file.exists(), written);
    }
    live.close().await;
}

/// The newest models call their tools from a script, which itself runs unasked and can do nothing else.
async fn the_newest_models_ask_through_their_script_as_well() {
    let script = "const ran = await tools.exec_command({cmd: 'touch new.txt; echo made'}); text(ran.output);";
    let place = Place::new(
        Script::new()
            .on(When::tool_result("made"), Answer::text("glad"))
            .on(When::tool_result(""), Answer::text("sad"))
            .otherwise(Answer::tool("functions__exec", json!(script))),
    )
    .await;
    let file = place.home.project().join("new.txt");
    let model = Some("gpt-6.2-sol".to_owned());
    let mut live = place.open_with(|spec| spec.model = model).await.unwrap();
    assert_eq!(live.facts.model.as_deref(), Some("gpt-6.2-sol"));
    for (answer, said) in [(deny(), "sad"), (ToolAnswer::Allow, "glad")] {
        let turn = live.send("write").await;
        let request = live.request().await;
        assert_eq!(request.summary, "shell: touch new.txt; echo made");
        assert!(!file.exists());
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
    }
    assert!(file.exists());
    for request in place.server.requests() {
        let agents = request.tools.iter().find(|name| name.contains("agent"));
        assert_eq!(agents, None, "{:?}", request.tools);
    }
    live.close().await;
    // The CLI has a program of its own that runs the scripts.
    assert_eq!(place.processes(), Vec::<String>::new());
}

async fn what_is_allowed_stays_in_the_sandbox_unless_it_is_let_out() {
    // Not below a folder for temporary files, which the sandbox lets everybody write to.
    let outside =
        tempfile::Builder::new().prefix("cortex-outside-").tempdir_in("/var/tmp").unwrap();
    let file = outside.path().join("new.txt");
    let touch = format!("touch {}; echo tried", file.display());
    let place = Place::new(
        Script::new()
            .on(When::tool_result("tried"), Answer::text("done"))
            .on(When::last_user("outside"), run_outside(&touch))
            .otherwise(run(&touch)),
    )
    .await;
    let mut live = place.open().await;
    for (text, summary, written) in [
        ("inside", format!("shell: {touch}"), false),
        ("outside", format!("shell: {touch} (may leave the sandbox: it needs to)"), true),
    ] {
        let turn = live.send(text).await;
        let request = live.request().await;
        assert_eq!(request.summary, summary);
        assert_eq!(request.input.get("leavesSandbox").is_some(), written, "rules go by it");
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
        assert_eq!(file.exists(), written);
    }
    live.close().await;
    fs_err::remove_file(&file).unwrap();
    // A person may do without: everything is still asked for.
    let place = place.with(|config| config.sandbox = Sandbox::Off);
    let mut live = place.open().await;
    let turn = live.send("inside").await;
    allow(&mut live).await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    assert!(file.exists());
    live.close().await;
}

async fn a_question_reaches_the_user_and_the_answer_the_agent() {
    let asks = json!({"questions": [{"id": "colour", "header": "Colour", "question": "Which colour?",
        "options": [{"label": "Red", "description": "As a fox"}, {"label": "Blue", "description": "As a jay"}]}]});
    let place = Place::new(
        Script::new()
            .on(When::tool_result("Blue"), Answer::text("blue it is"))
            .on(When::tool_result(""), Answer::text("no answer"))
            .otherwise(Answer::tool("request_user_input", asks)),
    )
    .await;
    let mut live = place.open().await;
    for (answer, said) in [
        (
            ToolAnswer::Answers(BTreeMap::from([("colour".to_owned(), vec!["Blue".to_owned()])])),
            "blue it is",
        ),
        (deny(), "no answer"),
    ] {
        let turn = live.send("ask").await;
        let request = live.request().await;
        let [question] = request.questions.as_slice() else { panic!("{request:?}") };
        assert_eq!((question.id.as_str(), question.text.as_str()), ("colour", "Which colour?"));
        let red = Choice { label: "Red".to_owned(), description: Some("As a fox".to_owned()) };
        assert_eq!(question.choices.first(), Some(&red));
        live.session.answer(&request.request_id, answer).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded(said));
    }
    live.close().await;
}

/// A command that leaves processes behind: one in its group, one in a session of its own, and two whose parents have ended
/// as well.
const LEAVES: &str = "(sleep 86402 &) ; setsid sleep 86403 & (setsid sh -c 'sleep 86404 & sleep 86405' >/dev/null 2>&1 &) ; echo > ran";

/// A model whose tool leaves processes behind and then works on, in the sandbox or out of it.
async fn leaving(after: &str) -> Place {
    let command = format!("{LEAVES}; {after}");
    Place::new(
        Script::new()
            .on(When::last_user("hello"), Answer::text("fine"))
            .on(When::last_user("outside"), run_outside(&command))
            .on(When::last_user("inside"), run(&command))
            .otherwise(Answer::text("done")),
    )
    .await
}

/// Processes: a tool that forked `sleep`, also in its own session.
async fn nothing_outlives_an_attempt() {
    let place = leaving("true").await;
    let mut live = place.open().await;
    for text in ["inside", "outside"] {
        let turn = live.send(text).await;
        allow(&mut live).await;
        assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
        assert!(place.home.project().join("ran").exists());
        assert_eq!(place.sleeping(), Vec::<String>::new(), "{text}");
        fs_err::remove_file(place.home.project().join("ran")).unwrap();
    }
    // A command that runs on in the background of a completed turn.
    live.close().await;
    let place = leaving("sleep 86406").await;
    let mut live = place.open().await;
    for text in ["inside", "outside"] {
        let turn = live.send(text).await;
        allow(&mut live).await;
        assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
        assert_eq!(place.sleeping(), Vec::<String>::new(), "{text}");
    }
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn nothing_outlives_an_interrupt() {
    let place = leaving("sleep 86406").await;
    let mut live = place.open().await;
    for (text, runs_attempt) in [("inside", true), ("outside", true), ("outside", false)] {
        let turn = live.next_turn(text, runs_attempt);
        live.session.send(turn.clone()).await.unwrap();
        allow(&mut live).await;
        place.sleepers(5).await;
        live.session.interrupt(&turn.id).await.unwrap();
        assert_eq!(live.ended(&turn.id).await.outcome, TurnOutcome::Interrupted);
        assert_eq!(place.sleeping(), Vec::<String>::new());
    }
    live.close().await;
}

async fn what_a_direct_turn_left_is_gone_after_the_close() {
    let place = leaving("true").await;
    let mut live = place.open().await;
    let turn = live.next_turn("outside", false);
    live.session.send(turn.clone()).await.unwrap();
    allow(&mut live).await;
    assert_eq!(live.ended(&turn.id).await.outcome, succeeded("done"));
    place.sleepers(3).await;
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
}

/// Processes: the crash of the CLI, here of one that serves others too.
async fn nothing_outlives_the_crash_of_the_cli() {
    let place = leaving("sleep 86406").await;
    let mut live = place.open().await;
    let other = place.other();
    let mut beside = other.open().await;
    assert_eq!(live.facts.pid, beside.facts.pid, "they share a process");
    live.send("outside").await;
    allow(&mut live).await;
    place.sleepers(5).await;
    kill(live.facts.pid.unwrap());
    for live in [&mut live, &mut beside] {
        let words = live.last_words().await;
        assert!(words.contains("signal 9"), "{words}");
    }
    assert_eq!(place.processes(), Vec::<String>::new());
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    live.close().await;
    // The next session has a new process.
    let mut live = other.open().await;
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
}

async fn nothing_outlives_a_session_that_is_dropped() {
    let place = leaving("sleep 86406").await;
    let mut live = place.open().await;
    live.send("outside").await;
    allow(&mut live).await;
    place.sleepers(5).await;
    drop(live);
    until_gone(place.marker()).await;
    place.until_no_process().await;
}

async fn the_tools_of_one_session_end_and_those_of_another_live() {
    let place = leaving("sleep 86406").await;
    let other = place.other();
    let (mut one, mut two) = (place.open().await, other.open().await);
    assert_eq!(one.facts.pid, two.facts.pid, "they share a process");
    for live in [&mut one, &mut two] {
        live.send("outside").await;
        allow(live).await;
    }
    place.sleepers(5).await;
    other.sleepers(5).await;
    one.close().await;
    assert_eq!(place.sleeping(), Vec::<String>::new());
    assert_eq!(other.sleeping().len(), 5);
    assert!(!place.processes().is_empty());
    two.close().await;
    assert_eq!(other.sleeping(), Vec::<String>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
}

async fn a_process_for_each_agent_leaves_nothing_either() {
    let place = leaving("sleep 86406").await.with(|config| config.process = ProcessUse::PerAgent);
    let other = place.other();
    let (mut one, mut two) = (place.open().await, other.open().await);
    assert_ne!(one.facts.pid, two.facts.pid);
    for live in [&mut one, &mut two] {
        live.send("outside").await;
        allow(live).await;
    }
    place.sleepers(5).await;
    other.sleepers(5).await;
    one.close().await;
    assert_eq!(place.sleeping(), Vec::<String>::new());
    assert_eq!(other.sleeping().len(), 5);
    kill(two.facts.pid.unwrap());
    let words = two.last_words().await;
    assert!(words.contains("signal 9"), "{words}");
    assert_eq!(other.sleeping(), Vec::<String>::new());
    assert_eq!(place.processes(), Vec::<String>::new());
    two.session.close(Duration::ZERO).await;
}

async fn keys_and_tokens_are_kept_from_tools() {
    let place = Place::new(
        Script::new()
            .on(When::tool_result(""), Answer::text("done"))
            .on(When::last_user("outside"), run_outside("env"))
            .otherwise(run("env")),
    )
    .await
    .var("GREETING", "hello");
    let mut live = place.open().await;
    for text in ["inside", "outside"] {
        let turn = live.send(text).await;
        allow(&mut live).await;
        assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
        let seen = place.told();
        assert!(seen.contains("GREETING=hello"), "{seen}");
        for secret in ["CODEX_SCRIPTED_KEY", "sk-scripted", "ANTHROPIC_API_KEY"] {
            assert!(!seen.contains(secret), "{seen}");
        }
    }
    live.close().await;
}

/// H-31: an isolated attempt works in a worktree of its own.
async fn a_commit_in_a_worktree_works_and_its_hooks_are_safe() {
    let git = "git -c user.name=a -c user.email=a@b";
    let command = format!(
        "echo y > g; {git} add g && {git} commit -qm second && echo committed; touch \"$(git rev-parse --git-common-dir)/hooks/x\"; git config a.b c; true"
    );
    let place = Place::new(
        Script::new()
            .on(When::tool_result("committed"), Answer::text("done"))
            .on(When::tool_result(""), Answer::text("not committed"))
            .otherwise(run(&command)),
    )
    .await;
    // Not below a folder for temporary files, which the sandbox lets everybody write to.
    let top = tempfile::Builder::new().prefix("cortex-git-").tempdir_in("/var/tmp").unwrap();
    let (main, tree) = (top.path().join("main"), top.path().join("tree"));
    let setup = format!(
        "git init -q {main} && cd {main} && echo x > f && {git} add f && {git} commit -qm first && git worktree add -q -b b1 {tree}",
        main = main.display(),
        tree = tree.display(),
    );
    sh(&setup).await;
    let cwd = tree.clone();
    let mut live = place.open_with(|spec| spec.cwd = cwd).await.unwrap();
    let turn = live.send("commit").await;
    allow(&mut live).await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("done"));
    live.close().await;
    assert!(!main.join(".git/hooks/x").exists());
    let config = fs_err::read_to_string(main.join(".git/config")).unwrap();
    assert!(!config.contains("[a]"), "{config}");
}
