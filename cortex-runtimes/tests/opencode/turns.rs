//! Turns: what they return, use and show, how they are interrupted, and how a conversation goes on.

use cortex_lib::domain::usage::Usage;
use cortex_lib::error::Code;
use cortex_lib::port::{Health, OutputKind, Runtime as _, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Progress, Script, When, cases, cli};
use serde_json::json;

use crate::place::{shared, succeeded};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_session_is_ready_with_its_version_and_the_check_is_healthy,
        a_turn_returns_its_text_with_what_it_used_and_showed,
        an_interrupt_ends_a_turn_and_the_session_goes_on,
        an_interrupt_at_the_start_of_a_turn_is_not_lost,
        a_large_prompt_arrives_whole,
        a_very_large_answer_comes_whole,
        bytes_that_are_no_text_are_kept_readable,
        a_closed_session_can_be_resumed,
        a_session_that_nobody_knows_cannot_be_resumed,
        a_model_can_be_chosen_and_must_be_there,
        a_folder_that_was_left_can_be_entered_again,
        a_turn_that_outgrows_the_model_goes_on,
    ]
    .into()
}

/// Streams: an answer of 20 MB.
const LARGE: usize = 20 * 1024 * 1024;

pub(crate) fn script() -> Script {
    let usage = cortex_scripted::Usage {
        input_tokens: 60,
        cache_read_input_tokens: 40,
        output_tokens: 5,
        reasoning_tokens: 2,
        ..cortex_scripted::Usage::default()
    };
    // More than the model takes: OpenCode sums the conversation up and goes on.
    let full = cortex_scripted::Usage { input_tokens: 250_000, ..usage };
    let look = Answer::thinking("a bird\nperhaps")
        .and_text("I look.")
        .and_tool("glob", json!({"pattern": "*.none"}))
        .usage(usage);
    Script::new()
        .on(When::last_user("anchored summary"), Answer::text("Little was done."))
        .on(When::last_user("turns: look"), look)
        .on(
            When::tool_result("").and_any_text("turns: look"),
            Answer::text("Nothing\nthere.").usage(usage),
        )
        .on(When::last_user("turns: hang"), Answer::text("On my way").hang_after(2, "never"))
        .on(When::last_user("turns: silent"), Answer::text("x").silent_until("never"))
        .on(When::last_user("turns: hello"), Answer::text("hello"))
        .on(When::last_user("turns: end of it"), Answer::text("read"))
        .on(When::last_user("turns: talk"), Answer::text("x".repeat(LARGE)))
        .on(
            When::last_user("turns: bytes"),
            Answer::tool("bash", json!({"command": r"printf 'a\377b'", "description": "bytes"})),
        )
        .on(When::tool_result("a\u{fffd}b").and_any_text("turns: bytes"), Answer::text("a b"))
        .on(When::last_user("turns: remember"), Answer::text("noted"))
        .on(When::last_user("turns: again"), Answer::text("welcome back"))
        .on(
            When::last_user("turns: fill").first(1),
            Answer::tool("glob", json!({"pattern": "*.none"})).usage(full),
        )
        .on(When::last_user("turns: say a lot").first(1), Answer::text("half of it").usage(full))
        .on(When::last_user("turns: too much").first(1), Answer::status(413))
        .on(When::last_user("Continue if you have next steps"), Answer::text("all of it"))
        .on(When::last_user("turns: who").and_model("other"), Answer::text("the other"))
}

async fn a_session_is_ready_with_its_version_and_the_check_is_healthy() {
    let report = shared().runtime.check().await;
    let version = cli::opencode_version();
    assert_eq!((report.health, report.version), (Health::Healthy, Some(version.clone())));
    assert_eq!(report.message, Some(format!("OpenCode {version} is ready")));
    let live = shared().open().await;
    assert_eq!(live.facts.version, Some(version));
    assert_eq!(live.facts.model.as_deref(), Some(cortex_scripted::OPENCODE_MODEL));
    assert!(live.facts.pid.is_some() && live.facts.native_session_id.is_some());
    assert!(!live.facts.resumed);
    live.close().await;
}

