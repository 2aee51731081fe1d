//! What stands on the scripted disk: worktrees, and what is staged in the project's folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cortex_lib::port::ScriptedWorld;
use rusqlite::Connection;
use serde_json::Value;

use super::{Broken, Promise};
use crate::sim::acts::root;
use crate::sim::hand::Told;

const ASKED: &str = "SELECT json_extract(integration, '$.changed_files') FROM task
        WHERE integration IS NOT NULL
    UNION ALL SELECT json_extract(intent, '$.squash.changed_files') FROM workspace
        WHERE intent IS NOT NULL";
const ROWS: &str = "SELECT path, json_extract(state, '$') FROM workspace";

/// What is staged came from one integration that somebody asked for: nobody else stages anything.
pub fn only_integrations_stage(conn: &Connection, world: &ScriptedWorld) -> Option<Broken> {
    let staged: BTreeSet<_> = world.staged(root()).into_iter().map(|file| file.path).collect();
    if staged.is_empty() {
        return None;
    }
    let mut statement = conn.prepare_cached(ASKED).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let asked = rows.map(Result::unwrap).any(|files| {
        let files: Vec<Value> = serde_json::from_str(&files).unwrap();
        let paths = files.iter().filter_map(|file| file.get("path").and_then(Value::as_str));
        paths.map(str::to_owned).collect::<BTreeSet<_>>() == staged
    });
    (!asked).then(|| {
        let what = format!("{staged:?} is staged and nobody asked for it");
        Broken::new(Promise::NothingOfOthersIsTouched, what)
    })
}

/// A worktree that lost its proof could be anybody's: it stays.
pub fn disowned_worktrees_stay(world: &ScriptedWorld, told: &Told) -> Vec<Broken> {
    let standing = world.worktrees();
    let gone = told.disowned.difference(&standing);
    gone.map(|path| {
        let what = format!("{}, which is not proved to be Cortex's, is gone", path.display());
        Broken::new(Promise::NothingOfOthersIsTouched, what)
    })
    .collect()
}

/// At rest: what stands has a row that says so, and the other way round.
pub fn worktrees_have_rows(conn: &Connection, world: &ScriptedWorld, told: &Told) -> Vec<Broken> {
    let standing = world.worktrees();
    let rows: BTreeMap<PathBuf, String> = {
        let mut statement = conn.prepare(ROWS).unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
        let rows = statement.query_map([], row).unwrap().map(Result::unwrap);
        rows.map(|(path, state): (String, String)| (PathBuf::from(path), state)).collect()
    };
    let mut broken = Vec::new();
    let mut left = |what| broken.push(Broken::new(Promise::NothingIsLeftBehind, what));
    for (path, state) in &rows {
        let stands = standing.contains(path);
        let right = match state.as_str() {
            "removed" => !stands,
            "kept" | "named" | "left_behind" => stands || told.taken.contains(path),
            "unowned" => stands,
            // It waits for nobody, and nobody does anything to it.
            _ => false,
        };
        if !right {
            left(format!("the worktree {} is {state}; it stands: {stands}", path.display()));
        }
    }
    for path in standing.iter().filter(|path| !rows.contains_key(*path)) {
        left(format!("the worktree {} has no row", path.display()));
    }
    broken
}
