//! Nothing outlives its session, and nothing of others is touched.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cortex_lib::port::{ToolAnswer, TurnOutcome};
use cortex_scripted::suite::Case;
use cortex_scripted::{Answer, Script, When, cases};
use serde_json::json;

use crate::place::{Live, Place, alive, kill, succeeded, until_gone};
use crate::pretend::SERVER;

pub(crate) fn all() -> Vec<Case> {
    cases![
        an_interrupt_ends_what_the_turn_started,
        a_close_ends_everything,
        a_killed_cli_takes_everything_with_it,
        a_dropped_session_takes_everything_with_it,
        a_program_of_the_same_name_that_is_not_ours_survives,
        servers_of_a_trusted_repository_serve_the_next_attempt_too,
    ]
    .into()
}

/// Forks a `sleep` three ways: below it, in the background, and in a session of its own whose parents have ended.
const FORKS: &str = "(sleep 86431 &) ; setsid sleep 86432 & (setsid sh -c 'sleep 86433 & exec sleep 86434' >/dev/null 2>&1 &) ; echo > ran; sleep 86435";

/// A repository whose MCP server lives as long as the session.
async fn place(script: Script) -> Place {
    let place = Place::new(script).await;
    let program = place.home.home().join("own.sh");
    fs_err::write(&program, format!("sleep 86436 & {SERVER}")).unwrap();
    let server = json!({"mcpServers": {"own": {"command": "sh", "args": [program]}}});
    fs_err::write(place.home.project().join(".mcp.json"), server.to_string()).unwrap();
    // A CLI that works in the background all the same is held to its session as well.
    place.var("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "0")
}

/// A session of which seven `sleep`s live: of its server, of a shell in the background, and of a tool that runs.
async fn busy() -> (Place, Live, cortex_lib::ids::TurnId) {
    let background = json!({"command": "sleep 86437", "run_in_background": true});
    let place =
        place(Script::new().on(When::last_user("hello"), Answer::text("fine")).otherwise(
            Answer::tool("Bash", background).and_tool("Bash", json!({"command": FORKS})),
        ))
        .await;
    let mut live = place.open_with(|spec| spec.trusted = true).await.unwrap();
    place.sleepers(1).await;
    let turn = live.send("run").await;
    for _ in 0..2 {
        let request = live.request().await;
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
    }
    place.sleepers(7).await;
    (place, live, turn)
}

/// Processes: a tool that forked, also in its own session → after cancel no descendant lives.
async fn an_interrupt_ends_what_the_turn_started() {
    let (place, mut live, turn) = busy().await;
    live.session.interrupt(&turn).await.unwrap();
    assert_eq!(live.ended(&turn).await.outcome, TurnOutcome::Interrupted);
    // Its server may come back: it belongs to the session.
    let left = place.sleeping().into_iter().filter(|command| command != "sleep 86436");
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    let (end, _) = live.turn("hello").await;
    assert_eq!(end.outcome, succeeded("fine"));
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

/// Processes: … after stop no descendant lives.
async fn a_close_ends_everything() {
    for grace in [Duration::from_secs(10), Duration::ZERO] {
        let (place, live, _) = busy().await;
        live.session.close(grace).await;
        assert_eq!(alive(place.marker()), Vec::<String>::new(), "{grace:?}");
    }
}

/// Processes: … after a crash of the CLI no descendant lives.
async fn a_killed_cli_takes_everything_with_it() {
    let (place, mut live, _) = busy().await;
    kill(live.facts.pid.unwrap());
    let words = live.last_words().await;
    assert!(words.contains("signal 9"), "{words}");
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}

async fn a_dropped_session_takes_everything_with_it() {
    let (place, live, _) = busy().await;
    drop(live);
    until_gone(place.marker()).await;
}

/// A process of somebody else, ended when the test ends.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Processes: a CLI of the same name that is not ours → survives every clean-up.
async fn a_program_of_the_same_name_that_is_not_ours_survives() {
    let place = Place::new(Script::new().otherwise(Answer::text("fine"))).await;
    let folder = place.home.home().join("other");
    fs_err::create_dir(&folder).unwrap();
    let same_name = folder.join("claude");
    fs_err::copy("/bin/sleep", &same_name).unwrap();
    #[expect(clippy::disallowed_methods, reason = "nobody owns it: that is the point")]
    let start = |owner: Option<&str>| {
        let mut command = Command::new(&same_name);
        command.arg("86438").current_dir(place.home.project()).stdin(Stdio::null());
        if let Some(owner) = owner {
            command.env("CORTEX_OWNER", owner);
        }
        Stranger(command.spawn().unwrap())
    };
    let mut strangers = [start(None), start(Some("session-of-another-core"))];
    for ending in 0..3 {
        let mut live = place.open().await;
        let (end, _) = live.turn("hello").await;
        assert_eq!(end.outcome, succeeded("fine"));
        match ending {
            0 => live.session.close(Duration::from_secs(10)).await,
            1 => {
                kill(live.facts.pid.unwrap());
                live.last_words().await;
            }
            _ => {
                drop(live);
                until_gone(place.marker()).await;
            }
        }
    }
    for stranger in &mut strangers {
        assert_eq!(stranger.0.try_wait().unwrap(), None, "it was ended");
    }
}

/// They end with the attempt, as everything below the CLI, and the CLI starts them again.
async fn servers_of_a_trusted_repository_serve_the_next_attempt_too() {
    let place = place(
        Script::new()
            .on(When::tool_result("hi there"), Answer::text("greeted"))
            .otherwise(Answer::tool("mcp__own__hi", json!({}))),
    )
    .await;
    let mut live = place.open_with(|spec| spec.trusted = true).await.unwrap();
    place.sleepers(1).await;
    for _ in 0..3 {
        let turn = live.send("greet").await;
        let request = live.request().await;
        assert_eq!((request.tool.as_str(), request.of_cortex), ("mcp__own__hi", None));
        live.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        assert_eq!(live.ended(&turn).await.outcome, succeeded("greeted"));
    }
    live.close().await;
    assert_eq!(alive(place.marker()), Vec::<String>::new());
}
