//! Follows an objective to its end, or to where only a person gets it on.

use std::collections::BTreeSet;
use std::time::Duration;

use cortex_lib::api::tool::{ApproveTask, GetTaskStatus, ListTasks};
use cortex_lib::api::view::{ObjectiveView, TaskView};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::objective::ObjectiveStatus;
use cortex_lib::domain::task::{BlockCause, TaskStatus};
use cortex_lib::domain::waiting::{NotEligibleReason, WaitReason};
use cortex_lib::error::{Code, Error, Result};
use cortex_lib::ids::{ObjectiveId, TaskId};
use cortex_lib::store::Event;
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::answer::{self, Requests};
use super::ask::Person;
use super::clock;
use super::progress::Progress;
use super::screen::FRAME;
use super::show::{self, Show};
use crate::door::{Door, EventStream, OutputStream};

/// Looks at least this often: what time alone changes makes no event.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Agents that are being started again get this long before the run says that none goes on.
const STUCK_GRACE: Duration = Duration::from_secs(3);

/// Who says that a result holds which nothing verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approval {
    /// A person at the terminal.
    Ask,
    /// The person said so beforehand.
    Always,
    /// Nobody is there.
    Nobody,
}

/// Where following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Everything has ended.
    Ended(ObjectiveStatus),
    /// A person has to decide about tasks.
    Blocked,
    /// No agent takes what is left.
    Stuck,
}

/// What is followed, and with what.
pub(crate) struct Follow<'a> {
    /// To the core.
    pub(crate) door: &'a Door,
    /// What is seen of it.
    pub(crate) show: &'a mut Show,
    /// What is known.
    pub(crate) progress: Progress,
    /// Events behind the start of the run.
    pub(crate) events: EventStream,
    /// What agents print.
    pub(crate) output: OutputStream,
    /// Who approves.
    pub(crate) approval: Approval,
    /// What agents want to use and ask.
    pub(crate) requests: Requests,
    /// Whether the answers to tool requests are said.
    pub(crate) tells_requests: bool,
    /// The newest event that was seen.
    pub(crate) seen: u64,
}

