//! Recorded sessions of the real CLI, and what they come to. The recordings are ours: the pinned CLI with the driver's
//! arguments against a scripted model, without what no driver reads.

use std::fmt::Write as _;

use cortex_lib::ids::AttemptId;
use cortex_lib::port::TurnOutcome;
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
fn played(recording: &str, by_a_person: bool) -> String {
    let mut conversation = Conversation::new(String::new(), None);
    let (mut story, mut turns) = (String::new(), 0);
    for entry in recording.lines() {
        let entry: Value = serde_json::from_str(entry).unwrap();
        let line = &entry["line"];
        match (entry["from"].as_str(), line["type"].as_str()) {
            (Some("cli"), _) => {
                shown(conversation.take(wire::read(&line.to_string()), NOW), &mut story);
            }
            (Some("host"), Some("user")) => {
                turns += 1;
                let uuid = line["uuid"].as_str().unwrap();
                writeln!(story, "--- turn {turns}").unwrap();
                conversation.sent(&turn(turns), uuid.to_owned());
            }
            (Some("host"), Some("control_response")) => {
                let request_id = line["response"]["request_id"].as_str().unwrap();
                let reason = line["response"]["response"]["message"].as_str().unwrap();
                let deny = ToolAnswer::Deny { reason: reason.to_owned() };
                let said = conversation.answer(request_id, &deny).unwrap();
                assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), *line);
                writeln!(story, "--- denied").unwrap();
            }
            (Some("host"), _) if line["request"]["subtype"] == "interrupt" => {
                writeln!(story, "--- interrupt").unwrap();
                if by_a_person {
                    conversation.interrupted();
                }
            }
            _ => {}
        }
    }
    story
}

macro_rules! recordings {
    ($($name:ident $by_a_person:literal,)+) => {$(
        #[test]
        fn $name() {
            let recording = include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude-code/", stringify!($name), ".jsonl"
            ));
            insta::with_settings!({
                snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude-code"),
                prepend_module_to_snapshot => false,
                omit_expression => true,
            }, {
                insta::assert_snapshot!(stringify!($name), played(recording, $by_a_person));
            });
        }
    )+};
}

recordings! {
    two_turns false,
    tool_denied false,
    interrupted_text true,
    interrupted_question true,
    background_task false,
    stream_cut false,
    stream_error false,
    login_refused false,
    model_unknown false,
    rate_limited false,
    unreachable false,
    sub_agent false,
}

fn say(conversation: &mut Conversation, line: &Value) -> Vec<Step> {
    let mut steps = conversation.take(wire::read(&line.to_string()), NOW);
    steps.retain(|step| *step != active());
    steps
}

fn running() -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": "running"})
}

