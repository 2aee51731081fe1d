//! Messages to a turn that runs.

use cortex_lib::api::operator::PauseAgent;
use cortex_lib::api::tool::{InterruptAgent, PostMessage, SendMessage, StartAgent, StopAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::message::{Addressee, Channel};
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::{AgentId, TurnId};
use cortex_lib::port::{Script, ScriptedRuntime};
use cortex_lib::store::Event;
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs};
use crate::lives::life;

/// A runtime that takes input during a turn, and turns that do this.
fn listening(script: &Script) -> Setup {
    let script = script.clone();
    Setup::new().runtime(|runtime: ScriptedRuntime| {
        runtime.with(Capability::InteractiveInput).turn(move |_| script.clone())
    })
}

async fn with(script: Script) -> (Bench, AgentId) {
    let bench = listening(&script).open().await;
    let agent = bench.ready("a").await;
    (bench, agent)
}

fn say(agent: &AgentId, text: &str) -> SendMessage {
    SendMessage { agent_id: agent.clone(), message: text.into() }
}

fn told(bench: &Bench, kind: EventKind) -> Vec<Event> {
    bench.told_after(0).into_iter().filter(|event| event.kind == kind).collect()
}

async fn turn_of(bench: &Bench, agent: &AgentId) -> TurnId {
    bench.see(agent).await.current.unwrap().turn_id.unwrap()
}

async fn until_idle(bench: &Bench, agent: &AgentId) {
    let look = async || bench.see(agent).await.current.is_none().then_some(());
    bench.until("the end of the turn", look).await;
}

