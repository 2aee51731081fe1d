//! Messages of the bus, and the one door of their state.

use rusqlite::{named_params, params};
use serde_json::json;

use super::column::{Json, count, word};
use super::row::Row;
use super::{NewEvent, ReadTx, WriteTx};
use crate::domain::event::EventKind;
use crate::domain::message::{
    Addressee, Channel, Letter, MessageInput, MessageState, Purpose, Sender,
};
use crate::domain::{Machine as _, Refusal, Step};
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId};
use crate::limits::{MESSAGES_KEPT, MESSAGES_SWEPT_AT_ONCE};
use crate::time::Timestamp;

/// A message of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The message.
    pub id: MessageId,
    /// Its place among all messages of this core.
    pub sequence: u64,
    /// The project of its channel.
    pub project_id: ProjectId,
    /// The agent that wrote it; none: the user.
    pub from: Option<AgentId>,
    /// Whose inbox it waits in. For an attempt: the agent that runs it.
    pub reader: AgentId,
    /// What it says, and to whom.
    pub letter: Letter,
    /// Where its row stands. [`status_at`](Self::status_at) says what counts.
    pub state: MessageState,
    /// Makes a repeat known until the time of the message is over.
    pub idempotency_key: Option<String>,
    /// When it was posted.
    pub created_at: Timestamp,
    /// When it leaves the inbox by itself.
    pub expires_at: Timestamp,
    /// When it was acknowledged.
    pub acked_at: Option<Timestamp>,
}

impl Message {
    /// Where it stands at `now`, by the steady clock.
    pub fn status_at(&self, now: Timestamp) -> MessageState {
        self.state.at(now, self.expires_at)
    }
}

const COLUMNS: &str = "message_id, sequence, project_id, objective_id, from_agent_id, reader_id, to_execution_id, kind, action, \
                       in_reply_to, status, ttl_secs, idempotency_key, created_at, expires_at, acked_at, body";

fn from_row(row: &Row<'_>) -> rusqlite::Result<Message> {
    let project_id: ProjectId = row.get("project_id")?;
    let reader: AgentId = row.get("reader_id")?;
    let (objective, attempt): (Option<ObjectiveId>, Option<AttemptId>) =
        (row.get("objective_id")?, row.get("to_execution_id")?);
    let letter = Letter {
        channel: objective.map_or_else(|| Channel::Project(project_id.clone()), Channel::Objective),
        to: attempt.map_or_else(|| Addressee::Agent(reader.clone()), Addressee::Attempt),
        // A CHECK keeps actions to requests.
        purpose: Purpose::of(word(row, "kind")?, row.get("action")?).unwrap_or_default(),
        in_reply_to: row.get("in_reply_to")?,
        body: row.get("body")?,
        ttl_secs: count(row, "ttl_secs")?,
    };
    Ok(Message {
        id: row.get("message_id")?,
        sequence: unsigned(row.get("sequence")?),
        project_id,
        from: row.get("from_agent_id")?,
        reader,
        letter,
        state: word(row, "status")?,
        idempotency_key: row.get("idempotency_key")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        acked_at: row.get("acked_at")?,
    })
}

