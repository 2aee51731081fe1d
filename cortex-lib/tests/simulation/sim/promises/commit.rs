//! After every commit: rules over the rows, asked in SQL that shares nothing with the core.

use std::collections::BTreeSet;
use std::path::Path;

use cortex_lib::ids::TurnId;
use cortex_lib::port::ScriptedWorld;
use rusqlite::{Connection, OpenFlags};

use super::files::only_integrations_stage;
use super::requests::REQUESTS;
use super::rows::{FLOWS, MESSAGES, PLANS, WORKTREES};
use super::story::Story;
use super::{Broken, Promise};
use crate::sim::world::answer_to;

/// A rule that no row may break: what is wrong with a row, and the query that finds the ids of such rows.
pub type Rule = (Promise, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        Promise::NothingRunsTwice,
        "a task has several live attempts",
        "SELECT task_id FROM attempt WHERE ended_at IS NULL GROUP BY task_id HAVING count(*) > 1",
    ),
    (
        Promise::NothingRunsTwice,
        "a session holds several attempts",
        "SELECT session_id FROM attempt WHERE ended_at IS NULL AND state NOT LIKE '%verifying%'
            AND state NOT LIKE '%halting%' AND state NOT LIKE '%gathering%'
            GROUP BY session_id HAVING count(*) > 1",
    ),
    (
        Promise::NothingRunsTwice,
        "a task runs that has no live attempt",
        "SELECT task_id FROM task WHERE status IN ('RUNNING', 'VERIFYING') AND NOT EXISTS
            (SELECT 1 FROM attempt AS a WHERE a.task_id = task.task_id AND a.ended_at IS NULL)",
    ),
    (
        Promise::NothingRunsTwice,
        "a task rests and its attempt is live",
        "SELECT task_id FROM task WHERE status IN ('CREATED', 'COMPLETED', 'FAILED') AND EXISTS
            (SELECT 1 FROM attempt AS a WHERE a.task_id = task.task_id AND a.ended_at IS NULL)",
    ),
    (
        Promise::NothingRunsTwice,
        "a task was tried before what it depends on had completed",
        "SELECT t.task_id FROM task AS t, json_each(t.depends_on) AS d
            JOIN task AS other ON other.task_id = d.value
            WHERE other.status <> 'COMPLETED' AND EXISTS
            (SELECT 1 FROM attempt AS a WHERE a.task_id = t.task_id)",
    ),
    (
        Promise::NothingRunsTwice,
        "an attempt works in a session that is over",
        "SELECT attempt_id FROM attempt AS a WHERE a.ended_at IS NULL
            AND a.state IN ('\"starting\"', '\"running\"') AND EXISTS
            (SELECT 1 FROM session AS s WHERE s.session_id = a.session_id AND s.ended_at IS NOT NULL)",
    ),
    (
        Promise::NothingWaitsForEver,
        "an attempt runs without a deadline",
        "SELECT attempt_id FROM attempt AS a WHERE ended_at IS NULL
            AND state IN ('\"starting\"', '\"running\"') AND time_left IS NULL AND NOT EXISTS
            (SELECT 1 FROM timer WHERE subject = a.attempt_id AND kind = 'attempt_deadline')",
    ),
    (
        Promise::NothingWaitsForEver,
        "an attempt is to let go and nobody counts the time",
        "SELECT attempt_id FROM attempt AS a WHERE ended_at IS NULL
            AND state LIKE '{\"ending\"%' AND NOT EXISTS
            (SELECT 1 FROM timer WHERE subject = a.attempt_id AND kind = 'attempt_grace')",
    ),
    (
        Promise::NothingWaitsForEver,
        "a timer is for nothing that lives",
        "SELECT subject FROM timer WHERE kind <> 'messages_due' AND NOT EXISTS
            (SELECT 1 FROM attempt WHERE attempt_id = subject AND ended_at IS NULL) AND NOT EXISTS
            (SELECT 1 FROM turn WHERE turn_id = subject AND ended_at IS NULL) AND NOT EXISTS
            (SELECT 1 FROM approval WHERE approval_id = subject AND status = 'pending') AND NOT EXISTS
            (SELECT 1 FROM connection WHERE connection_id = subject AND ended_at IS NULL)",
    ),
    (
        Promise::NothingWaitsForEver,
        "a connection is open and nobody counts its time",
        "SELECT connection_id FROM connection AS c WHERE ended_at IS NULL AND NOT EXISTS
            (SELECT 1 FROM timer WHERE subject = c.connection_id AND kind = 'connection_due')",
    ),
    (
        Promise::AnswersAreDeclared,
        "a session that is over has a credential",
        "SELECT session_id FROM session WHERE ended_at IS NOT NULL AND token_hash IS NOT NULL",
    ),
    (
        Promise::NothingWaitsForEver,
        "a message is for a session that is over",
        "SELECT steer_id FROM steer JOIN session USING (session_id)
            WHERE steer.ended_at IS NULL AND session.ended_at IS NOT NULL",
    ),
    (
        Promise::NothingWaitsForEver,
        "a message waits for a turn that is over",
        "SELECT steer_id FROM steer JOIN turn USING (turn_id)
            WHERE steer.state = '\"late\"' AND turn.ended_at IS NOT NULL",
    ),
    (
        Promise::EventsAgreeWithRows,
        "an objective has not ended with its tasks",
        "SELECT objective_id FROM objective AS o WHERE
            EXISTS (SELECT 1 FROM task AS t WHERE t.objective_id = o.objective_id)
            AND (o.ended_at IS NULL) <> EXISTS
            (SELECT 1 FROM task AS t WHERE t.objective_id = o.objective_id AND t.ended_at IS NULL)",
    ),
];

