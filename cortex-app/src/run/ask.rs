//! Asks the person at the terminal whether a result holds.

use std::io::{BufRead as _, Write as _};

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
    std::thread::spawn(move || answer.send(dialogue(&question, &text)));
    answered.await.unwrap_or(false)
}

fn dialogue(question: &str, text: &str) -> bool {
    let say = |text: &str| {
        let mut out = std::io::stderr().lock();
        write!(out, "{text}").and_then(|()| out.flush()).ok();
    };
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
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" => return false,
            "s" | "show" => say(&format!("{text}\n")),
            _ => {}
        }
    }
}
