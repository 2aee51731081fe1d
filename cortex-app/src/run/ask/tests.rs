use std::io::Cursor;

use futures_util::FutureExt as _;

use super::*;

/// What a dialogue comes to when these lines are typed, and what the person reads.
fn talk<T>(typed: &str, dialogue: impl AsyncFnOnce(&mut Typed, &mut Vec<u8>) -> T) -> (T, String) {
    let (mut typed, mut out) = (Typed::of(Cursor::new(typed.to_owned())), Vec::new());
    let said = runtime().block_on(dialogue(&mut typed, &mut out));
    (said, String::from_utf8(out).unwrap())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn dialogue_on(text: &str, typed: &str) -> (bool, String) {
    talk(typed, async |typed, out| dialogue("Q\n", text, typed, out).await)
}

#[cfg(unix)]
/// A question that was dropped leaves its reader waiting: what is typed then answers nothing.
#[test]
fn what_was_typed_for_a_question_that_was_dropped_answers_no_other() {
    let (hands, fingers) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut typed = Typed::of(BufReader::new(fingers));
    runtime().block_on(async {
        assert_eq!(typed.line().now_or_never(), None);
        writeln!(&hands, "late").unwrap();
        while typed.lines.is_empty() {
            tokio::task::yield_now().await;
        }
        let typed = typed.anew();
        writeln!(&hands, "answer").unwrap();
        assert_eq!(typed.line().await.as_deref(), Some("answer"));
    });
}

#[test]
fn a_person_sees_the_result_and_answers() {
    let (answer, said) = dialogue_on("one\ntwo", "what\nYes\n");
    assert!(answer && said.starts_with("Q\none\ntwo\n"), "{said}");
    assert_eq!(
        said.matches("Does it hold?").count(),
        2,
        "an answer that is none is asked for again"
    );
    assert!(!dialogue_on("one", "n\n").0);
}

#[test]
fn closed_input_says_no() {
    assert!(!dialogue_on("one", "").0);
}

#[test]
fn a_long_result_is_shown_whole_when_asked() {
    let text = (1..=20).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let (_, said) = dialogue_on(&text, "s\ny\n");
    assert!(said.contains("… and 8 more lines") && said.contains("line 20"), "{said}");
}

/// A request of ada that waits.
pub(in crate::run) fn request(questions: &serde_json::Value) -> ApprovalView {
    serde_json::from_value(serde_json::json!({
        "approval_id": "1", "project_id": "p", "agent_id": "a", "agent_name": "ada", "execution_id": null,
        "task_id": null, "turn_id": "t", "tool": "Bash", "summary": "Bash: make", "input": { "command": "make" },
        "input_truncated": false, "cwd": "/project", "questions": questions, "answers": null, "state": "pending",
        "decided_by": null, "reason": null, "created_at": "2026-09-21T14:13:20.000Z", "decided_at": null,
        "due_at": null,
    }))
    .unwrap()
}

#[test]
fn a_person_sees_what_would_run_and_decides() {
    let asked = request(&serde_json::json!([]));
    let said = |typed: &str| talk(typed, async |typed, out| tool(&asked, typed, out).await);
    let (answer, text) = said("what\ns\nYes\n");
    assert_eq!(answer, Said::Allow);
    assert!(text.contains("ada wants to use Bash: Bash: make"), "{text}");
    assert!(text.contains("in /project") && text.contains("\"command\": \"make\""), "{text}");
    assert_eq!(text.matches("May it?").count(), 3);
    assert!(text.contains("That is none of y, n, a and s.\nMay it?"), "{text}");
    assert_eq!(said("n\n").0, Said::Deny);
    assert_eq!(said("always\n").0, Said::Always);
    assert_eq!(said("").0, Said::Nothing, "closed input decides nothing");
}

#[test]
fn a_person_answers_what_is_asked() {
    let choices = serde_json::json!([
        { "label": "red", "description": "warm" }, { "label": "blue", "description": null },
    ]);
    let question = |id: &str, multiple: bool, free_text: bool| {
        serde_json::json!({
            "id": id, "text": "Which?", "choices": choices, "multiple": multiple, "free_text": free_text,
        })
    };
    let asked =
        request(&serde_json::json!([question("one", false, false), question("any", true, true)]));
    let said = |typed: &str| talk(typed, async |typed, out| questions(&asked, typed, out).await);
    let answers = |one: &[&str], any: &[&str]| {
        let words = |given: &[&str]| given.iter().map(|word| (*word).to_owned()).collect();
        Said::Answers([("one".into(), words(one)), ("any".into(), words(any))].into())
    };
    let (given, text) = said("3\nred\n1,2\n2\n1, 2\n");
    assert_eq!(given, answers(&["blue"], &["red", "blue"]), "{text}");
    assert!(text.contains("1. red: warm"), "{text}");
    assert!(
        text.contains("A number (empty: decline): That is none of the numbers 1 to 2."),
        "{text}"
    );
    assert!(text.contains("Numbers with commas between, or your own words (empty"), "{text}");
    assert_eq!(said("1\ngreen\n").0, answers(&["red"], &["green"]));
    assert_eq!(said("1\n\n").0, Said::Deny, "declined");
    assert_eq!(said("1\n").0, Said::Nothing);
}