impl ReadTx<'_> {
    /// One message, if it is still kept.
    pub fn message(&self, id: &MessageId) -> Result<Option<Message>> {
        let query = format!("SELECT {COLUMNS} FROM message WHERE message_id = ?1");
        self.row(&query, [id], from_row)
    }

    /// The messages that wait at `now` behind the number `after`, oldest first, at most `limit`: in the inbox of
    /// `reader`, or in all.
    pub fn waiting_messages(
        &self,
        reader: Option<&AgentId>,
        after: u64,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Message>> {
        // Two queries: each has an index of its own.
        let of_reader = if reader.is_some() { "AND reader_id = :reader" } else { "" };
        let query = format!(
            "SELECT {COLUMNS} FROM message
             WHERE status = 'WAITING' AND expires_at > :now AND sequence > :after {of_reader}
             ORDER BY sequence LIMIT :limit"
        );
        let (after, limit) = (signed(after), i64::try_from(limit).unwrap_or(i64::MAX));
        match reader {
            Some(reader) => self.rows(
                &query,
                named_params! { ":now": now, ":after": after, ":limit": limit, ":reader": reader },
                from_row,
            ),
            None => self.rows(
                &query,
                named_params! { ":now": now, ":after": after, ":limit": limit },
                from_row,
            ),
        }
    }

    /// How many messages wait for an agent at `now`: those to it, and those to the attempt that it runs.
    pub fn inbox_count(&self, reader: &AgentId, now: Timestamp) -> Result<usize> {
        self.count_messages(
            "SELECT count(*) FROM message WHERE status = 'WAITING' AND reader_id = ?1 AND expires_at > ?2",
            reader,
            now,
        )
    }

    /// How many messages of an agent wait in others' inboxes at `now`.
    pub fn sent_count(&self, sender: &AgentId, now: Timestamp) -> Result<usize> {
        self.count_messages(
            "SELECT count(*) FROM message WHERE status = 'WAITING' AND from_agent_id = ?1 AND expires_at > ?2",
            sender,
            now,
        )
    }

    fn count_messages(&self, query: &str, agent: &AgentId, now: Timestamp) -> Result<usize> {
        let counted: i64 = self.row(query, (agent, now), |row| row.only())?.unwrap_or(0);
        Ok(usize::try_from(counted).unwrap_or(0))
    }

    /// What a sender posted with this key, while the key holds.
    pub(crate) fn message_by_key(
        &self,
        sender: &Sender,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Message>> {
        let query = format!(
            "SELECT {COLUMNS} FROM message
             WHERE idempotency_key = ?1 AND from_agent_id IS ?2 AND expires_at > ?3"
        );
        self.row(&query, (key, sender.agent_id(), now), from_row)
    }

    /// Whether an agent runs or ran an attempt of an objective.
    pub(crate) fn ran_in_objective(&self, agent: &AgentId, id: &ObjectiveId) -> Result<bool> {
        let query = "SELECT EXISTS (SELECT 1 FROM task JOIN attempt USING (task_id)
                                    WHERE task.objective_id = ?1 AND attempt.agent_id = ?2)";
        Ok(self.row(query, (id, agent), |row| row.only())?.unwrap_or(false))
    }

    /// Every message of an inbox whose row says that it waits: as many as fit, and those that time has just ended.
    pub(crate) fn inbox_rows(&self, reader: &AgentId) -> Result<Vec<Message>> {
        let query = format!(
            "SELECT {COLUMNS} FROM message WHERE status = 'WAITING' AND reader_id = ?1 ORDER BY sequence"
        );
        self.rows(&query, [reader], from_row)
    }

    /// Messages whose time is over at `now` and whose row does not say so: the first to be over first, at most as
    /// many as one commit takes.
    pub(crate) fn due_messages(&self, now: Timestamp) -> Result<Vec<Message>> {
        let query = format!(
            "SELECT {COLUMNS} FROM message
             WHERE (status = 'WAITING' OR idempotency_key IS NOT NULL) AND expires_at <= ?1
             ORDER BY expires_at, sequence LIMIT ?2"
        );
        self.rows(&query, params![now, limit_of(MESSAGES_SWEPT_AT_ONCE)], from_row)
    }

    /// When the next row has to be told that its time is over.
    pub(crate) fn next_message_due(&self) -> Result<Option<Timestamp>> {
        let query = "SELECT min(expires_at) FROM message WHERE status = 'WAITING' OR idempotency_key IS NOT NULL";
        Ok(self.row(query, [], |row| row.only())?.flatten())
    }
}

