use super::*;

fn dialogue_on(text: &str, typed: &str) -> (bool, String) {
    let mut out = Vec::new();
    let answer = dialogue("Q\n", text, typed.as_bytes(), &mut out);
    (answer, String::from_utf8(out).unwrap())
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

fn request(questions: &serde_json::Value) -> ApprovalView {
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
    let said = |typed: &str| {
        let mut out = Vec::new();
        let said = tool(&asked, typed.as_bytes(), &mut out);
        (said, String::from_utf8(out).unwrap())
    };
    let (answer, text) = said("what\ns\nYes\n");
    assert_eq!(answer, Said::Allow);
    assert!(text.contains("ada wants to use Bash: Bash: make"), "{text}");
    assert!(text.contains("in /project") && text.contains("\"command\": \"make\""), "{text}");
    assert_eq!(text.matches("May it?").count(), 3);
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
    let said = |typed: &str| {
        let mut out = Vec::new();
        let said = questions(&asked, typed.as_bytes(), &mut out);
        (said, String::from_utf8(out).unwrap())
    };
    let answers = |one: &[&str], any: &[&str]| {
        let words = |given: &[&str]| given.iter().map(|word| (*word).to_owned()).collect();
        Said::Answers([("one".into(), words(one)), ("any".into(), words(any))].into())
    };
    let (given, text) = said("3\nred\n1,2\n2\n1, 2\n");
    assert_eq!(given, answers(&["blue"], &["red", "blue"]), "{text}");
    assert!(text.contains("1. red: warm"), "{text}");
    assert_eq!(said("1\ngreen\n").0, answers(&["red"], &["green"]));
    assert_eq!(said("1\n\n").0, Said::Deny, "declined");
    assert_eq!(said("1\n").0, Said::Nothing);
}
