//! Asks the person at the terminal: whether a result holds, whether a tool may run, what an agent wants to know.

use std::io::{BufRead, BufReader, Write};

use cortex_lib::api::view::{ApprovalView, TaskView};
use cortex_lib::domain::approval::{Answers, Question};
use tokio::sync::mpsc;

use super::words;

/// Lines of a result that are shown with the question; `s` shows all.
const SHOWN_LINES: usize = 12;

/// The person at the terminal. A question may be dropped when its answer is not wanted any more.
#[derive(Debug)]
pub(crate) struct Person {
    typed: Typed,
}

impl Person {
    /// Whoever types into this program.
    pub(crate) fn here() -> Self {
        Self { typed: Typed::of(BufReader::new(std::io::stdin())) }
    }

    /// Whether the person says that the result of this task holds. Closed input says no.
    pub(crate) async fn approves(&mut self, task: &TaskView) -> bool {
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
        dialogue(&question, &text, self.typed.anew(), std::io::stderr()).await
    }

    /// What the person says about this request. Closed input says nothing.
    pub(crate) async fn decides(&mut self, approval: &ApprovalView) -> Said {
        let (typed, out) = (self.typed.anew(), std::io::stderr());
        if approval.questions.is_empty() {
            tool(approval, typed, out).await
        } else {
            questions(approval, typed, out).await
        }
    }
}

/// Lines as they are typed. A thread of its own reads them, which nobody joins: reading a terminal cannot be broken off,
/// and must not hold up the end of the program.
#[derive(Debug)]
struct Typed {
    /// Asks the thread for one line. It reads no further: a program in the background that reads is stopped.
    wanted: mpsc::Sender<()>,
    lines: mpsc::Receiver<Option<String>>,
    /// Whether a line was asked for that did not come yet.
    is_reading: bool,
}

impl Typed {
    fn of(mut input: impl BufRead + Send + 'static) -> Self {
        let (wanted, mut wants) = mpsc::channel(1);
        let (typed, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            while wants.blocking_recv().is_some() {
                if typed.blocking_send(read_line(&mut input)).is_err() {
                    break;
                }
            }
        });
        Self { wanted, lines, is_reading: false }
    }

    /// For a new question: what was typed too late for one that was dropped is no answer to it.
    fn anew(&mut self) -> &mut Self {
        if self.lines.try_recv().is_ok() {
            self.is_reading = false;
        }
        self
    }

    /// The next line. None: nobody types any more.
    async fn line(&mut self) -> Option<String> {
        if !self.is_reading {
            self.wanted.try_send(()).ok()?;
            self.is_reading = true;
        }
        let line = self.lines.recv().await;
        self.is_reading = false;
        line.flatten()
    }
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

async fn tool(approval: &ApprovalView, typed: &mut Typed, mut out: impl Write) -> Said {
    let mut say = |text: &str| write!(out, "{text}").and_then(|()| out.flush()).ok();
    let (agent, tool) = (words::plain(&approval.agent_name), words::plain(&approval.tool));
    say(&format!("\n{agent} wants to use {tool}: {}\n", words::lines(&approval.summary)));
    loop {
        say("May it? [y]es, [n]o, [a]lways, [s]how all: ");
        let Some(line) = typed.line().await else { return Said::Nothing };
        match line.to_lowercase().as_str() {
            "y" | "yes" => return Said::Allow,
            "n" | "no" => return Said::Deny,
            "a" | "always" => return Said::Always,
            "s" | "show" => {
                let all = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
                say(&format!("in {}\n{}\n", approval.cwd.display(), words::lines(&all)));
            }
            _ => {
                say("That is none of y, n, a and s.\n");
            }
        }
    }
}

async fn questions(approval: &ApprovalView, typed: &mut Typed, mut out: impl Write) -> Said {
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
            say(&format!("{} (empty: decline): ", wanted(question)));
            let Some(line) = typed.line().await else { return Said::Nothing };
            if line.is_empty() {
                return Said::Deny;
            }
            if let Some(given) = answer_to(question, &line) {
                answers.insert(question.id.clone(), given);
                break;
            }
            say(&format!("That is none of the numbers 1 to {}.\n", question.choices.len()));
        }
    }
    Said::Answers(answers)
}

/// What is to be typed.
fn wanted(question: &Question) -> String {
    if question.choices.is_empty() {
        return "Your answer".to_owned();
    }
    let number = if question.multiple { "Numbers with commas between" } else { "A number" };
    let or_words = if question.free_text { ", or your own words" } else { "" };
    format!("{number}{or_words}")
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

async fn dialogue(question: &str, text: &str, typed: &mut Typed, mut out: impl Write) -> bool {
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
        let Some(line) = typed.line().await else { return false };
        match line.to_lowercase().as_str() {
            "y" | "yes" => return true,
            "n" | "no" => return false,
            "s" | "show" => {
                say(&format!("{text}\n"));
            }
            _ => {
                say("That is none of y, n and s.\n");
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
