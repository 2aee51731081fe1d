//! What is known of an objective while it runs: rows to show and changes to tell. No terminal takes part.

use std::collections::BTreeMap;
use std::time::Duration;

use cortex_lib::api::view::{AttemptView, ObjectiveView, TaskView};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::{Evidence, TaskStatus};
use cortex_lib::engine::Output;
use cortex_lib::ids::{AgentId, TaskId};
use cortex_lib::store::{AttemptStatus, Event};
use cortex_lib::time::Timestamp;
use serde_json::Value;

use super::tree;
use super::words::{self, Names};

/// What is known of a running objective.
#[derive(Debug)]
pub(crate) struct Progress {
    names: Names,
    view: ObjectiveView,
    last_lines: BTreeMap<TaskId, String>,
}

/// A task as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Branches of the tree before its title.
    pub(crate) branches: String,
    /// Its title.
    pub(crate) title: String,
    /// Where it stands.
    pub(crate) status: TaskStatus,
    /// Who runs it, or ran it last.
    pub(crate) agent: Option<String>,
    /// How long it has been tried, all attempts together.
    pub(crate) elapsed: Option<Duration>,
    /// Why it waits, what its agent prints, or how it ended.
    pub(crate) note: String,
}

/// Something that happened to a task, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The task.
    pub(crate) key: String,
    /// What happened.
    pub(crate) text: String,
    /// Something went wrong: worth a line of its own beside the rows.
    pub(crate) is_trouble: bool,
}

impl Progress {
    /// Begins with an objective and the agents that may run it.
    pub(crate) fn new(view: ObjectiveView, agents: BTreeMap<AgentId, String>) -> Self {
        let names = Names::of(&view, agents);
        Self { names, view, last_lines: BTreeMap::new() }
    }

    /// The objective as it was last seen.
    pub(crate) fn view(&self) -> &ObjectiveView {
        &self.view
    }

    /// What is to be said of a run that begins: why tasks wait.
    pub(crate) fn first_changes(&self, now: Timestamp) -> Vec<Change> {
        let unended = self.view.tasks.iter().filter(|task| !task.status.is_ended());
        unended.filter_map(|task| self.waits(None, task, now)).collect()
    }

    /// Takes a newer state. Returns what happened since the last one.
    pub(crate) fn update(&mut self, view: ObjectiveView, now: Timestamp) -> Vec<Change> {
        let before = std::mem::replace(&mut self.view, view);
        let mut changes = Vec::new();
        for (old, new) in before.tasks.iter().zip(&self.view.tasks) {
            changes.extend(self.task_changes(old, new, now));
        }
        changes
    }

