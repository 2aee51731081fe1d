//! The CLI in a terminal: a person types and sees, leaves and comes back.

use std::time::Duration;

use cortex_lib::error::Code;
use cortex_lib::ids::TurnId;
use cortex_lib::port::{Runtime as _, SessionEvent};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use tokio::time::timeout;

use crate::place::{Place, alive, shared};
use crate::terminals::{PATIENCE, says, shows, spec, widens};

pub(crate) fn all() -> Vec<Case> {
    cases![
        a_person_types_sees_the_reply_leaves_and_comes_back,
        a_conversation_goes_on_in_a_terminal,
    ]
    .into()
}

async fn a_person_types_sees_the_reply_leaves_and_comes_back() {
    let script = Script::new()
        .on(When::last_user("where is the heron"), Answer::text("The heron is in the reeds."))
        .otherwise(Answer::text("Something else."));
    let place = Place::new(script).await;
    let marker = format!("terminal-{}", std::process::id());
    let mut spec = spec(&marker, place.home.project(), &place.home.home());
    spec.instructions = Some("Speak of birds alone.".to_owned());
    let opened = timeout(PATIENCE, place.runtime.open(spec)).await.unwrap().unwrap();
    let terminal = opened.terminal.unwrap();
    shows(&terminal, "Ask anything").await;
    let mut attached = terminal.attach();
    says(&terminal, "where is the heron").await;
    shows(&terminal, "The heron is in the reeds.").await;
    let requests = place.server.requests();
    let instructed = |text: &str| text.contains("Speak of birds alone.");
    assert!(requests.iter().any(|request| instructed(&request.body.to_string())), "{requests:?}");

    let mut seen = Vec::new();
    while let Ok(bytes) = attached.output.try_recv() {
        seen.extend(bytes);
    }
    assert!(!attached.screen.is_empty() && !seen.is_empty());
    drop(attached);

    // Another one, in a window of another size.
    widens(&terminal).await;
    shows(&terminal, "The heron is in the reeds.").await;
    let screen = String::from_utf8(terminal.attach().screen).unwrap();
    assert!(screen.contains("heron") && screen.contains("reeds"), "{screen:?}");
    says(&terminal, "and the owl").await;
    shows(&terminal, "Something else.").await;
    let refused = opened.session.interrupt(&TurnId::new("t")).await.unwrap_err();
    assert_eq!(refused.code(), Code::RuntimeUnsupportedInTerminalMode);
    timeout(PATIENCE, opened.session.close(Duration::from_secs(10))).await.unwrap();
    assert_eq!(alive(&marker), Vec::<String>::new());
    let mut events = opened.events;
    let ended = events.recv().await;
    assert!(matches!(ended, Some(SessionEvent::Ended { .. })), "{ended:?}");
}

pub(crate) fn script() -> Script {
    Script::new().on(When::last_user("terminal: remember the heron"), Answer::text("So noted."))
}

async fn a_conversation_goes_on_in_a_terminal() {
    let place = shared();
    let mut live = place.open().await;
    live.turn("terminal: remember the heron").await;
    let native = live.facts.native_session_id.clone();
    live.close().await;
    let marker = format!("terminal-again-{}", std::process::id());
    let mut spec = spec(&marker, place.home.project(), &place.home.home());
    spec.resume = native;
    let opened = timeout(PATIENCE, place.runtime.open(spec)).await.unwrap().unwrap();
    let terminal = opened.terminal.unwrap();
    shows(&terminal, "So noted.").await;
    timeout(PATIENCE, opened.session.close(Duration::from_secs(10))).await.unwrap();
    assert_eq!(alive(&marker), Vec::<String>::new());
}
