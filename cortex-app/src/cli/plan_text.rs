//! A proposed plan as people read it.

use std::fmt::Write as _;

use cortex_lib::domain::proposed::{ProposedPlan, ProposedTask};

use super::screen::word;
use crate::run::words;

/// The plan: why it is cut like that, then each task with what it depends on. A model wrote it, so nothing of it
/// reaches the terminal as more than text.
pub(super) fn plan(plan: &ProposedPlan) -> String {
    let summary = plan.summary.iter().map(|summary| words::lines(summary));
    let tasks = plan.tasks.iter().enumerate().map(|(at, one)| task(at.saturating_add(1), one));
    summary.chain(tasks).collect::<Vec<_>>().join("\n\n")
}

fn task(number: usize, task: &ProposedTask) -> String {
    let mut text = format!("{number}. {}: {}", words::plain(&task.key), words::plain(&task.title));
    let mut facts = vec![word(&task.task_type), format!("priority {}", word(&task.priority))];
    facts.extend(task.estimate.map(|estimate| word(&estimate)));
    if !task.depends_on.is_empty() {
        facts.push(format!("after {}", words::plain(&task.depends_on.join(", "))));
    }
    if !task.requirements.is_empty() {
        let requirements: Vec<_> = task.requirements.iter().map(word).collect();
        facts.push(format!("requires {}", requirements.join(", ")));
    }
    // Writing into a String cannot fail.
    let _infallible = write!(text, " ({})", facts.join("; "));
    for line in words::lines(&task.description).lines() {
        let _infallible = write!(text, "\n   {line}");
    }
    text
}
