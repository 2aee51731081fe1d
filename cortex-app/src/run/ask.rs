//! Asks the person at the terminal whether a result holds.

use std::io::{BufRead, Write};

use cortex_lib::api::view::TaskView;
use tokio::sync::oneshot;

use super::words;

/// Lines of a result that are shown with the question; `s` shows all.
const SHOWN_LINES: usize = 12;

/// Whether the person says that the result of this task holds. Closed input says no.
pub(crate) async fn approves(task: &TaskView) -> bool {
    let text = task
        .attempts
        .last()
        .and_then(|attempt| attempt.result.as_ref())
        .map(|result| words::lines(&result.text))
        .unwrap_or_default();
    let question = format!(
        "\n{} ({}) returned, and the project has no verification:\n",
        words::plain(&task.title),
        task.key
    );
    let (answer, answered) = oneshot::channel();
    // A thread of its own, which nobody joins: reading a terminal cannot be broken off, and must not hold up
    // the end of the program.
    std::thread::spawn(move || {
        answer.send(dialogue(&question, &text, std::io::stdin().lock(), std::io::stderr()))
    });
    answered.await.unwrap_or(false)
}

fn dialogue(question: &str, text: &str, mut input: impl BufRead, mut out: impl Write) -> bool {
    // Whoever cannot read the question will not answer it either.
    let mut say = |text: &str| write!(out, "{text}").and_then(|()| out.flush()).ok();
    let mut lines: Vec<_> = text.lines().collect();
    let more = lines.len().saturating_sub(SHOWN_LINES);
    lines.truncate(SHOWN_LINES);
    say(question);
    say(&format!("{}\n", lines.join("\n")));
    if more > 0 {
        say(&format!("… and {more} more lines\n"));
    }
    loop {
        say("Does it hold? [y]es, [n]o, [s]how all: ");
        let mut line = String::new();
        let read = input.read_line(&mut line);
        match read {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" => return false,
            "s" | "show" => {
                say(&format!("{text}\n"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
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
}