    /// Notes what an agent printed. Returns the key of the task, if it is one of the objective.
    pub(crate) fn hear(&mut self, output: &Output) -> Option<&str> {
        let id = output.task_id.as_ref()?;
        let task = self.view.tasks.iter().find(|task| task.task_id == *id)?;
        if let Some(line) = output.text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
            self.last_lines.insert(id.clone(), words::plain(line));
        }
        Some(&task.key)
    }

    /// What became of a tool request, when the event tells of one.
    pub(crate) fn decided(&self, event: &Event) -> Option<String> {
        if event.kind != EventKind::ApprovalDecided {
            return None;
        }
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        let agent = self.names.agent(event.agent_id.as_ref()?);
        let (asked, decision) = (words::plain(text("summary")), text("state"));
        let by = text("decided_by");
        let by =
            by.strip_prefix("rule:").map_or_else(|| by.to_owned(), |id| format!("rule {id:?}"));
        Some(format!("{agent} asks: {asked} → {decision}, {by}"))
    }

    /// Tasks that have completed, and all of them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let ended = self.view.tasks.iter().filter(|task| task.status.is_ended()).count();
        (ended, self.view.tasks.len())
    }

    /// Every task, as a tree by what depends on what.
    pub(crate) fn rows(&self, now: Timestamp) -> Vec<Row> {
        let places = tree::places(&self.view.tasks);
        places
            .into_iter()
            .filter_map(|place| {
                let task = self.view.tasks.get(place.at)?;
                let last = task.attempts.last();
                Some(Row {
                    branches: place.branches,
                    title: words::plain(&task.title),
                    status: task.status,
                    agent: last.map(|attempt| self.names.agent(&attempt.agent_id).to_owned()),
                    elapsed: elapsed(task, now),
                    note: self.note(task, now),
                })
            })
            .collect()
    }

    fn note(&self, task: &TaskView, now: Timestamp) -> String {
        match task.status {
            TaskStatus::Created | TaskStatus::Ready => self.reason(task, now).unwrap_or_default(),
            TaskStatus::Running => self.last_lines.get(&task.task_id).cloned().unwrap_or_default(),
            TaskStatus::Verifying => "is verified".to_owned(),
            TaskStatus::Completed => task
                .result
                .as_ref()
                .map_or("", |result| words::evidence(result.evidence))
                .to_owned(),
            TaskStatus::Blocked | TaskStatus::Failed | TaskStatus::Cancelled => {
                words::failure(task)
            }
        }
    }

    fn reason(&self, task: &TaskView, now: Timestamp) -> Option<String> {
        task.waiting.as_ref().map(|waiting| self.names.waiting(waiting, now))
    }

    fn task_changes(&self, old: &TaskView, new: &TaskView, now: Timestamp) -> Vec<Change> {
        let tell = |text: String| Change { key: new.key.clone(), text, is_trouble: false };
        let trouble = |text: String| Change { is_trouble: true, ..tell(text) };
        let mut changes = Vec::new();
        for (at, attempt) in new.attempts.iter().enumerate() {
            let was = old.attempts.get(at);
            if was.is_none() {
                let (agent, number) = (self.names.agent(&attempt.agent_id), attempt.number);
                let again =
                    if number > 1 { format!(" again, attempt {number}") } else { String::new() };
                changes.push(tell(format!("started by {agent}{again}")));
            }
            if was.is_none_or(|was| was.status != attempt.status) {
                changes.extend(attempt_trouble(attempt).map(trouble));
            }
        }
        if old.status != new.status {
            changes.extend(match new.status {
                // The reason why it waits, or the attempt, says it.
                TaskStatus::Created | TaskStatus::Ready | TaskStatus::Running => None,
                TaskStatus::Verifying => Some(tell("is verified".to_owned())),
                TaskStatus::Completed => Some(tell(completed(new))),
                // A person is asked, or told at the end.
                TaskStatus::Blocked => Some(tell(format!("is blocked: {}", words::failure(new)))),
                TaskStatus::Failed => Some(trouble(format!("failed: {}", words::failure(new)))),
                TaskStatus::Cancelled => {
                    Some(trouble(format!("was cancelled: {}", words::failure(new))))
                }
            });
        }
        changes.extend(self.waits(Some(old), new, now));
        changes
    }

    /// Tells why a task waits when the reason is another one than before.
    fn waits(&self, old: Option<&TaskView>, new: &TaskView, now: Timestamp) -> Option<Change> {
        let waiting = new.waiting.as_ref()?;
        let was = old.and_then(|old| old.waiting.as_ref());
        let same = was.is_some_and(|was| was.reason == waiting.reason);
        if same || !words::is_worth_a_line(waiting.reason) {
            return None;
        }
        Some(Change {
            key: new.key.clone(),
            text: self.names.waiting(waiting, now),
            is_trouble: false,
        })
    }
}

fn attempt_trouble(attempt: &AttemptView) -> Option<String> {
    let number = attempt.number;
    let why = attempt.message.as_deref().or(attempt.cause.as_deref());
    let why = why.map_or_else(|| "no reason is known".to_owned(), words::plain);
    match attempt.status {
        AttemptStatus::Running | AttemptStatus::Verifying | AttemptStatus::Succeeded => None,
        AttemptStatus::Failed => Some(format!("attempt {number} failed: {why}")),
        AttemptStatus::TimedOut => Some(format!("attempt {number} took too long")),
        AttemptStatus::Cancelled => Some(format!("attempt {number} was ended: {why}")),
        AttemptStatus::Lost => Some(format!("attempt {number} was lost when its core went down")),
    }
}

fn completed(task: &TaskView) -> String {
    let took = task.ended_at.and_then(|end| elapsed(task, end)).unwrap_or_default();
    let evidence = task.result.as_ref().map_or(Evidence::None, |result| result.evidence);
    format!("completed in {}, {}", words::seconds(took), words::evidence(evidence))
}

/// How long a task has been tried: from its first attempt to its end, or to now.
fn elapsed(task: &TaskView, now: Timestamp) -> Option<Duration> {
    let started = task.started_at?;
    let runs = matches!(task.status, TaskStatus::Running | TaskStatus::Verifying);
    let last_end = task.attempts.last().and_then(|attempt| attempt.ended_at);
    let until = if runs { now } else { task.ended_at.or(last_end).unwrap_or(now) };
    Some(until.since(started))
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