fn result(text: &str, cost: f64) -> Value {
    json!({"type": "result", "is_error": false, "result": text, "terminal_reason": "completed", "total_cost_usd": cost,
        "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 5}})
}

fn over(steps: Vec<Step>) -> Option<TurnEnd> {
    steps.into_iter().find_map(|step| match step {
        Step::Over { end, .. } => Some(end),
        _ => None,
    })
}

fn begun() -> Conversation {
    let mut conversation = Conversation::new("n".to_owned(), None);
    conversation.sent(&turn(1), "u1".to_owned());
    assert_eq!(say(&mut conversation, &running()), [Step::Accepted]);
    conversation
}

#[test]
fn cost_is_the_difference_and_a_turn_nobody_asked_for_is_counted_with_the_next() {
    let mut conversation = begun();
    let first = over(say(&mut conversation, &result("a", 0.5))).unwrap();
    let want = Usage {
        input_tokens: Some(15),
        output_tokens: Some(1),
        cached_tokens: Some(3),
        cost_usd: Some(0.5),
    };
    assert_eq!(first.usage, want);
    let mut stray = result("b", 0.75);
    stray["origin"] = json!({"kind": "task-notification"});
    assert_eq!(say(&mut conversation, &stray), []);
    conversation.sent(&turn(2), "u2".to_owned());
    let second = over(say(&mut conversation, &result("c", 1.0))).unwrap();
    assert_eq!(second.usage, want.plus(Usage { cost_usd: Some(0.0), ..want }));
    assert_eq!(second.usage.cost_usd, Some(0.5));
}

/// Limits: usage repeated per content block, or cumulative totals → counted once.
#[test]
fn usage_that_is_repeated_per_content_block_and_totals_that_grow_are_counted_once() {
    let mut conversation = begun();
    let block = |content: Value| {
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "m1", "role": "assistant",
            "content": [content], "usage": {"input_tokens": 10, "output_tokens": 1,
            "cache_read_input_tokens": 3, "cache_creation_input_tokens": 5}}})
    };
    // One message of the model comes as a line for each of its blocks, each with the usage of the whole.
    let blocks = [
        json!({"type": "thinking", "thinking": "hm"}),
        json!({"type": "text", "text": "I look."}),
        json!({"type": "tool_use", "id": "u1", "name": "Read", "input": {"file_path": "a"}}),
    ];
    for content in blocks {
        say(&mut conversation, &block(content));
    }
    let once = Usage {
        input_tokens: Some(15),
        output_tokens: Some(1),
        cached_tokens: Some(3),
        cost_usd: Some(0.5),
    };
    assert_eq!(over(say(&mut conversation, &result("a", 0.5))).unwrap().usage, once);
    // The cost is a total of the session: each turn has its own part of it.
    for (number, total) in [(2, 0.75), (3, 1.5)] {
        conversation.sent(&turn(number), format!("u{number}"));
        say(&mut conversation, &running());
        let before = if number == 2 { 0.5 } else { 0.75 };
        let usage = over(say(&mut conversation, &result("b", total))).unwrap().usage;
        assert_eq!(usage, Usage { cost_usd: Some(total - before), ..once });
    }
}

#[test]
fn a_result_of_another_origin_is_ours_only_when_the_cli_took_our_message_into_it() {
    let mut other = result("b", 0.0);
    other["origin"] = json!({"kind": "task-notification"});
    let mut conversation = begun();
    assert_eq!(over(say(&mut conversation, &other)), None);
    say(&mut conversation, &json!({"type": "user", "isReplay": true, "uuid": "u1"}));
    assert!(over(say(&mut conversation, &other)).is_some());
}

#[test]
fn what_nobody_asked_for_is_ended_and_may_not_use_tools() {
    let mut conversation = Conversation::new("n".to_owned(), None);
    assert_eq!(say(&mut conversation, &running()), [Step::Interrupt]);
    assert!(conversation.is_stray());
    let ask = json!({"type": "control_request", "request_id": "r1",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "x"}}});
    let steps = say(&mut conversation, &ask);
    assert_eq!(steps, [Step::Say(wire::deny("r1", "The turn is being ended."))]);
}

#[test]
fn the_last_line_of_a_turn_nobody_asked_for_is_not_shown_as_ours() {
    let mut conversation = Conversation::new("n".to_owned(), None);
    let begins = |id: &str| json!({"type": "stream_event", "event": {"type": "message_start", "message": {"id": id}}});
    let piece = |text: &str| json!({"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": text}}});
    say(&mut conversation, &running());
    say(&mut conversation, &begins("m1"));
    say(&mut conversation, &piece("of the task"));
    say(
        &mut conversation,
        &json!({"type": "result", "is_error": true, "terminal_reason": "aborted_streaming"}),
    );
    conversation.sent(&turn(1), "u1".to_owned());
    assert_eq!(say(&mut conversation, &running()), [Step::Accepted]);
    assert_eq!(say(&mut conversation, &begins("m2")), []);
    let ours = SessionEvent::Output {
        turn_id: Some(turn(1).id),
        kind: OutputKind::Text,
        text: "ours".to_owned(),
    };
    assert_eq!(say(&mut conversation, &piece("ours\n")), [Step::Emit(ours)]);
}

#[test]
fn a_request_that_this_driver_does_not_know_is_answered() {
    let mut conversation = begun();
    let ask =
        json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "dance"}});
    assert_eq!(say(&mut conversation, &ask), [Step::Say(wire::unsupported("r1"))]);
}

