//! Recorded turns of the real server, and what they come to. The recordings are ours: the pinned version with a scripted
//! model, without what no driver reads.

use std::fmt::Write as _;

use cortex_lib::ids::AttemptId;
use cortex_lib::port::{ToolAnswer, TurnOutcome};
use serde_json::json;

use super::*;
use crate::opencode::wire::{self, Whole};

fn turn() -> Turn {
    Turn {
        id: TurnId::new("t1"),
        attempt_id: Some(AttemptId::new("x1")),
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
    let entries: Vec<Value> =
        recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let mut conversation = Conversation::new(text(&entries[0], "session"), None);
    conversation.sent(&turn(), text(&entries[0], "prompt"));
    let began = entries
        .iter()
        .find_map(|entry| entry.pointer("/data/payload/properties/info/time/created")?.as_i64());
    let now = Timestamp::from_millis(began.unwrap());
    let mut story = String::new();
    for entry in &entries[1..] {
        if entry["from"] == "server" {
            let told = wire::read(&entry["data"].to_string()).unwrap();
            shown(conversation.take(told, now), &mut story);
            continue;
        }
        let answer = if entry["deny"].is_string() {
            (text(entry, "deny"), ToolAnswer::Deny { reason: text(entry, "reason") })
        } else if entry["allow"].is_string() {
            (text(entry, "allow"), ToolAnswer::Allow)
        } else if entry["answers"].is_string() {
            let given = BTreeMap::from([("0".to_owned(), vec!["B".to_owned()])]);
            (text(entry, "answers"), ToolAnswer::Answers(given))
        } else {
            writeln!(story, "--- interrupt").unwrap();
            shown(conversation.interrupted().into_iter().collect(), &mut story);
            continue;
        };
        let reply = conversation.answer(&answer.0, &answer.1).unwrap();
        writeln!(story, "--- {} {}", reply.path, reply.body).unwrap();
    }
    story
}

macro_rules! recordings {
    ($($name:ident,)+) => {$(
        #[test]
        fn $name() {
            let recording = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/opencode/", stringify!($name), ".jsonl"
            ));
            insta::with_settings!({
                snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/opencode"),
                prepend_module_to_snapshot => false,
                omit_expression => true,
            }, {
                insta::assert_snapshot!(stringify!($name), played(recording));
            });
        }
    )+};
}

recordings! {
    plain_turn,
    tool_denied,
    tool_allowed,
    interrupted_text,
    interrupted_request,
    login_refused,
    rate_limited,
    retried,
    cut_off,
    question,
    sub_agent,
}

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

fn told(event: Event) -> Told {
    Told { session: Some("ses_1".to_owned()), event }
}

/// A conversation whose turn has begun.
fn begun() -> Conversation {
    let mut conversation = Conversation::new("ses_1".to_owned(), None);
    conversation.sent(&turn(), "msg_1".to_owned());
    let user = Message { id: "msg_1".to_owned(), role: "user".to_owned(), ..Message::default() };
    conversation.take(told(Event::Message(user)), NOW);
    let steps = conversation.take(told(Event::Status(Status::Busy)), NOW);
    assert_eq!(steps.first(), Some(&Step::Accepted));
    conversation
}

fn answer(finish: Option<&str>) -> Message {
    serde_json::from_value(json!({
        "id": "msg_2", "role": "assistant", "parentID": "msg_1", "finish": finish,
        "time": {"created": 1, "completed": 2},
    }))
    .unwrap()
}

fn look(busy: bool, messages: Vec<Whole>) -> Look {
    Look { busy, messages, ..Look::default() }
}

fn outcome_of(steps: &[Step]) -> Option<&TurnOutcome> {
    steps.iter().find_map(|step| match step {
        Step::Over { end, .. } => Some(&end.outcome),
        _ => None,
    })
}