impl Follow<'_> {
    /// Goes on until there is nothing to follow. May be dropped at any point: the core knows everything.
    ///
    /// # Errors
    ///
    /// `core.stopped`, and what its commands fail with.
    pub(crate) async fn until_it_stops(&mut self) -> Result<Stop> {
        self.show.begin(&self.progress, clock::now());
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut changed, mut looked) = (true, Instant::now());
        let mut declined = BTreeSet::new();
        let mut stuck_since = None;
        let mut person = Person::here();
        loop {
            tokio::select! { biased;
                _ = frames.tick() => {
                    if changed || looked.elapsed() >= LOOK_EVERY {
                        (changed, looked) = (false, Instant::now());
                        if let Some(stop) = self.look(&mut person, &mut declined, &mut stuck_since).await? {
                            return Ok(stop);
                        }
                    }
                    self.show.tick(&self.progress, clock::now());
                }
                event = self.events.next() => {
                    let event = self.heard(event)?;
                    changed = true;
                    if event.kind == EventKind::ObjectiveEnded {
                        // Nothing is gained by waiting for the next frame.
                        frames.reset_immediately();
                    }
                }
                Some(output) = self.output.next() => {
                    if let Some(key) = self.progress.hear(&output) {
                        self.show.output(key, &output);
                    }
                }
            }
        }
    }

    /// Takes the newest state and does what it asks for.
    async fn look(
        &mut self,
        person: &mut Person,
        declined: &mut BTreeSet<TaskId>,
        stuck_since: &mut Option<Instant>,
    ) -> Result<Option<Stop>> {
        let view = find(self.door, &self.progress.view().objective_id).await?;
        let changes = self.progress.update(view, clock::now());
        self.show.changed(&changes);
        let view = self.progress.view();
        if view.status.is_ended() {
            let status = view.status;
            self.catch_up().await?;
            self.show.tick(&self.progress, clock::now());
            return Ok(Some(Stop::Ended(status)));
        }
        self.answer_requests(person).await?;
        let view = self.progress.view();
        let blocked: Vec<_> =
            view.tasks.iter().filter(|task| is_unverified(task)).cloned().collect();
        for task in blocked {
            if self.approve(&task, person, declined).await? {
                // It may have let others start: look again before anything is concluded.
                return Ok(None);
            }
        }
        let view = self.progress.view();
        if view.status == ObjectiveStatus::Blocked {
            self.catch_up().await?;
            return Ok(Some(Stop::Blocked));
        }
        if !is_stuck(view) {
            *stuck_since = None;
        } else if stuck_since.get_or_insert_with(Instant::now).elapsed() >= STUCK_GRACE {
            return Ok(Some(Stop::Stuck));
        }
        Ok(None)
    }

    /// Deals with what agents want to use and ask.
    async fn answer_requests(&mut self, person: &mut Person) -> Result<()> {
        loop {
            let next = self.requests.next(self.door, self.show, self.progress.view()).await?;
            let Some(approval) = next else { return Ok(()) };
            self.show.aside();
            let said =
                self.unless(person.decides(&approval), |event| answer::settles(event, &approval));
            match said.await? {
                Some(said) => {
                    self.requests.decide(self.door, self.show, &approval, said).await?;
                }
                None => {
                    self.show.note("Too late: that was answered elsewhere, or its turn is over.");
                }
            }
        }
    }

    /// What the person says, unless something happens first that makes it pointless. What happens meanwhile is heard.
    async fn unless<T>(
        &mut self,
        says: impl Future<Output = T>,
        is_pointless: impl Fn(&Event) -> bool,
    ) -> Result<Option<T>> {
        let mut says = std::pin::pin!(says);
        loop {
            tokio::select! { biased;
                event = self.events.next() => {
                    let event = self.heard(event)?;
                    if is_pointless(&event) {
                        // The person has typed no line end.
                        show::line("");
                        return Ok(None);
                    }
                }
                said = &mut says => return Ok(Some(said)),
            }
        }
    }

    /// Whether the next look shows something new: the task was approved, or needs it no more. A person is asked once
    /// about each.
    async fn approve(
        &mut self,
        task: &TaskView,
        person: &mut Person,
        declined: &mut BTreeSet<TaskId>,
    ) -> Result<bool> {
        let reason = match self.approval {
            Approval::Nobody => return Ok(false),
            Approval::Always => "cortex run --approve-unverified",
            Approval::Ask if declined.contains(&task.task_id) => return Ok(false),
            Approval::Ask => {
                // A list cuts long results.
                let whole =
                    self.door.call(GetTaskStatus { task_id: task.task_id.clone() }).await?.task;
                self.show.aside();
                let changes = |event: &Event| {
                    let id = event.data.get("task_id").and_then(Value::as_str);
                    event.kind == EventKind::TaskChanged && id == Some(task.task_id.as_str())
                };
                match self.unless(person.approves(&whole), changes).await? {
                    Some(true) => "cortex run",
                    Some(false) => {
                        declined.insert(task.task_id.clone());
                        return Ok(false);
                    }
                    None => return Ok(true),
                }
            }
        };
        let approve = ApproveTask {
            task_id: task.task_id.clone(),
            execution_id: task.attempts.last().map(|attempt| attempt.execution_id.clone()),
            reason: Some(reason.to_owned()),
        };
        match self.door.call(approve).await {
            Ok(_) => Ok(true),
            // Somebody else decided meanwhile: the next look shows what.
            Err(error) if error.code() == Code::TaskStateConflict => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Hears what came, as long as there is a core.
    fn heard(&mut self, event: Result<Option<Event>>) -> Result<Event> {
        let event = event?.ok_or_else(|| Error::new(Code::CoreStopped, "the core has stopped"))?;
        self.hear(&event);
        Ok(event)
    }

    fn hear(&mut self, event: &Event) {
        self.seen = self.seen.max(event.seq);
        self.requests.hear(event);
        self.show.event(event);
        if self.tells_requests
            && let Some(text) = self.progress.decided(event)
        {
            self.show.aside_of_events(&text);
        }
    }

    /// Hears what was said until now, so that nothing is missing before the last line.
    async fn catch_up(&mut self) -> Result<()> {
        let newest = self.door.newest_event().await?;
        while self.seen < newest {
            let Some(event) = self.events.next().await? else { break };
            self.hear(&event);
        }
        while let Some(Some(output)) = self.output.next().now_or_never() {
            if let Some(key) = self.progress.hear(&output) {
                self.show.output(key, &output);
            }
        }
        Ok(())
    }
}

/// An objective as it is now.
///
/// # Errors
///
/// `objective.not_found` when it is not listed any more.
pub(crate) async fn find(door: &Door, id: &ObjectiveId) -> Result<ObjectiveView> {
    let list = door.call(ListTasks {}).await?.objectives;
    list.into_iter().find(|objective| objective.objective_id == *id).ok_or_else(|| {
        Error::new(Code::ObjectiveNotFound, format!("there is no objective {id}"))
            .with("objective_id", id.as_str())
    })
}

/// An objective as it is now, with whole results.
///
/// # Errors
///
/// As [`find`].
pub(crate) async fn find_whole(door: &Door, id: &ObjectiveId) -> Result<ObjectiveView> {
    let mut objective = find(door, id).await?;
    for task in &mut objective.tasks {
        *task = door.call(GetTaskStatus { task_id: task.task_id.clone() }).await?.task;
    }
    Ok(objective)
}

fn is_unverified(task: &TaskView) -> bool {
    task.status == TaskStatus::Blocked
        && task
            .failure
            .as_ref()
            .is_some_and(|failure| failure.cause == BlockCause::VerificationMissing.as_str())
}

/// Whether nothing runs, and what may start finds no agent that is up.
fn is_stuck(view: &ObjectiveView) -> bool {
    let any = |status| view.tasks.iter().any(|task| task.status == status);
    let down = |task: &TaskView| {
        let Some(waiting) = &task.waiting else { return false };
        match waiting.reason {
            WaitReason::NoEligibleAgent => {
                waiting.no_eligible_agent.as_ref().is_none_or(|agents| {
                    agents.agents.iter().all(|agent| agent.reason != NotEligibleReason::Busy)
                })
            }
            WaitReason::AssignedAgentUnavailable => waiting
                .assigned_agent_unavailable
                .as_ref()
                .is_some_and(|agent| agent.reason != NotEligibleReason::Busy),
            _ => false,
        }
    };
    any(TaskStatus::Ready)
        && !any(TaskStatus::Running)
        && !any(TaskStatus::Verifying)
        && view.tasks.iter().filter(|task| task.status == TaskStatus::Ready).all(down)
}
