//! What a CLI may say and do that is out of the ordinary: huge lines, bytes that are no text, an end that never comes.

use std::time::Duration;

use cortex_lib::port::{OutputKind, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};

use crate::place::{Place, alive, succeeded};
use crate::pretend::{result, starts, state};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_line_of_twenty_megabytes_is_read,
        a_prompt_of_200_kb_arrives_whole,
        bytes_that_are_no_text_lose_nothing_around_them,
        a_program_that_never_ends_after_its_result_is_gone_after_the_grace,
        slash_texts_are_no_commands_wherever_they_stand,
    ]
    .into()
}

/// Streams: one 20 MB line → parsed or cut cleanly.
async fn a_line_of_twenty_megabytes_is_read() {
    let line = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"'"$(head -c 20000000 /dev/zero | tr '\0' x)"'"}]}}"#;
    let place = Place::new(Script::new()).await;
    let program = speaks(&[line], "exit 0");
    let place = place.with_executable(place.program(&program));
    let mut live = place.open().await;
    let (end, output) = live.turn("talk").await;
    assert_eq!(end.outcome, succeeded("whole"));
    let lengths: Vec<_> = output.iter().map(|(kind, text)| (*kind, text.len())).collect();
    assert_eq!(lengths, [(OutputKind::Text, 20_000_000)]);
    live.close().await;
}

/// Streams: a 200 KB prompt → arrives whole. Also with everything in it that is special to somebody.
async fn a_prompt_of_200_kb_arrives_whole() {
    let place = Place::new(Script::new().otherwise(Answer::text("read"))).await;
    let mut live = place.open().await;
    let words = "heron \"quoted\" \\ back \u{2028} \u{1F9A9} $HOME `id` %s\ttab\n";
    let text = format!("BEGIN {} END", words.repeat(200 * 1024 / words.len() + 1));
    let (end, _) = live.turn(&text).await;
    assert_eq!(end.outcome, succeeded("read"));
    let request = place.server.requests().pop().unwrap();
    assert_eq!(request.last_user, text);
    live.close().await;
}

/// Streams: invalid UTF-8 → kept readable, nothing lost around it.
async fn bytes_that_are_no_text_lose_nothing_around_them() {
    let line = r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"before '"$(printf '\377\376')"' after"}]}}"#;
    let noise = r#"'"$(printf '\300 noise')"'"#;
    let place = Place::new(Script::new()).await;
    let program = speaks(&[line, noise], "exit 0");
    let place = place.with_executable(place.program(&program));
    let mut live = place.open().await;
    let (end, output) = live.turn("talk").await;
    assert_eq!(end.outcome, succeeded("whole"));
    let seen: Vec<_> = output.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    let wanted = [
        (OutputKind::Text, "before \u{fffd}\u{fffd} after"),
        (OutputKind::Stderr, "\u{fffd} noise"),
    ];
    assert_eq!(seen, wanted);
    live.close().await;
}

/// Processes: a CLI that prints its result and never exits, and ignores SIGINT and SIGTERM → the attempt is done at
/// the result, the process is reaped after the grace.
async fn a_program_that_never_ends_after_its_result_is_gone_after_the_grace() {
    let place = Place::new(Script::new()).await;
    let program = speaks(&[], "while :; do sleep 86440; done");
    let place = place.with_executable(place.program(&program));
    let mut live = place.open().await;
    let (end, _) = live.turn("work").await;
    assert_eq!(end.outcome, succeeded("whole"));
    live.session.close(Duration::from_millis(500)).await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
    assert_eq!(live.last_words().await, "the session was closed");
}

/// A program that starts as the CLI does, says these lines in its first turn, and then does something else.
fn speaks(lines: &[&str], then: &str) -> String {
    let mut program = vec!["read -r line".to_owned(), state("running")];
    program.extend(lines.iter().map(|line| format!("printf '%s\\n' '{line}'")));
    program.extend([result("whole"), state("idle"), "read -r line".to_owned(), then.to_owned()]);
    starts("{}", &program)
}

/// Also in a resumed conversation.
async fn slash_texts_are_no_commands_wherever_they_stand() {
    let place = Place::new(
        Script::new()
            .on(When::last_user("again"), Answer::text("again"))
            .otherwise(Answer::text("read")),
    )
    .await;
    let mut live = place.open().await;
    let native = live.facts.native_session_id.clone().unwrap();
    for resumed in [false, true] {
        if resumed {
            live.close().await;
            live = place.resume(&native).await.unwrap();
        }
        for text in [
            "/clear",
            "/compact",
            " \t/cost",
            "\n\n/clear the table",
            "/exit\n/clear\nand more",
            "Do this:\n/clear\n/compact",
            "/cortex:skill now",
            "!touch ran",
            "#remember this",
        ] {
            let before = place.server.requests().len();
            let (end, _) = live.turn(text).await;
            assert_eq!(end.outcome, succeeded("read"), "{text:?}");
            let requests = place.server.requests();
            assert_eq!(requests.len(), before + 1, "{text:?}");
            assert!(requests.last().unwrap().last_user.contains(text.trim()), "{text:?}");
        }
    }
    assert!(!place.home.project().join("ran").exists());
    // Nothing of the conversation was cleared on the way.
    let (end, _) = live.turn("again").await;
    assert!(matches!(end.outcome, TurnOutcome::Succeeded { .. }), "{end:?}");
    let request = place.server.requests().pop().unwrap();
    assert!(request.texts.iter().any(|text| text.text.contains("/compact")), "{request:?}");
    live.close().await;
}
