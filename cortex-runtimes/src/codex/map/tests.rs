//! Recorded sessions of the real CLI, and what they come to. The recordings are ours: the pinned CLI with the driver's
//! settings against a scripted model.

use std::fmt::Write as _;

use cortex_lib::ids::AttemptId;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

fn turn(number: usize) -> Turn {
    Turn {
        id: TurnId::new(format!("t{number}")),
        attempt_id: Some(AttemptId::new(format!("x{number}"))),
        instruction: "do it".to_owned(),
    }
}

/// One line for each step; signs of life are left out.
fn shown(steps: Vec<Step>, into: &mut String) {
    for step in steps.into_iter().filter(|step| *step != active()) {
        writeln!(into, "{step:?}").unwrap();
    }
}

/// Plays a recording. What the host said in it is what the driver would have said.
fn played(recording: &str) -> String {
    let mut conversation = Conversation::new("t".to_owned(), None, None);
    let (mut story, mut turns) = (String::new(), Vec::new());
    for entry in recording.lines() {
        let entry: Value = serde_json::from_str(entry).unwrap();
        let line = &entry["line"];
        match (entry["from"].as_str(), line["method"].as_str()) {
            (Some("cli"), _) => match wire::read(&line.to_string()) {
                FromCli::Answer { id, answer: Ok(answer) } if turns.contains(&id) => {
                    conversation.accepted(text(&answer, "/turn/id").unwrap());
                }
                said => shown(conversation.take(said, NOW), &mut story),
            },
            (Some("host"), Some("turn/start")) => {
                turns.push(line["id"].as_u64().unwrap());
                writeln!(story, "--- turn {}", turns.len()).unwrap();
                conversation.sent(&turn(turns.len()));
            }
            (Some("host"), Some("turn/interrupt")) => {
                writeln!(story, "--- interrupt").unwrap();
                conversation.interrupted();
            }
            (Some("host"), None) => {
                let answer = answer(&line["result"]);
                let said = conversation.answer(&ask::name(&line["id"]), &answer).unwrap();
                assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), *line);
                writeln!(story, "--- {answer:?}").unwrap();
            }
            _ => {}
        }
    }
    story
}

fn answer(result: &Value) -> ToolAnswer {
    if result["answers"]["q"].is_object() {
        let given = vec!["A".to_owned()];
        return ToolAnswer::Answers([("q".to_owned(), given)].into());
    }
    match result["decision"].as_str() {
        Some("accept") => ToolAnswer::Allow,
        _ => ToolAnswer::Deny { reason: "Not today.".to_owned() },
    }
}

macro_rules! recordings {
    ($($name:ident,)+) => {$(
        #[test]
        fn $name() {
            let recording = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/codex/", stringify!($name), ".jsonl"
            ));
            insta::with_settings!({
                snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/codex"),
                prepend_module_to_snapshot => false,
                omit_expression => true,
            }, {
                insta::assert_snapshot!(stringify!($name), played(recording));
            });
        }
    )+};
}

recordings! {
    turns,
    approvals,
    interrupted,
    failures,
}

fn note(conversation: &mut Conversation, method: &str, params: Value) -> Vec<Step> {
    let mut steps = conversation.take(FromCli::Note { method: method.to_owned(), params }, NOW);
    steps.retain(|step| *step != active());
    steps
}

fn begun(confined: Option<Confined>) -> Conversation {
    let mut conversation = Conversation::new("t".to_owned(), confined, Some("cortex".to_owned()));
    conversation.sent(&turn(1));
    conversation.accepted("n1".to_owned());
    let steps =
        note(&mut conversation, "turn/started", json!({"threadId": "t", "turn": {"id": "n1"}}));
    assert_eq!(steps, [Step::Begun]);
    conversation
}

fn ended(conversation: &mut Conversation, status: &str) -> TurnEnd {
    let turn = json!({"threadId": "t", "turn": {"id": "n1", "status": status, "items": []}});
    let steps = note(conversation, "turn/completed", turn);
    let end = steps.into_iter().find_map(|step| match step {
        Step::Over { end, .. } => Some(end),
        _ => None,
    });
    end.unwrap()
}

#[test]
fn a_turn_that_nobody_asked_for_is_ended_and_not_taken_for_ours() {
    let mut conversation = Conversation::new("t".to_owned(), None, None);
    let stray = json!({"threadId": "t", "turn": {"id": "stray"}});
    let steps = note(&mut conversation, "turn/started", stray.clone());
    assert_eq!(steps, [Step::Interrupt("stray".to_owned())]);
    let mut conversation = begun(None);
    assert_eq!(note(&mut conversation, "turn/completed", stray), []);
    assert_eq!(conversation.turn(), Some(&TurnId::new("t1")));
}

