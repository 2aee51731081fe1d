//! Finding a tree without an owner, and ending it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::super::{MARKER, TREE};
use super::proc::{Proc, Snapshot, strike};

/// Rounds that clearing takes at most: a program that starts what was ended again and again is left to it.
const CLEAR_ROUNDS_MAX: u32 = 100;
/// Rounds at most when nobody waits: each looks at every process.
const FINAL_ROUNDS_MAX: u32 = 50;
/// Two looks in a row that find nothing: a look may miss what is being started meanwhile.
const QUIET_LOOKS: u32 = 2;
/// The first pause between two looks, doubled each time up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_LAST: Duration = Duration::from_millis(50);

/// The pauses between looks.
pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(PAUSE_FIRST), |pause| Some((*pause * 2).min(PAUSE_LAST)))
}

/// A tree that is looked for from outside: below the program, in its process group, by its variable, and
/// below whatever was found.
#[derive(Debug)]
pub(super) struct Hunt {
    root: Option<Proc>,
    variables: BTreeSet<OsString>,
    seen: BTreeSet<Proc>,
}

impl Hunt {
    /// The tree of the program `root`, which was started with this environment.
    pub(super) fn of_program(root: Option<Proc>, env: &BTreeMap<OsString, OsString>) -> Self {
        let tree = env.get(OsStr::new(TREE)).map(|tree| variable(TREE, tree));
        Self { root, variables: tree.into_iter().collect(), seen: BTreeSet::new() }
    }

    /// All trees with one of these markers.
    pub(super) fn of_markers(markers: impl IntoIterator<Item = String>) -> Self {
        let variables = markers.into_iter().map(|marker| variable(MARKER, marker.as_ref()));
        Self { root: None, variables: variables.collect(), seen: BTreeSet::new() }
    }

    /// How many processes were found and ended.
    pub(super) fn ended(&self) -> usize {
        self.seen.len()
    }

    /// Ends all of it. Returns when nothing is found any more.
    pub(super) async fn end(&mut self) {
        let mut quiet = 0;
        for pause in pauses() {
            quiet = if self.round(Spare::Nothing) { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return;
            }
            rest(pause).await;
        }
    }

    /// Ends all of it but the program.
    pub(super) async fn clear(&mut self) {
        let mut quiet = 0;
        for (pause, _) in pauses().zip(0..CLEAR_ROUNDS_MAX) {
            quiet = if self.round(Spare::Program) { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return;
            }
            rest(pause).await;
        }
    }

    /// Ends all of it without waiting for its end: for when nothing can be awaited any more.
    pub(super) fn end_now(&mut self) {
        let mut quiet = 0;
        for _ in 0..FINAL_ROUNDS_MAX {
            quiet = if self.round(Spare::Nothing) { quiet + 1 } else { 0 };
            if quiet == QUIET_LOOKS {
                return;
            }
        }
    }

    /// One look, and the end of what it finds. Whether it found nothing that lives.
    fn round(&mut self, spare: Spare) -> bool {
        let living = self.look(spare);
        strike(&living);
        self.seen.extend(&living);
        living.is_empty()
    }

    fn look(&self, spare: Spare) -> Vec<Proc> {
        let all = Snapshot::take();
        // A group keeps the pid of its leader from being used again only while it has members, so its
        // number says something only while the program is there, if only as a zombie.
        let group = self.root.filter(|root| all.get(*root).is_some()).map(|root| root.pid);
        // What is older than the program was not started by it. Most are, and an environment is much to read.
        let may_be_its_own = |proc: Proc| self.root.is_none_or(|root| !proc.is_older_than(root));
        let mut found: BTreeSet<Proc> = all
            .iter()
            .filter(|stat| {
                Some(stat.group) == group
                    || self.root == Some(stat.proc)
                    || self.seen.contains(&stat.proc)
                    || (!self.variables.is_empty()
                        && may_be_its_own(stat.proc)
                        && stat.proc.has_one_of(&self.variables))
            })
            .map(|stat| stat.proc)
            .collect();
        found.extend(all.below(found.iter().map(|proc| proc.pid)));
        let me = std::process::id();
        found.retain(|proc| {
            u32::try_from(proc.pid) != Ok(me)
                && !(matches!(spare, Spare::Program) && self.root == Some(*proc))
                && all.get(*proc).is_some_and(|stat| !stat.dead)
        });
        found.into_iter().collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a process of others tells nobody that it is gone")]
async fn rest(pause: Duration) {
    tokio::time::sleep(pause).await;
}

fn variable(name: &str, value: &OsStr) -> OsString {
    [OsStr::new(name), OsStr::new("="), value].into_iter().collect()
}

/// What is let live.
#[derive(Clone, Copy, Debug)]
enum Spare {
    Nothing,
    Program,
}