/// S-066, S-068: what a runtime takes during a turn is for that turn.
#[tokio::test(start_paused = true)]
async fn a_message_goes_into_the_turn_that_runs() {
    let (bench, agent) = with(Script::new().hear().hear().answer("done")).await;
    let mut output = bench.cortex.output();
    bench.call(say(&agent, "begin")).await;
    let turn = turn_of(&bench, &agent).await;
    assert!(bench.call(say(&agent, "more")).await.delivered);
    assert_eq!(output.next().await.unwrap().text, "more");
    assert_eq!(turn_of(&bench, &agent).await, turn, "the same turn goes on");
    let channel = Channel::Project(bench.project.clone());
    bench.call(PostMessage::new(channel, Addressee::Agent(agent.clone()), "psst")).await;
    bench.call(say(&agent, "and more")).await;
    until_idle(&bench, &agent).await;
    let steers = bench.world.steers();
    assert_eq!(steers[0], (turn.clone(), "more".to_owned()));
    assert!(steers[1].1.starts_with("and more\n\n"), "the inbox is counted in: {:?}", steers[1].1);
    let events = told(&bench, EventKind::SessionTurnSteered);
    assert_eq!(events[0].data, json!({ "turn_id": turn, "message": "more" }));
    assert_eq!((events.len(), bench.world.turns().len()), (2, 1));
    assert_eq!(told(&bench, EventKind::SessionTurnCompleted).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_until_the_turn_is_accepted_and_keeps_its_place() {
    let (bench, agent) = with(Script::new().accepted_after(secs(5)).hear().hear()).await;
    let first = bench.cx.call(say(&agent, "begin"));
    let rest = async {
        bench.until_turns(1).await;
        let (two, three) =
            join(bench.cx.call(say(&agent, "two")), bench.cx.call(say(&agent, "three"))).await;
        assert!(two.unwrap().delivered && three.unwrap().delivered);
    };
    let (first, ()) = join(first, rest).await;
    first.unwrap();
    let said: Vec<_> = bench.world.steers().into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["two", "three"]);
}

/// The end of the turn was on its way already: nothing that was taken in is lost.
#[tokio::test(start_paused = true)]
async fn what_comes_too_late_becomes_a_turn_of_its_own() {
    let script = Script::new().steered_too_late().wait(secs(5)).answer("done");
    let (bench, agent) = with(script).await;
    bench.call(say(&agent, "begin")).await;
    let first = turn_of(&bench, &agent).await;
    let (two, three) =
        join(bench.cx.call(say(&agent, "two")), bench.cx.call(say(&agent, "three"))).await;
    assert!(two.unwrap().delivered && three.unwrap().delivered);
    until_idle(&bench, &agent).await;
    let turns = bench.world.turns();
    let texts: Vec<_> = turns.iter().map(|turn| turn.instruction.as_str()).collect();
    assert_eq!(texts, ["begin", "two", "three"]);
    // The third was meant for the turn of the second before it had one of its own.
    let steers = bench.world.steers();
    let for_first = (first.clone(), "two".to_owned());
    assert_eq!(steers, [for_first, (first, "three".into()), (turns[1].id.clone(), "three".into())]);
    assert_eq!(told(&bench, EventKind::SessionTurnSteered), []);
    assert_eq!(told(&bench, EventKind::SessionTurnCompleted).len(), 3);
}

/// It came too late, and by then the agent takes nothing.
#[tokio::test(start_paused = true)]
async fn what_comes_too_late_for_an_agent_that_takes_nothing_is_refused() {
    let script = Script::new().steered_too_late().wait(secs(5)).answer("done");
    let (bench, agent) = with(script).await;
    bench.call(say(&agent, "begin")).await;
    let pause = async {
        pass(secs(1)).await;
        bench.call(PauseAgent { agent_id: agent.clone() }).await;
    };
    let (late, ()) = join(bench.cx.call(say(&agent, "more")), pause).await;
    let error = late.unwrap_err();
    assert_eq!(error.code(), Code::AgentStateConflict);
    assert!(error.message().contains("PAUSED"), "{error}");
    assert_eq!(bench.world.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_told_to_end_takes_nothing_more() {
    let (bench, agent) = with(Script::new().interrupted_after(secs(5))).await;
    bench.call(say(&agent, "begin")).await;
    bench.call(InterruptAgent { agent_id: agent.clone() }).await;
    assert_eq!(bench.refuse(say(&agent, "more")).await.code(), Code::RuntimeTurnInProgress);
    assert_eq!(bench.world.steers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_runtime_is_told_and_the_turn_goes_on() {
    let no = Error::new(Code::RuntimeRefused, "not now").remedy("Wait.");
    let (bench, agent) = with(Script::new().steer_fails(no).wait(secs(5)).answer("done")).await;
    bench.call(say(&agent, "begin")).await;
    let error = bench.refuse(say(&agent, "more")).await;
    assert_eq!((error.code(), error.remediation()), (Code::RuntimeRefused, "Wait."));
    until_idle(&bench, &agent).await;
    assert_eq!(told(&bench, EventKind::SessionTurnCompleted).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_session_that_ends_meanwhile_is_not_delivered() {
    for crashes in [false, true] {
        let (bench, agent) = with(Script::new().steer_hangs()).await;
        bench.call(say(&agent, "begin")).await;
        let end = async {
            pass(secs(1)).await;
            if crashes {
                let session = bench.world.session_of(&agent).unwrap();
                bench.world.kill(&session, "it crashed").await;
            } else {
                bench.call(StopAgent { agent_id: agent.clone() }).await;
            }
        };
        let (lost, ()) = join(bench.cx.call(say(&agent, "more")), end).await;
        assert_eq!(lost.unwrap_err().code(), Code::RuntimeSessionEnded);
        // The next session knows nothing of it.
        let rest = if crashes { AgentStatus::Crashed } else { AgentStatus::Stopped };
        bench.until_agent(&agent, rest).await;
        bench.call(StartAgent { agent_id: agent.clone() }).await;
        pass(secs(600)).await;
        assert_eq!((bench.world.turns().len(), bench.world.steers().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_says_nothing_does_not_hold_its_caller() {
    let (bench, agent) = with(Script::new().steer_hangs()).await;
    bench.call(say(&agent, "begin")).await;
    let began = tokio::time::Instant::now();
    assert_eq!(bench.refuse(say(&agent, "more")).await.code(), Code::RuntimeProtocol);
    assert!(began.elapsed() < secs(61));
}

/// Who is told that a message failed may say it again: it must not be said later all the same.
#[tokio::test(start_paused = true)]
async fn a_message_that_has_reached_nobody_when_its_sender_gives_up_is_never_said() {
    let (bench, agent) = with(Script::new().accepted_after(secs(90)).hear().hear()).await;
    let all = ["begin", "two", "three"].map(|text| bench.cx.call(say(&agent, text)));
    let failed: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap_err).collect();
    let codes: Vec<_> = failed.iter().map(Error::code).collect();
    let taken_back = Code::RuntimeTurnInProgress;
    assert_eq!(codes, [Code::RuntimeProtocol, taken_back, taken_back]);
    assert!(failed[0].message().contains("not known"), "it was sent: {}", failed[0]);
    assert!(failed[1].message().contains("taken back"), "{}", failed[1]);
    pass(secs(100)).await;
    assert_eq!((bench.world.turns().len(), bench.world.steers()), (1, vec![]));
    assert!(bench.call(say(&agent, "again")).await.delivered);
}

/// A runtime that hangs over one message does not hold up those behind it, and nobody is told more than is known.
#[tokio::test(start_paused = true)]
async fn a_message_that_the_runtime_is_silent_about_is_neither_delivered_nor_failed() {
    let (bench, agent) = with(Script::new().steered_after(secs(61)).hear().hear()).await;
    bench.call(say(&agent, "begin")).await;
    let began = tokio::time::Instant::now();
    let (two, three) =
        join(bench.cx.call(say(&agent, "two")), bench.cx.call(say(&agent, "three"))).await;
    for error in [two.unwrap_err(), three.unwrap_err()] {
        assert_eq!(error.code(), Code::RuntimeProtocol);
        assert!(error.message().contains("not known"), "{error}");
        assert!(error.remediation().contains("before you send it again"), "{error}");
    }
    assert!(began.elapsed() < secs(61));
    let said: Vec<_> = bench.world.steers().into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["two", "three"]);
    pass(secs(600)).await;
    assert_eq!(told(&bench, EventKind::SessionTurnSteered), []);
}

#[tokio::test(start_paused = true)]
async fn no_more_messages_wait_for_a_turn_than_may() {
    let (bench, agent) = with(Script::new().steer_hangs()).await;
    bench.call(say(&agent, "begin")).await;
    let all = (0..17).map(|at| bench.cx.call(say(&agent, &at.to_string())));
    let failed = join_all(all).await.into_iter().map(Result::unwrap_err);
    let refused: Vec<_> =
        failed.filter(|error| error.message().contains("16 messages are on their way")).collect();
    let [error] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(error.code(), Code::RuntimeTurnInProgress);
}

/// What came too late waits for the end of its turn. When the core ends that, nothing begins any more.
#[tokio::test(start_paused = true)]
async fn what_came_too_late_begins_no_turn_while_the_core_stops() {
    let script = Script::new().steered_too_late().interrupted_after(secs(2));
    let mut setup = listening(&script);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    bench.call(say(&agent, "begin")).await;
    let stop = async {
        pass(secs(1)).await;
        let began = tokio::time::Instant::now();
        bench.cortex.shutdown().await.unwrap();
        began.elapsed()
    };
    let (late, took) = join(bench.cx.call(say(&agent, "more")), stop).await;
    let error = late.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    assert!(error.message().contains("before the message was delivered"), "{error}");
    assert!(took < secs(5), "nothing is waited for: {took:?}");
    let project = bench.project.clone();
    drop(bench);
    let bench = setup.reopen(&project).await;
    assert_eq!(bench.until_agent(&agent, AgentStatus::Ready).await.last_failure, None);
    pass(secs(600)).await;
    assert_eq!(bench.world.turns().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_a_message_that_is_on_its_way_when_the_core_stops_nobody_claims_to_know() {
    let mut setup = listening(&Script::new().steer_hangs());
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    bench.call(say(&agent, "begin")).await;
    let stop = async {
        pass(secs(1)).await;
        bench.cortex.shutdown().await.unwrap();
    };
    let (lost, ()) = join(bench.cx.call(say(&agent, "more")), stop).await;
    let error = lost.unwrap_err();
    assert_eq!(error.code(), Code::RuntimeSessionEnded);
    assert!(error.message().contains("not known"), "{error}");
    let project = bench.project.clone();
    drop(bench);
    let bench = setup.reopen(&project).await;
    bench.until_agent(&agent, AgentStatus::Ready).await;
    assert_eq!(bench.store.read(|tx| tx.open_steers()).unwrap(), []);
    pass(secs(600)).await;
    assert_eq!((bench.world.turns().len(), bench.world.steers().len()), (1, 1));
}

/// A core that dies on the way: nobody was told that it was delivered, and it is not said to another session.
#[test]
fn a_message_that_was_on_its_way_when_the_core_died_is_over() {
    let mut setup = listening(&Script::new().steer_hangs());
    let (project, agent) = life(async {
        let bench = setup.open().await;
        let agent = bench.ready("a").await;
        bench.call(say(&agent, "begin")).await;
        let more = bench.cx.call(say(&agent, "more"));
        let asked =
            bench.until("the message", async || (bench.world.steers().len() == 1).then_some(()));
        tokio::select! { biased;
            _ = more => panic!("nobody answers"),
            () = asked => {}
        }
        setup.world.lose_core();
        (bench.project.clone(), agent)
    });
    life(async {
        let bench = setup.reopen(&project).await;
        bench.until_agent(&agent, AgentStatus::Ready).await;
        assert_eq!(bench.store.read(|tx| tx.open_steers()).unwrap(), []);
        pass(secs(600)).await;
        assert_eq!(bench.world.steers().len(), 1);
    });
}
