//! The line that tells an agent of its messages.

use cortex_lib::api::tool::{AckMessage, InterruptAgent, PostMessage, SendMessage, StartAgent};
use cortex_lib::domain::message::{Addressee, Channel};
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::ids::AgentId;
use cortex_lib::port::{Script, ScriptedRuntime};

use crate::bench::{Bench, Setup, pass, secs, spec};
use crate::messages::to;

fn answers(runtime: ScriptedRuntime) -> ScriptedRuntime {
    runtime.turn(|_| Script::new().answer("done"))
}

async fn last_instruction(bench: &Bench, turns: usize) -> String {
    bench.until_turns(turns).await;
    bench.world.turns().pop().unwrap().instruction
}

fn hello(agent: &AgentId) -> SendMessage {
    SendMessage { agent_id: agent.clone(), message: "hello".into() }
}

const LINE_OF_TWO: &str = "\n\n[Cortex] 2 messages wait in your inbox. Read with read_messages, then acknowledge each with ack_message.";
const LINE_OF_ONE: &str = "\n\n[Cortex] 1 message waits in your inbox. Read with read_messages, then acknowledge each with ack_message.";

/// S-210, S-222
#[tokio::test(start_paused = true)]
async fn the_turn_of_a_task_ends_with_the_number_of_messages_and_nothing_of_their_text() {
    let bench = Setup::new().runtime(answers).open().await;
    let agent = bench.agent("a").await;
    for _ in 0..2 {
        bench.call(to(&bench, &agent)).await;
    }
    let other = bench.agent("b").await;
    bench.call(to(&bench, &other)).await;
    assert_eq!(bench.world.turns().len(), 0, "an idle agent is left alone");
    bench.call(StartAgent { agent_id: agent }).await;
    let first = bench.one_task(spec("x", &[])).await;
    let text = last_instruction(&bench, 1).await;
    assert_eq!(text, format!("Do x.{LINE_OF_TWO}"));
    assert!(!text.contains("parser"));
    bench.until_task(&first, TaskStatus::Blocked).await;
}

/// S-222
#[tokio::test(start_paused = true)]
async fn a_turn_that_a_person_starts_ends_with_it_too() {
    let bench = Setup::new().runtime(|r| r.turn(|_| Script::new())).open().await;
    let agent = bench.ready("a").await;
    bench.call(hello(&agent)).await;
    assert_eq!(last_instruction(&bench, 1).await, "hello", "no line without messages");
    let message = bench.call(to(&bench, &agent)).await.message;
    bench.call(to(&bench, &agent)).await;
    bench.call(InterruptAgent { agent_id: agent.clone() }).await;
    let idle = async || bench.see(&agent).await.current.is_none().then_some(());
    bench.until("the end of the turn", idle).await;
    bench.call(hello(&agent)).await;
    assert_eq!(last_instruction(&bench, 2).await, format!("hello{LINE_OF_TWO}"));

    bench.call(AckMessage { message_id: message.message_id }).await;
    bench.call(InterruptAgent { agent_id: agent.clone() }).await;
    bench.until("the end of the turn", idle).await;
    bench.call(hello(&agent)).await;
    assert_eq!(last_instruction(&bench, 3).await, format!("hello{LINE_OF_ONE}"));
}

/// S-222
#[tokio::test(start_paused = true)]
async fn what_has_expired_when_the_turn_is_sent_is_not_counted() {
    let bench = Setup::new().runtime(answers).open().await;
    let agent = bench.ready("a").await;
    bench.call(PostMessage { ttl_secs: 60, ..to(&bench, &agent) }).await;
    bench.call(to(&bench, &agent)).await;
    pass(secs(60)).await;
    bench.call(hello(&agent)).await;
    assert_eq!(last_instruction(&bench, 1).await, format!("hello{LINE_OF_ONE}"));
}

/// S-222
#[tokio::test(start_paused = true)]
async fn a_message_to_an_attempt_is_not_counted_for_the_next_one() {
    let runtime = |runtime: ScriptedRuntime| {
        runtime.turn(|turn| {
            if turn.instruction.starts_with("Do x.") {
                Script::new().wait(secs(10)).answer("done")
            } else {
                Script::new().answer("done")
            }
        })
    };
    let bench = Setup::new().runtime(runtime).open().await;
    let agent = bench.ready("a").await;
    let pinned = |key| TaskSpec { assigned_agent_id: Some(agent.clone()), ..spec(key, &[]) };
    let first = bench.one_task(pinned("x")).await;
    let task = bench.until_task(&first, TaskStatus::Running).await;
    let attempt = task.attempts[0].execution_id.clone();
    let channel = Channel::Project(bench.project.clone());
    bench.call(PostMessage::new(channel, Addressee::Attempt(attempt), "hurry")).await;
    bench.call(to(&bench, &agent)).await;
    bench.until_task(&first, TaskStatus::Blocked).await;
    bench.one_task(pinned("y")).await;
    assert_eq!(last_instruction(&bench, 2).await, format!("Do y.{LINE_OF_ONE}"));
}
