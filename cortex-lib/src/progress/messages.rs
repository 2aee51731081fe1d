//! The message bus: what a post needs to be accepted, and when a message leaves its inbox.

use serde_json::json;

use crate::domain::agent::Role;
use crate::domain::event::EventKind;
use crate::domain::message::{
    ActionRights, Addressee, Channel, Expiry, Facts, Letter, MessageInput, MessageState, Rejection,
    Sender, is_over, may_post,
};
use crate::error::{Code, Error, Kind, Problem, Result};
use crate::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId};
use crate::limits::{INBOX_MAX, SENT_WAITING_MAX};
use crate::secret::redact;
use crate::store::{Attempt, Message, NewEvent, ReadTx, Timer, WriteTx};
use crate::time::Timestamp;

/// A message that somebody wants to post.
#[derive(Clone, Debug)]
pub struct Post {
    /// Who writes.
    pub from: Sender,
    /// What it says, and to whom.
    pub letter: Letter,
    /// Who may use the tool that it names, if it names one.
    pub action: Option<ActionRights>,
    /// Makes a repeat known.
    pub idempotency_key: Option<String>,
}

/// What became of a post.
#[derive(Clone, Debug)]
pub enum Posted {
    /// It waits for its reader.
    New(Message),
    /// It had been posted before, with the same key.
    Again(Message),
    /// It was refused, which is on record (C17).
    Refused(Error),
}

/// What speaks for a post.
enum Verdict {
    Repeat(Box<Message>),
    Fits(Box<Reader>),
}

/// Who will read a message.
struct Reader {
    agent_id: AgentId,
    role: Role,
    /// The project of the channel.
    channel_project: ProjectId,
    /// Whether it belongs to the channel.
    belongs: bool,
    attempt: Option<Attempt>,
}

impl WriteTx<'_> {
    /// Posts a message, or puts on record why not.
    ///
    /// # Errors
    ///
    /// Only when the store fails: a refusal is an answer, because its event has to be kept.
    pub fn post_message(&mut self, mut post: Post) -> Result<Posted> {
        post.letter.body = stored_body(&post.letter.body);
        match self.judge(&post, self.steady()) {
            Ok(Verdict::Repeat(message)) => Ok(Posted::Again(*message)),
            Ok(Verdict::Fits(reader)) => self.keep_message(post, *reader).map(Posted::New),
            // Nothing was written yet: there was only looked.
            Err(error) if !matches!(error.code().kind(), Kind::Internal | Kind::RuntimeError) => {
                self.tell_rejected(&post, &error)?;
                Ok(Posted::Refused(error))
            }
            Err(error) => Err(error),
        }
    }

    fn keep_message(&mut self, post: Post, reader: Reader) -> Result<Message> {
        let ttl = std::time::Duration::from_secs(post.letter.ttl_secs.into());
        let message = Message {
            id: MessageId::new(self.env().mint()),
            sequence: self.next_message_sequence()?,
            project_id: reader.channel_project,
            from: post.from.agent_id().cloned(),
            reader: reader.agent_id,
            letter: post.letter,
            state: MessageState::Waiting,
            idempotency_key: post.idempotency_key,
            created_at: self.now(),
            expires_at: self.steady().after(ttl),
            acked_at: None,
        };
        self.insert_message(&message)?;
        self.forget_old_messages(message.sequence)?;
        self.set_messages_timer()?;
        Ok(message)
    }

    fn tell_rejected(&mut self, post: &Post, error: &Error) -> Result<()> {
        let project_id = match &post.from {
            Sender::Agent { project_id, .. } => Some(project_id.clone()),
            Sender::User => self.project_of(&post.letter.channel).ok(),
        };
        let mut data = json!({ "reason": error.code() });
        if let Some(fields) = data.as_object_mut() {
            let (name, id) = match &post.letter.to {
                Addressee::Agent(id) => ("to_agent_id", id.as_str()),
                Addressee::Attempt(id) => ("to_execution_id", id.as_str()),
            };
            fields.insert(name.to_owned(), json!(id));
            if let Channel::Objective(id) = &post.letter.channel {
                fields.insert("objective_id".to_owned(), json!(id));
            }
        }
        let agent_id = post.from.agent_id().cloned();
        self.emit(NewEvent { kind: EventKind::MessageRejected, project_id, agent_id, data })
    }

    /// Takes a message out of its inbox. Its reader may, and the user.
    ///
    /// # Errors
    ///
    /// `message.not_found`, `message.expired`.
    pub fn ack_message(&mut self, id: &MessageId, by: &Sender) -> Result<Message> {
        let message = self
            .message(id)?
            .filter(|message| by.agent_id().is_none_or(|agent| *agent == message.reader))
            .ok_or_else(|| no_message(id))?;
        let in_time = !is_over(self.steady(), message.expires_at);
        self.step_message(message, MessageInput::Ack { in_time })
    }

    /// Tells messages that their time is over, and lets idempotency keys go with it. What is left over for the next
    /// commit sets the timer again.
    pub fn expire_due_messages(&mut self) -> Result<()> {
        for message in self.due_messages(self.steady())? {
            if message.idempotency_key.is_some() {
                self.release_message_key(&message)?;
            }
            self.step_message(message, MessageInput::Expire(Expiry::TimeOver))?;
        }
        self.set_messages_timer()
    }

    /// Expires what waits for an attempt that runs no more.
    pub(super) fn expire_messages_to_attempt(&mut self, attempt: &Attempt) -> Result<()> {
        let to = Addressee::Attempt(attempt.id.clone());
        self.expire_inbox(&attempt.agent_id, Expiry::AttemptEnded, |message| {
            message.letter.to == to
        })
    }

    /// Expires what waits for an agent that is removed. What it wrote itself stays (H-25).
    pub(super) fn expire_messages_to_agent(&mut self, id: &AgentId) -> Result<()> {
        self.expire_inbox(id, Expiry::ReaderRemoved, |_| true)
    }

    fn expire_inbox(
        &mut self,
        reader: &AgentId,
        why: Expiry,
        which: impl Fn(&Message) -> bool,
    ) -> Result<()> {
        let waiting = self.inbox_rows(reader)?;
        for message in waiting.into_iter().filter(which) {
            self.step_message(message, MessageInput::Expire(why))?;
        }
        Ok(())
    }

    fn set_messages_timer(&mut self) -> Result<()> {
        match self.next_message_due()? {
            Some(due) => self.set_timer(&Timer::MessagesDue, due),
            None => self.clear_timer(&Timer::MessagesDue),
        }
    }
}