impl WriteTx<'_> {
    /// The number of the next message.
    pub(crate) fn next_message_sequence(&self) -> Result<u64> {
        let query = "SELECT coalesce(max(sequence), 0) + 1 FROM message";
        Ok(unsigned(self.row(query, [], |row| row.only())?.unwrap_or(1)))
    }

    /// Puts a message into its reader's inbox.
    pub(crate) fn insert_message(&mut self, message: &Message) -> Result<()> {
        let letter = &message.letter;
        let objective = match &letter.channel {
            Channel::Project(_) => None,
            Channel::Objective(id) => Some(id),
        };
        let attempt = match &letter.to {
            Addressee::Agent(_) => None,
            Addressee::Attempt(id) => Some(id),
        };
        self.execute("INSERT INTO message (sequence, message_id, project_id, objective_id, from_agent_id, reader_id, to_execution_id,
                                      kind, action, in_reply_to, status, ttl_secs, idempotency_key, created_at, expires_at, body)
                 VALUES (:sequence, :id, :project, :objective, :from, :reader, :attempt,
                         :kind ->> '$', :action, :answers, :status ->> '$', :ttl, :key, :created, :expires, :body)", named_params! {
                ":sequence": signed(message.sequence),
                ":id": message.id,
                ":project": message.project_id,
                ":objective": objective,
                ":from": message.from,
                ":reader": message.reader,
                ":attempt": attempt,
                ":kind": Json(letter.purpose.kind()),
                ":action": letter.purpose.action(),
                ":answers": letter.in_reply_to,
                ":status": Json(message.state),
                ":ttl": letter.ttl_secs,
                ":key": message.idempotency_key,
                ":created": message.created_at,
                ":expires": message.expires_at,
                ":body": letter.body,
            })?;
        self.tell_message(EventKind::MessagePosted, message, &json!(null))
    }

    /// The one door of a message's state. Returns the message as it is then.
    ///
    /// # Errors
    ///
    /// `message.expired` when it has left the inbox unread.
    pub(crate) fn step_message(
        &mut self,
        mut message: Message,
        input: MessageInput,
    ) -> Result<Message> {
        match message.state.step(input) {
            Ok(Step::To(next)) => message.state = next,
            Ok(Step::Stay) => return Ok(message),
            Err(Refusal::WrongState | Refusal::Stale) => {
                let text = format!("message {} has expired", message.id);
                return Err(
                    Error::new(Code::MessageExpired, text).with("message_id", message.id.as_str())
                );
            }
        }
        message.acked_at = matches!(input, MessageInput::Ack { .. }).then(|| self.now());
        let query = "UPDATE message SET status = ?2 ->> '$', acked_at = ?3 WHERE sequence = ?1";
        self.execute(query, (signed(message.sequence), Json(message.state), message.acked_at))?;
        let (kind, reason) = match input {
            MessageInput::Ack { .. } => (EventKind::MessageAcked, json!(null)),
            MessageInput::Expire(expiry) => (EventKind::MessageExpired, json!(expiry)),
        };
        self.tell_message(kind, &message, &reason)?;
        Ok(message)
    }

    /// Lets an idempotency key go.
    pub(crate) fn release_message_key(&mut self, message: &Message) -> Result<()> {
        let query = "UPDATE message SET idempotency_key = NULL WHERE sequence = ?1";
        self.execute(query, [signed(message.sequence)])
    }

    /// Forgets messages that neither wait nor hold a key and are not among the newest, the oldest first, at most as
    /// many as one commit takes.
    pub(crate) fn forget_old_messages(&mut self, newest: u64) -> Result<()> {
        let query = "DELETE FROM message WHERE sequence IN (
                         SELECT sequence FROM message
                         WHERE status <> 'WAITING' AND idempotency_key IS NULL AND sequence <= ?1
                         ORDER BY sequence LIMIT ?2)";
        let until = signed(newest.saturating_sub(MESSAGES_KEPT));
        self.execute(query, (until, limit_of(MESSAGES_SWEPT_AT_ONCE)))
    }

    /// Tells what became of a message. Never what it says.
    fn tell_message(
        &mut self,
        kind: EventKind,
        message: &Message,
        reason: &serde_json::Value,
    ) -> Result<()> {
        let mut data = json!({
            "message_id": message.id,
            "sequence": message.sequence,
            "from_agent_id": message.from,
            "kind": message.letter.purpose.kind(),
        });
        if let Some(fields) = data.as_object_mut() {
            if let Addressee::Attempt(id) = &message.letter.to {
                fields.insert("to_execution_id".to_owned(), json!(id));
            }
            if !reason.is_null() {
                fields.insert("reason".to_owned(), reason.clone());
            }
        }
        self.emit(NewEvent {
            kind,
            project_id: Some(message.project_id.clone()),
            agent_id: Some(message.reader.clone()),
            data,
        })
    }
}

/// A number for `SQLite`, whose integers have a sign.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

fn limit_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
