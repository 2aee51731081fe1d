//! What an attempt that is over still says changes nothing, also while the next one runs.

use cortex_lib::domain::attempt::{AttemptInput, Cause, Next};
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::domain::usage::Usage;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, TaskId, TurnId};
use cortex_lib::port::{
    Asked, OutputKind, Script, SessionEvent, ToolAnswer, ToolRequest, TurnEnd, TurnOutcome,
};
use cortex_lib::progress::AttemptReport;
use cortex_lib::settings::Settings;
use serde_json::json;

use crate::bench::{Bench, Setup, pass, secs, spec};

/// A task whose first attempt failed and whose second one runs, on the same session.
async fn second_attempt() -> (Bench, AgentId, TaskId, TurnId) {
    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|turn| {
                if turn.instruction.contains("it broke") {
                    Script::new()
                } else {
                    Script::new().fail(Cause::Transient, "it broke")
                }
            })
        })
        .open()
        .await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(2).await;
    let first = bench.world.turns().first().unwrap().id.clone();
    let task = bench.task(&id).await;
    assert_eq!((task.status, task.attempts.len()), (TaskStatus::Running, 2));
    (bench, agent, id, first)
}

/// Lets the session of the agent say something late, and shows that nothing changes.
async fn changes_nothing(bench: &Bench, agent: &AgentId, id: &TaskId, late: SessionEvent) {
    let (before, seen) = (bench.task(id).await, bench.cortex.newest_event().unwrap());
    let session = bench.world.session_of(agent).unwrap();
    assert!(bench.world.emit(&session, late).await, "it is heard");
    pass(secs(5)).await;
    assert_eq!(bench.task(id).await, before);
    assert_eq!(bench.cortex.newest_event().unwrap(), seen, "nothing is told either");
}

fn ended(turn_id: &TurnId, outcome: TurnOutcome) -> SessionEvent {
    SessionEvent::TurnEnded(TurnEnd { turn_id: turn_id.clone(), outcome, usage: Usage::default() })
}

/// Claims: late result of attempt 1 while attempt 2 runs.
#[tokio::test(start_paused = true)]
async fn a_late_result_of_attempt_1_while_attempt_2_runs_changes_nothing() {
    let (bench, agent, id, first) = second_attempt().await;
    let late = TurnOutcome::Succeeded { text: "late".to_owned() };
    changes_nothing(&bench, &agent, &id, ended(&first, late)).await;
    changes_nothing(&bench, &agent, &id, ended(&first, TurnOutcome::Interrupted)).await;
}

/// Claims: late message of attempt 1 while attempt 2 runs. It is shown as its own, not as attempt 2's.
#[tokio::test(start_paused = true)]
async fn late_output_of_attempt_1_while_attempt_2_runs_changes_nothing() {
    let (bench, agent, id, first) = second_attempt().await;
    let mut output = bench.cortex.output();
    let (turn_id, text) = (Some(first.clone()), "late".to_owned());
    let late = SessionEvent::Output { turn_id, kind: OutputKind::Text, text };
    changes_nothing(&bench, &agent, &id, late).await;
    let shown = output.next().await.unwrap();
    assert_eq!((shown.turn_id, shown.execution_id, shown.task_id), (Some(first), None, None));
}

/// Claims: late tool request of attempt 1 while attempt 2 runs is `attempt.stale`, whatever the rules say.
#[tokio::test(start_paused = true)]
async fn a_late_tool_request_of_attempt_1_while_attempt_2_runs_is_denied_and_changes_nothing() {
    let (bench, agent, id, first) = second_attempt().await;
    let late = SessionEvent::ToolRequest(ToolRequest {
        request_id: "late".to_owned(),
        turn_id: Some(first),
        tool: "Bash".to_owned(),
        summary: "rm".to_owned(),
        input: json!({}),
        questions: Vec::new(),
        of_cortex: None,
    });
    changes_nothing(&bench, &agent, &id, late).await;
    let asked = bench.world.asked();
    let answer = asked.iter().find_map(|asked| match asked {
        Asked::Answer(_, request, answer) if request == "late" => Some(answer),
        _ => None,
    });
    let Some(ToolAnswer::Deny { reason }) = answer else { panic!("{answer:?}") };
    assert!(reason.starts_with("attempt.stale"), "{reason}");
}

/// Claims: what is said about attempt 1 by any way is refused with `attempt.stale`.
#[tokio::test(start_paused = true)]
async fn an_input_to_an_attempt_that_is_over_is_attempt_stale() {
    let (bench, _, id, _) = second_attempt().await;
    let before = bench.task(&id).await;
    let first = before.attempts.first().unwrap().execution_id.clone();
    let inputs = [
        AttemptInput::TurnAccepted,
        AttemptInput::TurnSucceeded(Next::Nothing),
        AttemptInput::TurnFailed(Cause::Error),
        AttemptInput::SessionLost,
        AttemptInput::GraceOver,
        AttemptInput::VerificationPassed,
    ];
    for input in inputs {
        let first = first.clone();
        let late = bench.store.write(move |tx| {
            tx.attempt_input(&first, input, &AttemptReport::default(), &Settings::default())
        });
        assert_eq!(late.await.unwrap_err().code(), Code::AttemptStale, "{input:?}");
    }
    assert_eq!(bench.task(&id).await, before);
}

/// An attempt that was told to end may not act any more, though its turn still runs.
#[tokio::test(start_paused = true)]
async fn a_tool_request_of_an_attempt_that_was_told_to_end_is_denied() {
    use cortex_lib::api::tool::CancelTask;

    let bench = Setup::new()
        .runtime(|runtime| {
            runtime.turn(|_| Script::new().deaf().wait(secs(5)).ask("Bash", json!({})))
        })
        .open()
        .await;
    bench.ready("a").await;
    let task_id = bench.one_task(spec("x", &[])).await;
    bench.until_turns(1).await;
    bench.call(CancelTask { task_id, reason: None }).await;
    pass(secs(10)).await;
    let stale = |asked: &Asked| matches!(asked, Asked::Answer(_, _, ToolAnswer::Deny { reason }) if reason.starts_with("attempt.stale"));
    assert!(bench.world.asked().iter().any(stale));
}
