//! After every commit: the log has no gap, tells stories that are possible, and agrees with the rows.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde_json::Value;

use super::{Broken, Promise};

/// What the log has told so far, over all lives.
#[derive(Default)]
pub struct Story {
    /// Every event that was seen: what is committed never changes again.
    told: BTreeMap<u64, String>,
    /// Of each attempt: its status, and whether it was over.
    attempts: BTreeMap<String, (String, bool)>,
    /// Of each task: its live attempt.
    live: BTreeMap<String, String>,
    /// Of each task and agent: where it stood.
    places: BTreeMap<String, String>,
    /// What may be told once only, and was.
    once: BTreeSet<String>,
    /// Of each objective: its generation.
    generations: BTreeMap<String, i64>,
    pub broken: Vec<Broken>,
}

const AFTER: &str = "SELECT seq, kind, agent_id, data, at FROM event WHERE seq > ?1 ORDER BY seq";
const PLACES: &str =
    "SELECT task_id, status FROM task UNION ALL SELECT agent_id, status FROM agent";
const GENERATIONS: &str = "SELECT objective_id, generation FROM objective";
const ENDED: &str =
    "SELECT attempt_id, CASE WHEN ended_at IS NULL THEN '' ELSE 'ended' END FROM attempt";

fn pairs(conn: &Connection, query: &str) -> Vec<(String, String)> {
    let mut statement = conn.prepare_cached(query).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn text(data: &Value, key: &str) -> String {
    data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Story {
    /// Reads what came after `seen` and compares it with the rows. Returns the number of the newest event.
    pub fn go_on(&mut self, conn: &Connection, seen: Option<u64>) -> Option<u64> {
        let newer = {
            let mut statement = conn.prepare_cached(AFTER).unwrap();
            let after = seen.map_or(0, u64::cast_signed);
            let row = |row: &rusqlite::Row<'_>| {
                let kind: String = row.get(1)?;
                let agent: Option<String> = row.get(2)?;
                let (data, at): (String, i64) = (row.get(3)?, row.get(4)?);
                Ok((row.get::<_, i64>(0)?, kind, agent.unwrap_or_default(), data, at))
            };
            let rows = statement.query_map([after], row).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        };
        // A watch that begins anew reads all of it again: nothing that was seen may be gone.
        if seen.is_none() {
            self.nothing_is_gone(newer.last().map_or(0, |last| last.0.cast_unsigned()));
        }
        if newer.is_empty() {
            return seen;
        }
        let mut newest = seen;
        for (seq, kind, agent, data, at) in newer {
            let seq = seq.cast_unsigned();
            if newest.is_some_and(|newest| newest + 1 != seq) {
                self.breaks(format!("event {seq} follows {newest:?}"));
            }
            newest = Some(seq);
            let told = format!("{at} {kind} {agent} {data}");
            match self.told.get(&seq) {
                Some(before) if *before == told => {}
                Some(before) => {
                    let what = format!("event {seq} was {before} and is {told}");
                    self.broken.push(Broken::new(Promise::NothingIsLost, what));
                }
                None => {
                    self.tell(&kind, &agent, &data);
                    self.told.insert(seq, told);
                }
            }
        }
        self.agrees_with_rows(conn);
        newest
    }

    /// Everything that was told, in order.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.told.iter().map(|(seq, event)| format!("{seq} {event}"))
    }

    fn nothing_is_gone(&mut self, newest: u64) {
        if let Some((seq, event)) = self.told.last_key_value().filter(|(seq, _)| **seq > newest) {
            let what = format!("event {seq} was seen and is gone: {event}");
            self.broken.push(Broken::new(Promise::NothingIsLost, what));
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken.push(Broken::new(Promise::EventsAgreeWithRows, what));
    }

    fn tell(&mut self, kind: &str, agent: &str, data: &str) {
        match kind {
            "attempt.changed" => self.attempt_changed(&serde_json::from_str(data).unwrap()),
            "task.changed" | "agent.state_changed" => {
                self.moved(agent, &serde_json::from_str(data).unwrap());
            }
            "task.integrated" => self.told_once(data, "task_id"),
            "proposal.approved" | "proposal.rejected" | "proposal.superseded" => {
                self.told_once(data, "proposal_id");
            }
            "approval.decided" | "approval.cancelled" | "approval.expired" => {
                self.told_once(data, "approval_id");
            }
            "message.acked" | "message.expired" => self.told_once(data, "message_id"),
            _ => {}
        }
    }

    /// An integration, a decision about a proposal or a request, the end of a message: each comes once.
    fn told_once(&mut self, data: &str, key: &str) {
        let id = text(&serde_json::from_str(data).unwrap(), key);
        if !self.once.insert(id.clone()) {
            let what = format!("{key} {id} came to its end twice");
            self.broken.push(Broken::new(Promise::NothingRunsTwice, what));
        }
    }

    fn attempt_changed(&mut self, data: &Value) {
        let (id, task) = (text(data, "execution_id"), text(data, "task_id"));
        let status = text(data, "status");
        let ended = data.get("ended").is_some_and(|ended| *ended == true);
        let mut broken = None;
        if let Some((before, over)) = self.attempts.get(&id) {
            if *over {
                broken = Some(format!("attempt {id} goes on after its end: {status}"));
            }
            // What was told to end says so at once. Only a stop of the core that nobody confirmed is lost.
            let told = ["CANCELLED", "TIMED_OUT", "FAILED"].contains(&before.as_str());
            if told && *before != status && status != "LOST" {
                broken = Some(format!("attempt {id} was {before} and became {status}"));
            }
        } else if let Some(other) = self.live.insert(task.clone(), id.clone()) {
            broken = Some(format!("attempt {id} of task {task} began while {other} was live"));
        }
        if let Some(what) = broken {
            self.broken.push(Broken::new(Promise::NothingRunsTwice, what));
        }
        if ended {
            self.live.remove(&task);
        }
        self.attempts.insert(id, (status, ended));
    }

    fn moved(&mut self, agent: &str, data: &Value) {
        let id = if agent.is_empty() { text(data, "task_id") } else { agent.to_owned() };
        let (from, to) = (text(data, "from"), text(data, "to"));
        if let Some(place) = self.places.get(&id).filter(|place| **place != from) {
            self.breaks(format!("{id} was {place} and went from {from} to {to}"));
        }
        self.places.insert(id, to);
    }

    fn agrees_with_rows(&mut self, conn: &Connection) {
        let generations: Vec<(String, i64)> = {
            let mut statement = conn.prepare_cached(GENERATIONS).unwrap();
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.map(Result::unwrap).collect()
        };
        for (id, generation) in generations {
            let before = self.generations.insert(id.clone(), generation);
            if before.is_some_and(|before| before > generation) {
                self.breaks(format!("objective {id} went from {before:?} to {generation}"));
            }
        }
        for (id, status) in pairs(conn, PLACES) {
            let told = self.places.get(&id).filter(|told| **told != status);
            if let Some(told) = told {
                self.breaks(format!("{id} is {status} and the log says {told}"));
            }
        }
        for (id, ended) in pairs(conn, ENDED) {
            let over = self.attempts.get(&id).map(|(_, over)| *over);
            if over != Some(!ended.is_empty()) {
                self.breaks(format!("attempt {id} is {ended:?} and the log says {over:?}"));
            }
        }
    }
}