#[test]
fn being_idle_is_no_end_as_long_as_the_answer_is_not_complete() {
    let mut conversation = begun();
    let steps = conversation.take(told(Event::Idle), NOW);
    assert_eq!(steps, [active(), Step::Look]);
    let steps = conversation.looked(look(true, Vec::new()), false, NOW);
    assert_eq!(steps, [], "it still works");
    let steps = conversation.looked(look(false, Vec::new()), false, NOW);
    assert_eq!(steps, [Step::Look], "its answer may follow");
    let steps = conversation.looked(look(false, Vec::new()), true, NOW);
    let Some(TurnOutcome::Failed(failure)) = outcome_of(&steps) else { panic!("{steps:?}") };
    assert_eq!(failure.message, "OpenCode ended the turn without an answer");
}

/// Events that were lost are made up for by a look.
#[test]
fn a_look_finds_the_end_and_the_text_of_a_turn_whose_events_were_lost() {
    let mut conversation = begun();
    let parts = serde_json::from_value(json!([
        {"id": "prt_1", "messageID": "msg_2", "type": "text", "text": "done", "time": {"end": 1}},
    ]));
    let whole = Whole { info: answer(Some("stop")), parts: parts.unwrap() };
    let steps = conversation.looked(look(false, vec![whole]), false, NOW);
    let done = TurnOutcome::Succeeded { text: "done".to_owned() };
    assert_eq!(outcome_of(&steps), Some(&done));
    assert_eq!(conversation.turn(), None);
}

#[test]
fn what_an_earlier_turn_left_in_the_stream_is_not_the_end_of_this_one() {
    let mut conversation = Conversation::new("ses_1".to_owned(), None);
    conversation.sent(&turn(), "msg_1".to_owned());
    let mut late = answer(Some("stop"));
    late.parent = Some("msg_0".to_owned());
    for event in [Event::Status(Status::Busy), Event::Message(late), Event::Idle] {
        let steps = conversation.take(told(event), NOW);
        assert!(steps.iter().all(|step| *step == active()), "{steps:?}");
    }
    assert!(conversation.turn().is_some() && !conversation.has_begun());
}

#[test]
fn an_interrupt_before_there_is_anything_to_end_comes_when_there_is() {
    let mut conversation = Conversation::new("ses_1".to_owned(), None);
    conversation.sent(&turn(), "msg_1".to_owned());
    assert_eq!(conversation.interrupted(), None);
    let steps = conversation.take(
        told(Event::Message(Message {
            finish: None,
            time: wire::Times::default(),
            ..answer(None)
        })),
        NOW,
    );
    assert_eq!(steps, [Step::Accepted, Step::Abort, active()]);
    // Ended while it waited to ask the model again: complete, and nothing is said about why.
    let ended = Whole { info: answer(None), parts: Vec::new() };
    let steps = conversation.looked(look(false, vec![ended]), false, NOW);
    assert_eq!(outcome_of(&steps), Some(&TurnOutcome::Interrupted));
}

#[test]
fn what_fails_before_a_turn_begins_is_a_turn_that_did_not_start() {
    let mut conversation = Conversation::new("ses_1".to_owned(), None);
    conversation.sent(&turn(), "msg_1".to_owned());
    let failure = json!({"name": "UnknownError", "data": {"message": "Agent not found: \"x\""}});
    let failed = Event::Failed(serde_json::from_value(failure).unwrap());
    let steps = conversation.take(told(failed), NOW);
    assert_eq!(steps, [Step::Refused("Agent not found: \"x\"".to_owned())]);
    assert_eq!(conversation.turn(), None);
}

#[test]
fn answers_that_break_off_again_and_again_are_not_asked_for_for_ever() {
    let mut conversation = begun();
    let mut ends = Vec::new();
    for number in 2..5 {
        let message = Message { id: format!("msg_{number}"), ..answer(Some("unknown")) };
        ends = conversation.take(told(Event::Message(message)), NOW);
    }
    assert!(ends.contains(&Step::Abort), "{ends:?}");
}