/// Limits: what each step used is counted once.
async fn a_turn_returns_its_text_with_what_it_used_and_showed() {
    let mut live = shared().open().await;
    let (end, output) = live.turn("turns: look").await;
    assert_eq!(end.outcome, succeeded("Nothing\nthere."));
    let Usage { cost_usd, .. } = end.usage;
    let figures = (end.usage.input_tokens, end.usage.output_tokens, end.usage.cached_tokens);
    assert_eq!(figures, (Some(120), Some(14), Some(80)));
    // 60 at 1, 40 at 0.1 and 7 at 2 dollars for a million, twice.
    assert!((cost_usd.unwrap() - 0.000_156).abs() < 1e-9, "{cost_usd:?}");
    let shown: Vec<(OutputKind, &str)> =
        output.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    let want = [
        (OutputKind::Thinking, "a bird"),
        (OutputKind::Thinking, "perhaps"),
        (OutputKind::Text, "I look."),
        (OutputKind::Tool, "glob: *.none"),
        (OutputKind::Text, "Nothing"),
        (OutputKind::Text, "there."),
    ];
    assert_eq!(shown, want);
    live.close().await;
}

async fn an_interrupt_ends_a_turn_and_the_session_goes_on() {
    let mut live = shared().open().await;
    for _ in 0..2 {
        let turn = live.send("turns: hang").await;
        let native = live.facts.native_session_id.clone();
        let held = |one: &&cortex_scripted::Request| {
            one.conversation == native && one.progress == Progress::Held
        };
        shared().server.wait_for(|all| all.iter().find(held).cloned()).await.unwrap();
        live.session.interrupt(&turn).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
        // At once, without a pause.
        let (end, _) = live.turn("turns: hello").await;
        assert_eq!(end.outcome, succeeded("hello"));
        live.session.interrupt(&turn).await.unwrap();
    }
    live.close().await;
}

async fn an_interrupt_at_the_start_of_a_turn_is_not_lost() {
    let mut live = shared().open().await;
    let turn = live.next_turn("turns: silent", true);
    let (sent, ()) = tokio::join!(live.session.send(turn.clone()), async {
        live.session.interrupt(&turn.id).await.unwrap();
    });
    sent.unwrap();
    assert_eq!(live.ended(&turn.id).await.outcome, TurnOutcome::Interrupted);
    let (end, _) = live.turn("turns: hello").await;
    assert_eq!(end.outcome, succeeded("hello"));
    live.close().await;
}

/// Streams: a 200 KB prompt arrives whole.
async fn a_large_prompt_arrives_whole() {
    let mut live = shared().open().await;
    let prompt = format!("{}turns: end of it", "ä line of it\n".repeat(15_000));
    assert!(prompt.len() > 200_000);
    let (end, _) = live.turn(&prompt).await;
    assert_eq!(end.outcome, succeeded("read"));
    let asked = shared().asked(&live);
    assert_eq!(asked.first().unwrap().last_user, prompt);
    live.close().await;
}

/// Streams: one event of 20 MB.
async fn a_very_large_answer_comes_whole() {
    let mut live = shared().open().await;
    let (end, _) = live.turn("turns: talk").await;
    let TurnOutcome::Succeeded { text } = end.outcome else { panic!("{:?}", end.outcome) };
    assert_eq!((text.len(), text.trim_matches('x')), (LARGE, ""));
    live.close().await;
}

/// Streams: invalid UTF-8 is kept readable.
async fn bytes_that_are_no_text_are_kept_readable() {
    let mut live = shared().open().await;
    let turn = live.send("turns: bytes").await;
    live.allow().await;
    assert_eq!(live.ended(&turn).await.outcome, succeeded("a b"));
    live.close().await;
}