#[test]
fn a_tool_of_cortex_is_allowed_where_no_other_server_can_have_its_name() {
    let ask = json!({"type": "control_request", "request_id": "r1",
        "request": {"subtype": "can_use_tool", "tool_name": "mcp__cortex__list_tasks", "input": {}}});
    let steps = say(&mut begun(), &ask);
    let [Step::Emit(SessionEvent::ToolRequest(request))] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(request.of_cortex, None);
    let mut conversation = begun();
    conversation.has_cortex();
    let allow = json!({"behavior": "allow", "updatedInput": {}});
    assert_eq!(say(&mut conversation, &ask), [Step::Say(wire::answer("r1", &allow))]);
}

#[test]
fn a_confined_agent_that_is_offered_more_does_not_act() {
    let offered = ["Read", "mcp__cortex__*"].map(str::to_owned).into();
    let mut conversation = Conversation::new("n".to_owned(), Some(offered));
    conversation.sent(&turn(1), "u1".to_owned());
    let init = init(&json!(["Read", "mcp__cortex__list_tasks"]), &json!("default"));
    assert_eq!(say(&mut conversation, &init), [Step::Accepted]);
    let aborted =
        json!({"type": "result", "is_error": true, "terminal_reason": "aborted_streaming"});
    // A turn that answers before it is ended must not have acted either.
    for last in [aborted, result("done", 0.0)] {
        let message = refused(&json!(["Read", "Bash"]), &json!("default"), &last);
        assert!(message.contains("Bash"), "{message}");
    }
}

#[test]
fn a_confined_agent_of_which_the_cli_does_not_tell_enough_does_not_act() {
    let done = result("done", 0.0);
    for odd in [json!(null), json!({"Read": true}), json!([{"name": "Read"}])] {
        let message = refused(&odd, &json!("default"), &done);
        assert!(message.contains("what it offers"), "{odd}: {message}");
    }
    for odd in [json!(null), json!({"is": "default"})] {
        let message = refused(&json!(["Read"]), &odd, &done);
        assert!(message.contains("in which mode"), "{odd}: {message}");
    }
    let mut free = begun();
    assert_eq!(say(&mut free, &init(&json!(null), &json!(null))), []);
}

fn init(tools: &Value, mode: &Value) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "n", "tools": tools, "permissionMode": mode})
}

/// Why a turn of an agent that may read is ended when it begins so, also if this is the last that is heard of it.
fn refused(tools: &Value, mode: &Value, last: &Value) -> String {
    let mut conversation = Conversation::new("n".to_owned(), Some(["Read".to_owned()].into()));
    conversation.sent(&turn(1), "u1".to_owned());
    let steps = say(&mut conversation, &init(tools, mode));
    assert_eq!(steps, [Step::Accepted, Step::Interrupt]);
    let end = over(say(&mut conversation, last)).unwrap();
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::Refused);
    failure.message
}

/// Limits: "limit reached, resets 2:30am (zone)" → a limit until that instant.
#[test]
fn a_limit_with_its_end_is_a_rate_limit_until_then() {
    let event = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_790_003_600}});
    let ended = |told: bool, text: &str| {
        let mut conversation = begun();
        if told {
            say(&mut conversation, &event);
        }
        let result =
            json!({"type": "result", "is_error": true, "api_error_status": 429, "result": text});
        let end = over(say(&mut conversation, &result)).unwrap();
        let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
        assert_eq!(failure.cause, Cause::RateLimited);
        failure.resets_at
    };
    let hour = Some(Timestamp::from_millis(1_790_003_600_000));
    assert_eq!(ended(true, "limit"), hour);
    assert_eq!(ended(false, "limit reached|1790003600"), hour);
    assert_eq!(ended(false, "limit"), None);
    // It is 16:13 there.
    let at = Some(Timestamp::from_millis(1_790_037_000_000));
    assert_eq!(ended(false, "limit reached, resets 2:30am (Europe/Berlin)"), at);
}

#[test]
fn a_long_wait_for_a_rate_limit_ends_the_turn_with_the_time_to_come_back() {
    let mut conversation = begun();
    let retry = |delay: u32| json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": 429, "retry_delay_ms": delay});
    assert_eq!(say(&mut conversation, &retry(2000)), []);
    assert_eq!(say(&mut conversation, &retry(60_000)), [Step::Interrupt]);
    let aborted =
        json!({"type": "result", "is_error": true, "terminal_reason": "aborted_streaming"});
    let end = over(say(&mut conversation, &aborted)).unwrap();
    let TurnOutcome::Failed(failure) = end.outcome else { panic!("{end:?}") };
    assert_eq!(failure.cause, Cause::RateLimited);
    assert_eq!(failure.resets_at, Some(Timestamp::from_millis(1_790_000_060_000)));
}

