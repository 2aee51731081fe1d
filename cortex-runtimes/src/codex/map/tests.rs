#[test]
fn nothing_of_another_turn_is_taken_for_ours() {
    let mut talk = super::Conversation::new("t".to_owned(), None);
    let note = |method: &str, params| super::FromCli::Note { method: method.to_owned(), params };
    let started = serde_json::json!({"threadId": "t", "turn": {"id": "stray"}});
    let steps = talk.take(note("turn/started", started));
    assert!(steps.contains(&super::Step::Interrupt("stray".to_owned())), "{steps:?}");
}