/// A sub-agent's question is one of the turn; nobody else's is.
#[test]
fn requests_of_other_sessions_in_the_folder_are_not_those_of_the_turn() {
    let mut conversation = begun();
    let child = Told { session: Some("ses_2".to_owned()), event: Event::Created { parent: None } };
    conversation.take(child, NOW);
    let permission = |id: &str, session: &str| {
        let value = json!({"id": id, "sessionID": session, "permission": "bash"});
        serde_json::from_value(value).unwrap()
    };
    let permissions = vec![permission("per_1", "ses_2"), permission("per_2", "ses_9")];
    let seen = Look { busy: true, permissions, ..Look::default() };
    let steps = conversation.looked(seen, false, NOW);
    let asked: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Emit(SessionEvent::ToolRequest(request)) => Some(request.request_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, ["per_1"]);
}

/// A tool whose events were lost has left behind what it started all the same.
#[test]
fn a_tool_that_is_first_seen_when_it_is_done_has_run() {
    let mut conversation = begun();
    assert!(!conversation.ran_tools());
    let parts = serde_json::from_value(json!([
        {"id": "prt_1", "messageID": "msg_2", "type": "tool", "tool": "bash", "callID": "call_1",
         "state": {"status": "completed", "input": {"command": "true"}}},
    ]));
    let whole = Whole { info: answer(Some("tool-calls")), parts: parts.unwrap() };
    conversation.looked(look(true, vec![whole]), false, NOW);
    assert!(conversation.ran_tools());
}

#[test]
fn what_failed_on_the_way_counts_only_when_the_last_answer_is_not_whole() {
    let failure = json!({"name": "ContextOverflowError", "data": {"message": "too long"}});
    let failed: wire::Failure = serde_json::from_value(failure).unwrap();
    for (finish, whole) in [("stop", true), ("length", true), ("tool-calls", false)] {
        let mut conversation = begun();
        conversation.take(told(Event::Failed(failed.clone())), NOW);
        let parts = serde_json::from_value(json!([
            {"id": "prt_1", "messageID": "msg_2", "type": "text", "text": "done", "time": {"end": 1}},
        ]));
        let ended = Whole { info: answer(Some(finish)), parts: parts.unwrap() };
        let steps = conversation.looked(look(false, vec![ended]), false, NOW);
        let outcome = outcome_of(&steps).unwrap();
        let says = |failure: &cortex_lib::port::TurnFailure| failure.message == "too long";
        let counts = matches!(outcome, TurnOutcome::Failed(failure) if says(failure));
        assert_eq!(counts, !whole, "{outcome:?}");
    }
}

/// A summary that fails is the reason why the turn does not go on.
#[test]
fn a_conversation_that_cannot_be_summed_up_fails_as_what_it_is() {
    let mut conversation = begun();
    conversation.take(told(Event::Message(answer(Some("tool-calls")))), NOW);
    for message in [
        json!({"id": "msg_3", "role": "user", "summary": {"diffs": []}}),
        json!({
            "id": "msg_4", "role": "assistant", "parentID": "msg_3", "summary": true,
            "error": {"name": "ContextOverflowError", "data": {"message": "too long to sum up"}},
            "time": {"created": 3, "completed": 4},
        }),
    ] {
        conversation.take(told(Event::Message(serde_json::from_value(message).unwrap())), NOW);
    }
    let steps = conversation.looked(look(false, Vec::new()), false, NOW);
    let Some(TurnOutcome::Failed(failure)) = outcome_of(&steps) else { panic!("{steps:?}") };
    assert_eq!(failure.message, "too long to sum up");
}

#[test]
fn what_is_known_of_the_sessions_below_has_a_limit() {
    let mut conversation = begun();
    for number in 0..=CHILDREN_MAX {
        let event = Event::Created { parent: Some("ses_1".to_owned()) };
        conversation.take(Told { session: Some(format!("ses_2{number:04}")), event }, NOW);
    }
    assert_eq!(conversation.sessions().count(), 1 + CHILDREN_MAX);
    conversation.forget_children();
    assert_eq!(conversation.sessions().collect::<Vec<_>>(), ["ses_1"]);
}