impl ReadTx<'_> {
    /// Decides about a post. It only reads, so a refusal leaves nothing half done.
    fn judge(&self, post: &Post, now: Timestamp) -> Result<Verdict> {
        if let Some(message) = self.posted_before(post, now)? {
            return Ok(Verdict::Repeat(Box::new(message)));
        }
        let reader = self.reader_of(post)?;
        if let Some(id) = &post.letter.in_reply_to {
            self.check_visible(id, &post.from)?;
        }
        let sender = post.from.agent_id();
        let facts = Facts {
            sender_belongs: self.sender_belongs(post, &reader.channel_project)?,
            reader_belongs: reader.belongs,
            to_oneself: sender == Some(&reader.agent_id),
            reader_role: reader.role,
            action: post.action,
            attempt: reader.attempt.as_ref().map(|attempt| attempt.state),
            inbox: self.inbox_count(&reader.agent_id, now)?,
            sent: sender.map(|sender| self.sent_count(sender, now)).transpose()?,
        };
        match may_post(&facts) {
            Ok(()) => Ok(Verdict::Fits(Box::new(reader))),
            Err(rejection) => Err(refusal(rejection, post, &reader)),
        }
    }

    /// The same post by the same sender, while its key holds. Whatever became of its reader meanwhile: the sender
    /// only wants to know that it was posted.
    fn posted_before(&self, post: &Post, now: Timestamp) -> Result<Option<Message>> {
        let Some(key) = &post.idempotency_key else { return Ok(None) };
        let Some(before) = self.message_by_key(&post.from, key, now)? else { return Ok(None) };
        if before.letter == post.letter {
            return Ok(Some(before));
        }
        let problem = format!("was given with message {}, which says something else", before.id);
        let error =
            Error::invalid(Code::InvalidArguments, vec![Problem::new("idempotency_key", problem)]);
        Err(error
            .remedy("Use another key for another message.")
            .with("message_id", before.id.as_str()))
    }

    /// The project of a channel.
    fn project_of(&self, channel: &Channel) -> Result<ProjectId> {
        match channel {
            Channel::Project(id) => Ok(self.project(id)?.id),
            Channel::Objective(id) => {
                let objective = self.objective(id)?;
                // An objective is off the lists with its project.
                match self.project(&objective.project_id) {
                    Ok(project) => Ok(project.id),
                    Err(error) if error.code() == Code::ProjectNotFound => Err(no_objective(id)),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Finds the channel and the reader of a post. What the sender does not see is not there for it.
    fn reader_of(&self, post: &Post) -> Result<Reader> {
        let (from, channel) = (&post.from, &post.letter.channel);
        let channel_project = self.project_of(channel)?;
        if !from.sees(&channel_project) {
            return Err(match channel {
                Channel::Project(id) => no_project(id),
                Channel::Objective(id) => no_objective(id),
            });
        }
        match &post.letter.to {
            Addressee::Agent(id) => {
                let agent = self.agent(id)?;
                if !from.sees(&agent.project_id) {
                    return Err(no_agent(id));
                }
                let belongs = match channel {
                    Channel::Project(_) => agent.project_id == channel_project,
                    Channel::Objective(objective) => self.ran_in_objective(id, objective)?,
                };
                let (agent_id, role) = (agent.id, agent.role);
                Ok(Reader { agent_id, role, channel_project, belongs, attempt: None })
            }
            Addressee::Attempt(id) => {
                let attempt = self.attempt(id)?.ok_or_else(|| no_attempt(id))?;
                let task = self.task(&attempt.task_id)?;
                if !from.sees(&task.project_id) {
                    return Err(no_attempt(id));
                }
                let belongs = match channel {
                    Channel::Project(_) => task.project_id == channel_project,
                    Channel::Objective(objective) => task.objective_id == *objective,
                };
                // An orchestrator is never given a task.
                let (agent_id, role) = (attempt.agent_id.clone(), Role::Worker);
                Ok(Reader { agent_id, role, channel_project, belongs, attempt: Some(attempt) })
            }
        }
    }

    fn sender_belongs(&self, post: &Post, channel_project: &ProjectId) -> Result<bool> {
        let Sender::Agent { agent_id, .. } = &post.from else { return Ok(true) };
        match &post.letter.channel {
            Channel::Project(_) => match self.agent(agent_id) {
                Ok(agent) => Ok(agent.project_id == *channel_project),
                // It was removed while it called.
                Err(error) if error.code() == Code::AgentNotFound => Ok(false),
                Err(error) => Err(error),
            },
            Channel::Objective(id) => self.ran_in_objective(agent_id, id),
        }
    }

    /// An agent sees what it wrote and what was written to it; the user sees every message.
    fn check_visible(&self, id: &MessageId, to: &Sender) -> Result<()> {
        let visible = self.message(id)?.is_some_and(|message| {
            to.agent_id().is_none_or(|agent| {
                message.from.as_ref() == Some(agent) || message.reader == *agent
            })
        });
        if visible { Ok(()) } else { Err(no_message(id)) }
    }
}

/// The one place where a body becomes what is stored of it.
fn stored_body(body: &str) -> String {
    redact(body).into_owned()
}

fn refusal(rejection: Rejection, post: &Post, reader: &Reader) -> Error {
    let channel = match &post.letter.channel {
        Channel::Project(id) => format!("project {id}"),
        Channel::Objective(id) => format!("objective {id}"),
    };
    let agent = &reader.agent_id;
    let (code, message) = match rejection {
        Rejection::SenderOutside => {
            (Code::MessageOutOfScope, format!("you do not belong to the channel of {channel}"))
        }
        Rejection::ReaderOutside => (
            Code::MessageOutOfScope,
            format!("the reader does not belong to the channel of {channel}"),
        ),
        Rejection::ToOneself => {
            (Code::MessageOutOfScope, "a message to oneself has no reader".to_owned())
        }
        Rejection::ActionNotAllowed => {
            let action = post.letter.purpose.action().unwrap_or_default();
            (Code::MessageActionNotAllowed, format!("not both of you may use a tool {action:?}"))
        }
        Rejection::RecipientUnavailable => {
            let id = reader.attempt.as_ref().map_or("", |attempt| attempt.id.as_str());
            (Code::MessageRecipientUnavailable, format!("attempt {id} does not run"))
        }
        Rejection::InboxFull => (
            Code::MessageInboxFull,
            format!("{INBOX_MAX} messages wait for agent {agent}, as many as an inbox holds"),
        ),
        Rejection::SenderLimit => (
            Code::MessageSenderLimit,
            format!("{SENT_WAITING_MAX} of your messages wait to be acknowledged, as many as may"),
        ),
    };
    let error = Error::new(code, message).with("agent_id", agent.as_str());
    match (&post.letter.channel, &post.letter.to) {
        (_, Addressee::Attempt(id)) => error.with("execution_id", id.as_str()),
        (Channel::Project(id), Addressee::Agent(_)) => error.with("project_id", id.as_str()),
        (Channel::Objective(id), Addressee::Agent(_)) => error.with("objective_id", id.as_str()),
    }
}

fn no_project(id: &ProjectId) -> Error {
    Error::new(Code::ProjectNotFound, format!("there is no project {id}"))
        .with("project_id", id.as_str())
}

fn no_objective(id: &ObjectiveId) -> Error {
    Error::new(Code::ObjectiveNotFound, format!("there is no objective {id}"))
        .with("objective_id", id.as_str())
}

fn no_agent(id: &AgentId) -> Error {
    Error::new(Code::AgentNotFound, format!("there is no agent {id}")).with("agent_id", id.as_str())
}

fn no_attempt(id: &AttemptId) -> Error {
    Error::new(Code::ExecutionNotFound, format!("there is no attempt {id}"))
        .with("execution_id", id.as_str())
}

fn no_message(id: &MessageId) -> Error {
    Error::new(Code::MessageNotFound, format!("there is no message {id}"))
        .with("message_id", id.as_str())
}
