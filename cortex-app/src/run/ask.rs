//! Asks the person at the terminal: whether a result holds, whether a tool may run, what an agent wants to know.

use std::io::{BufRead, Write};

use cortex_lib::api::view::{ApprovalView, TaskView};
use cortex_lib::domain::approval::{Answers, Question};
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
    at_terminal(move || dialogue(&question, &text, std::io::stdin().lock(), std::io::stderr()))
        .await
        .unwrap_or(false)
}

/// What a person says about a tool that an agent wants to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It may run, this once.
    Allow,
    /// It may run, and the same from now on.
    Always,
    /// It may not.
    Deny,
    /// These are the answers to its questions.
    Answers(Answers),
    /// Nothing: somebody may answer elsewhere.
    Nothing,
}

/// What the person says about this request. Closed input says nothing.
pub(crate) async fn decides(approval: &ApprovalView) -> Said {
    let approval = approval.clone();
    let said = at_terminal(move || {
        let (input, out) = (std::io::stdin().lock(), std::io::stderr());
        if approval.questions.is_empty() {
            tool(&approval, input, out)
        } else {
            questions(&approval, input, out)
        }
    });
    said.await.unwrap_or(Said::Nothing)
}

/// On a thread of its own, which nobody joins: reading a terminal cannot be broken off, and must not hold up the end of
/// the program.
async fn at_terminal<T: Send + 'static>(talk: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    std::thread::spawn(move || drop(answer.send(talk())));
    answered.await.ok()
}

fn tool(approval: &ApprovalView, mut input: impl BufRead, mut out: impl Write) -> Said {
    let mut say = |text: &str| write!(out, "{text}").and_then(|()| out.flush()).ok();
    let (agent, tool) = (words::plain(&approval.agent_name), words::plain(&approval.tool));
    say(&format!("\n{agent} wants to use {tool}: {}\n", words::lines(&approval.summary)));
    loop {
        say("May it? [y]es, [n]o, [a]lways, [s]how all: ");
        let Some(line) = read_line(&mut input) else { return Said::Nothing };
        match line.to_lowercase().as_str() {
            "y" | "yes" => return Said::Allow,
            "n" | "no" => return Said::Deny,
            "a" | "always" => return Said::Always,
            "s" | "show" => {
                let all = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
                say(&format!("in {}\n{}\n", approval.cwd.display(), words::lines(&all)));
            }
            _ => {}
        }
    }
}

fn questions(approval: &ApprovalView, mut input: impl BufRead, mut out: impl Write) -> Said {
    let mut say = |text: &str| write!(out, "{text}").and_then(|()| out.flush()).ok();
    say(&format!("\n{} asks:\n", words::plain(&approval.agent_name)));
    let mut answers = Answers::new();
    for question in &approval.questions {
        say(&format!("{}\n", words::lines(&question.text)));
        for (at, choice) in question.choices.iter().enumerate() {
            let about = choice.description.as_ref().map(|about| format!(": {about}"));
            let text = format!("{}{}", choice.label, about.unwrap_or_default());
            say(&format!("  {}. {}\n", at.saturating_add(1), words::plain(&text)));
        }
        loop {
            say(match (question.choices.is_empty(), question.multiple) {
                (true, _) => "Your answer (empty: decline): ",
                (false, true) => "Numbers with commas between (empty: decline): ",
                (false, false) => "A number (empty: decline): ",
            });
            let Some(line) = read_line(&mut input) else { return Said::Nothing };
            if line.is_empty() {
                return Said::Deny;
            }
            if let Some(given) = answer_to(question, &line) {
                answers.insert(question.id.clone(), given);
                break;
            }
        }
    }
    Said::Answers(answers)
}

/// What was typed as an answer: choices by their numbers, or other words where they are taken.
fn answer_to(question: &Question, line: &str) -> Option<Vec<String>> {
    let chosen = |number: &str| {
        let at = number.trim().parse::<usize>().ok()?.checked_sub(1)?;
        question.choices.get(at).map(|choice| choice.label.clone())
    };
    let labels: Option<Vec<_>> = line.split(',').map(chosen).collect();
    match labels {
        Some(labels) if labels.len() == 1 || question.multiple => Some(labels),
        _ => question.free_text.then(|| vec![line.to_owned()]),
    }
}

/// None: nobody types any more.
fn read_line(input: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_owned()),
    }
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
        let Some(line) = read_line(&mut input) else { return false };
        match line.to_lowercase().as_str() {
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
mod tests;
