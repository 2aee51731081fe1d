//! The event log: append, read on from a cursor, prune without losing count.
//!
//! Numbers have no gaps, so how many events the log holds is a subtraction. A pruned agent event
//! leaves a few bytes behind; that is what makes `dropped` exact for every cursor and every project.

use rusqlite::{Connection, named_params, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::row::Row;
use super::sql;
use super::tx::ReadTx;
use crate::domain::event::EventKind;
use crate::error::{Code, Error, Result};
use crate::ids::{AgentId, ProjectId};
use crate::limits::EVENTS_PRUNED_AT_ONCE;
use crate::time::Timestamp;

/// Something that happened and is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Event {
    /// Its number. It only increases, across restarts too.
    pub seq: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// The agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// The rest, by `type`.
    #[schemars(with = "Map<String, Value>")]
    pub data: Value,
}

/// Something that happens in a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// What happens.
    pub kind: EventKind,
    /// The project it belongs to.
    pub project_id: Option<ProjectId>,
    /// The agent it is about.
    pub agent_id: Option<AgentId>,
    /// The rest, by kind.
    pub data: Value,
}

impl NewEvent {
    pub(super) fn numbered(self, seq: u64, at: Timestamp) -> Event {
        let Self { kind, project_id, agent_id, data } = self;
        Event { seq, kind, at, agent_id, project_id, data }
    }
}

/// Which agent events a caller may see and wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentEventFilter {
    /// Only those of this project. Absent: of all.
    pub project_id: Option<ProjectId>,
    /// Only those about this agent. What was dropped is counted for the whole project all the same.
    pub agent_id: Option<AgentId>,
}

/// A page of agent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEventPage {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Agent events of the project behind the cursor that the log holds no more.
    pub dropped: u64,
    /// The number of the last event that was looked at: the next cursor.
    pub next_after: u64,
}

const INSERT: &str = "INSERT INTO event (seq, kind, at, project_id, agent_id, for_agents, data)
    VALUES (:seq, :kind, :at, :project_id, :agent_id, :for_agents, :data)";

const AFTER: &str = "SELECT seq, kind, at, project_id, agent_id, data FROM event
    WHERE seq > :after ORDER BY seq LIMIT :limit";

const AGENTS_AFTER: &str = "SELECT seq, kind, at, project_id, agent_id, data FROM event
    WHERE for_agents = 1 AND seq > :after AND (:agent_id IS NULL OR agent_id = :agent_id)
    ORDER BY seq LIMIT :limit";

const AGENTS_OF_PROJECT_AFTER: &str =
    "SELECT seq, kind, at, project_id, agent_id, data FROM event INDEXED BY event_for_agents
    WHERE for_agents = 1 AND project_id = :project_id AND seq > :after
        AND (:agent_id IS NULL OR agent_id = :agent_id)
    ORDER BY seq LIMIT :limit";

const NEWEST: &str =
    "SELECT coalesce((SELECT max(seq) FROM event), (SELECT first_seq - 1 FROM meta))";

const DROPPED: &str = "SELECT coalesce(sum(
        coalesce((SELECT nth FROM pruned_event AS p WHERE p.scope = s.scope
            ORDER BY seq DESC LIMIT 1), 0)
        - coalesce((SELECT nth FROM pruned_event AS p WHERE p.scope = s.scope AND seq <= :after
            ORDER BY seq DESC LIMIT 1), 0)), 0)
    FROM pruned_scope AS s WHERE :project_id IS NULL OR s.project_id = :project_id";

const NAME_SCOPES: &str = "INSERT INTO pruned_scope (project_id)
    SELECT DISTINCT coalesce(project_id, '') FROM event WHERE seq < :until AND for_agents = 1
    ON CONFLICT (project_id) DO NOTHING";

const COUNT_PRUNED: &str = "INSERT INTO pruned_event (scope, seq, nth)
    SELECT s.scope, e.seq,
        coalesce((SELECT nth FROM pruned_event AS p WHERE p.scope = s.scope
            ORDER BY p.seq DESC LIMIT 1), 0)
        + row_number() OVER (PARTITION BY s.scope ORDER BY e.seq)
    FROM event AS e JOIN pruned_scope AS s ON s.project_id = coalesce(e.project_id, '')
    WHERE e.seq < :until AND e.for_agents = 1";

const PRUNE: &str = "DELETE FROM event WHERE seq < :until";