const LIVE: &str = "SELECT session_id FROM session WHERE ended_at IS NULL
    UNION ALL SELECT session_id FROM planner_session
    UNION ALL SELECT attempt_id FROM attempt WHERE ended_at IS NULL";

const RESULTS: &str = "SELECT attempt_id, turn_id, json_extract(result, '$.text') FROM attempt
    WHERE result IS NOT NULL";

/// Looks at the file after every commit.
pub struct Watch {
    conn: Connection,
    /// The number of the newest event that was seen.
    seen: Option<u64>,
}

impl Watch {
    /// Begins to look at a store.
    pub fn new(path: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).unwrap();
        conn.set_prepared_statement_cache_capacity(64);
        Self { conn, seen: None }
    }

    /// Looks once, at one snapshot.
    pub fn look(&mut self, world: &ScriptedWorld, story: &mut Story) -> Vec<Broken> {
        let mut broken = Vec::new();
        let snapshot = self.conn.unchecked_transaction().unwrap();
        let rules = [RULES, PLANS, MESSAGES, FLOWS, WORKTREES, REQUESTS];
        for (promise, what, query) in rules.into_iter().flatten() {
            let found = ids(&snapshot, query);
            broken.extend(found.map(|id| Broken::new(*promise, format!("{what}: {id}"))));
        }
        broken.extend(processes_have_rows(&snapshot, world));
        broken.extend(only_integrations_stage(&snapshot, world));
        broken.extend(results_are_their_own(&snapshot));
        self.seen = story.go_on(&snapshot, self.seen);
        drop(snapshot);
        broken.append(&mut story.broken);
        broken
    }
}

fn ids<'a>(conn: &'a Connection, query: &str) -> impl Iterator<Item = String> + use<'a> {
    let mut statement = conn.prepare_cached(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(Result::unwrap).collect::<Vec<_>>().into_iter()
}

/// Whatever lives in the world stands in a row that says that it lives: a crash at this moment finds it again.
fn processes_have_rows(conn: &Connection, world: &ScriptedWorld) -> Vec<Broken> {
    let processes = world.processes();
    if processes.is_empty() {
        return Vec::new();
    }
    let rows: BTreeSet<_> = ids(conn, LIVE).collect();
    let lost = processes.into_iter().filter(|process| !rows.contains(process));
    lost.map(|id| Broken::new(Promise::NothingIsLeftBehind, format!("{id} lives and has no row")))
        .collect()
}

/// What an attempt has as its result was said by its own turn, and in time.
fn results_are_their_own(conn: &Connection) -> Vec<Broken> {
    let mut statement = conn.prepare_cached(RESULTS).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    };
    let rows = statement.query_map([], row).unwrap().map(Result::unwrap);
    let foreign = rows.filter(|(_, turn, text)| *text != answer_to(&TurnId::new(turn.as_str())));
    foreign
        .map(|(id, turn, text)| {
            let what = format!("attempt {id} with turn {turn} has the result {text:?}");
            Broken::new(Promise::NothingRunsTwice, what)
        })
        .collect()
}