#[test]
fn a_turn_that_was_broken_off_is_interrupted_only_if_somebody_asked() {
    let aborted = json!({"type": "result", "is_error": true, "terminal_reason": "aborted_tools", "errors": ["e"]});
    let mut conversation = begun();
    let end = over(say(&mut conversation, &aborted)).unwrap();
    assert!(matches!(end.outcome, TurnOutcome::Failed(_)));
    let mut conversation = begun();
    conversation.interrupted();
    assert_eq!(over(say(&mut conversation, &aborted)).unwrap().outcome, TurnOutcome::Interrupted);
    // The result was there before the interrupt: it counts.
    let mut conversation = begun();
    conversation.interrupted();
    let end = over(say(&mut conversation, &result("done", 0.0))).unwrap();
    assert_eq!(end.outcome, TurnOutcome::Succeeded { text: "done".to_owned() });
}

/// A conversation in whose turn the model has answered while something more still waits.
fn answered_with_more_waiting() -> Conversation {
    let mut conversation = Conversation::new("n".to_owned(), None);
    conversation.sent(&turn(1), "u1".to_owned());
    let running = json!({"type": "system", "subtype": "session_state_changed", "state": "running"});
    said(&mut conversation, &running);
    said(&mut conversation, &lifecycle("u1", "started"));
    assert!(conversation.takes(&turn(1).id) && !conversation.is_mute());
    conversation.gave("u2".to_owned());
    assert_eq!(said(&mut conversation, &answer("first")), []);
    conversation
}

fn said(conversation: &mut Conversation, line: &Value) -> Vec<Step> {
    let steps = conversation.take(wire::read(&line.to_string()), NOW);
    steps.into_iter().filter(|step| matches!(step, Step::Over { .. })).collect()
}

fn lifecycle(uuid: &str, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state})
}

fn answer(text: &str) -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    json!({"type": "result", "is_error": false, "result": text, "terminal_reason": "completed", "usage": usage})
}

fn idle() -> Value {
    json!({"type": "system", "subtype": "session_state_changed", "state": "idle"})
}

#[test]
fn a_turn_with_more_to_go_on_ends_with_the_answer_to_it() {
    let mut conversation = answered_with_more_waiting();
    assert_eq!(said(&mut conversation, &idle()), [], "it is on its way");
    said(&mut conversation, &lifecycle("u2", "started"));
    let over = said(&mut conversation, &answer("second"));
    let [Step::Over { end, .. }] = over.as_slice() else { panic!("{over:?}") };
    assert_eq!(end.outcome, TurnOutcome::Succeeded { text: "second".to_owned() });
    assert_eq!(end.usage.input_tokens, Some(20));
}

#[test]
fn a_turn_whose_more_is_never_heard_of_ends_with_its_answer() {
    let mut conversation = answered_with_more_waiting();
    assert_eq!(conversation.answered_over(), None, "it works");
    said(&mut conversation, &idle());
    assert!(conversation.is_answered());
    let Some(Step::Over { end, .. }) = conversation.answered_over() else { panic!("not over") };
    assert_eq!(end.outcome, TurnOutcome::Succeeded { text: "first".to_owned() });
    assert_eq!(end.usage.input_tokens, Some(10));
    assert!(conversation.turn().is_none() && !conversation.is_answered());
}

#[test]
fn a_turn_whose_last_words_were_taken_back_is_over() {
    let mut conversation = answered_with_more_waiting();
    conversation.interrupted();
    assert_eq!(conversation.take_back().into_iter().collect::<Vec<_>>(), ["u2"]);
    assert!(!conversation.takes(&turn(1).id));
    let over = said(&mut conversation, &idle());
    let [Step::Over { end, .. }] = over.as_slice() else { panic!("{over:?}") };
    assert_eq!((&end.turn_id, &end.outcome), (&turn(1).id, &TurnOutcome::Interrupted));
    assert_eq!(end.usage.input_tokens, Some(10));
}