impl ReadTx<'_> {
    /// The number of the newest event; the one before the first when there is none yet.
    pub fn newest_seq(&self) -> Result<u64> {
        Ok(unsigned(self.row(NEWEST, [], |row| row.only())?.unwrap_or_default()))
    }

    /// The events behind `after`, oldest first, at most `limit`. Without `after`: from the oldest kept.
    pub fn events_after(&self, after: Option<u64>, limit: usize) -> Result<Vec<Event>> {
        let asked = named_params! { ":after": cursor(after), ":limit": signed(limit) };
        self.rows(AFTER, asked, EventRow::read)?.into_iter().map(EventRow::parse).collect()
    }

    /// The agent events behind `after` that `filter` admits, oldest first, at most `limit` (one at
    /// least), and how many were lost. Without `after`: from the oldest kept, and nothing counts as lost.
    pub fn agent_events(
        &self,
        filter: &AgentEventFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<AgentEventPage> {
        let limit = limit.max(1);
        let events = self.agent_events_after(filter, after, limit)?;
        // A full page may have left events behind it. Otherwise everything was looked at.
        let next_after = match events.last() {
            Some(last) if events.len() == limit => last.seq,
            Some(_) | None => self.newest_seq()?,
        };
        let dropped = match after {
            Some(after) => self.dropped(filter.project_id.as_ref(), after)?,
            None => 0,
        };
        Ok(AgentEventPage { events, dropped, next_after })
    }

    fn agent_events_after(
        &self,
        filter: &AgentEventFilter,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Event>> {
        let (after, limit) = (cursor(after), signed(limit));
        let agent_id = filter.agent_id.as_ref().map(AgentId::as_str);
        let rows = match &filter.project_id {
            Some(project_id) => self.rows(
                AGENTS_OF_PROJECT_AFTER,
                named_params! {
                    ":project_id": project_id.as_str(),
                    ":after": after,
                    ":agent_id": agent_id,
                    ":limit": limit,
                },
                EventRow::read,
            ),
            None => self.rows(
                AGENTS_AFTER,
                named_params! { ":after": after, ":agent_id": agent_id, ":limit": limit },
                EventRow::read,
            ),
        };
        rows?.into_iter().map(EventRow::parse).collect()
    }

    fn dropped(&self, project_id: Option<&ProjectId>, after: u64) -> Result<u64> {
        let asked = named_params! {
            ":after": cursor(Some(after)),
            ":project_id": project_id.map(ProjectId::as_str),
        };
        Ok(unsigned(self.row(DROPPED, asked, |row| row.only())?.unwrap_or_default()))
    }
}

/// Writes one event. The caller has numbered it.
pub(super) fn append(conn: &Connection, event: &Event) -> Result<()> {
    let data = event.data.to_string();
    let mut insert = conn.prepare_cached(INSERT).map_err(sql)?;
    insert
        .execute(named_params! {
            ":seq": cursor(Some(event.seq)),
            ":kind": event.kind.as_str(),
            ":at": event.at.as_millis(),
            ":project_id": event.project_id.as_ref().map(ProjectId::as_str),
            ":agent_id": event.agent_id.as_ref().map(AgentId::as_str),
            ":for_agents": event.kind.is_agent_event(),
            ":data": data,
        })
        .map_err(sql)
        .map(drop)
}

/// The bounds of what the log holds. Known to the writer alone; changed only by a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The oldest event that is kept.
    pub(super) oldest: u64,
    /// The number of the next event.
    pub(super) next: u64,
    /// How many events are kept. At least one: the newest carries the numbering over a restart.
    kept: u64,
}

impl Bounds {
    pub(super) fn read(conn: &Connection, kept: u64) -> Result<Self> {
        let newest = ReadTx::new(conn).newest_seq()?;
        let oldest: Option<i64> =
            conn.query_row("SELECT min(seq) FROM event", [], |row| row.get(0)).map_err(sql)?;
        let next = newest.saturating_add(1);
        Ok(Self { oldest: oldest.map_or(next, unsigned), next, kept: kept.max(1) })
    }

    /// The bounds after a commit that adds `emitted` events. What is too old goes in one step when a
    /// step is full: small enough not to be felt, and always more than was added.
    pub(super) fn after(self, emitted: usize) -> Self {
        let emitted = u64::try_from(emitted).unwrap_or(u64::MAX);
        let next = self.next.saturating_add(emitted);
        let excess = next.saturating_sub(self.oldest).saturating_sub(self.kept);
        let step = if excess < EVENTS_PRUNED_AT_ONCE {
            0
        } else {
            excess.min(EVENTS_PRUNED_AT_ONCE.saturating_add(emitted))
        };
        Self { oldest: self.oldest.saturating_add(step), next, ..self }
    }
}

/// Removes the events before `oldest` and keeps count of those that agents could have seen.
pub(super) fn prune(conn: &Connection, oldest: u64) -> Result<()> {
    for statement in [NAME_SCOPES, COUNT_PRUNED, PRUNE] {
        let mut prune = conn.prepare_cached(statement).map_err(sql)?;
        prune.execute(params![cursor(Some(oldest))]).map_err(sql)?;
    }
    Ok(())
}

/// A row as it stands in the table.
struct EventRow {
    seq: i64,
    kind: String,
    at: i64,
    project_id: Option<String>,
    agent_id: Option<String>,
    data: String,
}

impl EventRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            kind: row.get("kind")?,
            at: row.get("at")?,
            project_id: row.get("project_id")?,
            agent_id: row.get("agent_id")?,
            data: row.get("data")?,
        })
    }

    fn parse(self) -> Result<Event> {
        let bad = |what: &str| {
            Error::new(Code::StoreCorrupt, format!("event {} in the store has {what}", self.seq))
        };
        Ok(Event {
            seq: unsigned(self.seq),
            kind: EventKind::parse(&self.kind).ok_or_else(|| bad("an unknown kind"))?,
            at: Timestamp::from_millis(self.at),
            agent_id: self.agent_id.map(AgentId::new),
            project_id: self.project_id.map(ProjectId::new),
            data: serde_json::from_str(&self.data).map_err(|_| bad("data that is not JSON"))?,
        })
    }
}

/// A number of an event for `SQLite`, whose integers have a sign. What is too large is after everything.
fn cursor(seq: Option<u64>) -> i64 {
    seq.map_or(-1, |seq| i64::try_from(seq).unwrap_or(i64::MAX))
}

fn signed(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn unsigned(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