#[test]
fn a_turn_that_begins_before_our_request_is_answered_is_ours() {
    let mut conversation = Conversation::new("t".to_owned(), None, None);
    conversation.sent(&turn(1));
    assert_eq!(conversation.working(), None);
    let started = json!({"threadId": "t", "turn": {"id": "n1"}});
    assert_eq!(note(&mut conversation, "turn/started", started), [Step::Begun]);
    conversation.accepted("n1".to_owned());
    assert_eq!(conversation.working(), Some("n1"));
}

#[test]
fn a_confined_agent_that_uses_a_tool_is_stopped() {
    let item = |kind: &str| {
        let (kind, server) = kind.split_once(' ').unwrap_or((kind, "other"));
        json!({"threadId": "t", "turnId": "n1", "item": {"type": kind, "id": "i", "server": server}})
    };
    for (confined, kind, stops) in [
        (Confined::ToCortex, "commandExecution", true),
        (Confined::ToCortex, "fileChange", true),
        (Confined::ToCortex, "mcpToolCall", true),
        (Confined::ToCortex, "mcpToolCall cortex", false),
        (Confined::ToCortex, "subAgentActivity", true),
        (Confined::ToCortex, "agentMessage", false),
        (Confined::ToReading, "commandExecution", false),
        (Confined::ToReading, "fileChange", true),
        (Confined::ToReading, "aNewerKind", true),
    ] {
        // Also when the CLI had ended the turn before it heard of the interrupt.
        for status in ["interrupted", "completed", "failed"] {
            let mut conversation = begun(Some(confined));
            let steps = note(&mut conversation, "item/started", item(kind));
            let stop = steps.contains(&Step::Interrupt("n1".to_owned()));
            assert_eq!(stop, stops, "{confined:?} {kind}: {steps:?}");
            let outcome = ended(&mut conversation, status).outcome;
            let TurnOutcome::Failed(failure) = &outcome else { panic!("{outcome:?}") };
            assert_eq!(failure.cause == Cause::Refused, stops, "{confined:?} {kind} {status}");
        }
    }
}

#[test]
fn a_turn_ends_whatever_else_its_end_brings() {
    let mut conversation = begun(None);
    let nameless = json!({"threadId": "t", "turn": {"id": 7, "status": "inProgress"}});
    assert_eq!(note(&mut conversation, "turn/started", nameless), []);
    let items = json!([{"type": "x", "text": null}, {"type": "agentMessage", "text": "done"}]);
    let turn =
        json!({"threadId": "t", "turn": {"id": "n1", "status": "completed", "items": items}});
    let steps = note(&mut conversation, "turn/completed", turn);
    let [Step::Over { end, .. }] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(end.outcome, TurnOutcome::Succeeded { text: "done".to_owned() });
}

/// Memory: what came in pieces and never ended is forgotten with its turn.
#[test]
fn what_a_turn_streamed_is_forgotten_with_it() {
    let mut conversation = begun(None);
    for number in 0..3 {
        let delta =
            json!({"threadId": "t", "turnId": "n1", "itemId": format!("r{number}"), "delta": "hm"});
        note(&mut conversation, "item/reasoning/textDelta", delta);
    }
    ended(&mut conversation, "interrupted");
    assert_eq!(conversation.stream, Stream::default());
}

#[test]
fn what_is_not_known_is_a_sign_of_life_or_refused() {
    let mut conversation = begun(None);
    assert_eq!(note(&mut conversation, "thread/newThing", json!({"threadId": "t", "x": [1]})), []);
    assert_eq!(note(&mut conversation, "item/started", json!({"threadId": "t", "item": 7})), []);
    let asked = FromCli::Request { id: json!(3), method: "a/new".to_owned(), params: json!({}) };
    let steps = conversation.take(asked, NOW);
    let [Step::Say(line)] = steps.as_slice() else { panic!("{steps:?}") };
    assert!(line.contains("-32601") && line.contains("\"id\":3"), "{line}");
}

#[test]
fn a_request_that_comes_while_the_turn_ends_is_refused() {
    let mut conversation = begun(None);
    conversation.interrupted();
    let params = json!({"threadId": "t", "turnId": "n1", "command": "ls"});
    let method = "item/commandExecution/requestApproval".to_owned();
    let steps = conversation.take(FromCli::Request { id: json!(3), method, params }, NOW);
    let [Step::Say(line)] = steps.as_slice() else { panic!("{steps:?}") };
    assert!(line.contains("decline"), "{line}");
}