async fn a_closed_session_can_be_resumed() {
    let mut live = shared().open().await;
    live.turn("turns: remember the word heron").await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let mut live = shared().resume(&native).await.unwrap();
    assert!(live.facts.resumed);
    assert_eq!(live.facts.native_session_id.as_deref(), Some(native.as_str()));
    let (end, _) = live.turn("turns: again").await;
    assert_eq!(end.outcome, succeeded("welcome back"));
    let asked = shared().asked(&live);
    let last = asked.last().unwrap();
    assert!(last.texts.iter().any(|text| text.text.contains("heron")), "{last:?}");
    live.close().await;
}

async fn a_session_that_nobody_knows_cannot_be_resumed() {
    let unknown = "ses_dd22cd87affePt6axG4LPp5QM9";
    for name in [unknown, "../../agent", "x"] {
        let error = shared().resume(name).await.unwrap_err();
        assert_eq!(error.code(), Code::RuntimeStartFailed);
        assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
    }
    // It would work in the folder that it was made in.
    let live = shared().open().await;
    let native = live.facts.native_session_id.clone().unwrap();
    live.close().await;
    let elsewhere = shared().home.home();
    let resumed = shared().open_with(|spec| {
        spec.resume = Some(native);
        spec.cwd = elsewhere;
    });
    let error = resumed.await.unwrap_err();
    assert_eq!(error.detail("resume_unknown"), Some(&json!(true)), "{error}");
}

/// Platform: a path with spaces and other letters.
async fn a_folder_that_was_left_can_be_entered_again() {
    let folder = shared().home.home().join("a folder ä & more");
    fs_err::create_dir(&folder).unwrap();
    for _ in 0..2 {
        let mut live = shared().open_with(|spec| spec.cwd.clone_from(&folder)).await.unwrap();
        let (end, _) = live.turn("turns: hello").await;
        assert_eq!(end.outcome, succeeded("hello"));
        live.close().await;
    }
}

async fn a_model_can_be_chosen_and_must_be_there() {
    let named = |model: &str| {
        let model = model.to_owned();
        shared().open_with(|spec| spec.model = Some(model))
    };
    let mut live = named("scripted/other").await.unwrap();
    assert_eq!(live.facts.model.as_deref(), Some("scripted/other"));
    let (end, _) = live.turn("turns: who").await;
    assert_eq!(end.outcome, succeeded("the other"));
    live.close().await;
    for (model, code) in [
        ("scripted/none", Code::RuntimeStartFailed),
        ("other", Code::RuntimeStartFailed),
        ("nobody/other", Code::RuntimeNotLoggedIn),
    ] {
        let error = named(model).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    let missing = shared().open_with(|spec| spec.cwd = "/no/such/folder".into());
    assert_eq!(missing.await.unwrap_err().code(), Code::ProjectInvalidRoot);
}

/// Limits: a conversation that is too long for the model is summed up in the middle of a turn, after a step that used too
/// much or because the model refuses the next one.
async fn a_turn_that_outgrows_the_model_goes_on() {
    for (text, figures, shown) in [
        ("turns: fill", (250_024, 21), vec![(OutputKind::Tool, "glob: *.none")]),
        ("turns: say a lot", (250_024, 21), vec![(OutputKind::Text, "half of it")]),
        ("turns: too much", (24, 14), vec![]),
    ] {
        let mut live = shared().open().await;
        let (end, output) = live.turn(text).await;
        assert_eq!(end.outcome, succeeded("all of it"), "{text}");
        // What it took to sum up is counted, and what the sum says is not the agent's.
        let used = (end.usage.input_tokens, end.usage.output_tokens);
        assert_eq!(used, (Some(figures.0), Some(figures.1)), "{text}");
        let all: Vec<_> = output.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(all, [shown, vec![(OutputKind::Text, "all of it")]].concat(), "{text}");
        let (end, _) = live.turn("turns: hello").await;
        assert_eq!(end.outcome, succeeded("hello"));
        live.close().await;
    }
}
