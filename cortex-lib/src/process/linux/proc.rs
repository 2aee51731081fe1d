//! Processes as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// 52 fields of at most 20 digits, and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 2048;

/// A process: its pid *and* its start time (clock ticks since boot), because pids are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Proc {
    pub(super) pid: i32,
    start: u64,
}

/// What is known about a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) proc: Proc,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Nothing of it runs; its parent has not asked how it ended.
    pub(super) dead: bool,
}

/// Who is who, as of one look. Processes come and go while one looks.
#[derive(Debug)]
pub(super) struct Snapshot(BTreeMap<i32, Stat>);

impl Proc {
    /// The process that has this pid now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        stat(i32::try_from(pid).ok()?).map(|stat| stat.proc)
    }

    /// Signals exactly this process, never a later one with its pid.
    pub(super) fn signal(self, signal: Signal) {
        let Some(fd) =
            Pid::from_raw(self.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        // In this order a reused pid cannot slip between: the descriptor holds whoever had the pid when
        // it was opened, and the start time read afterwards belongs to that one or to a later one.
        if stat(self.pid).is_some_and(|stat| stat.proc == self)
            && let Err(error) = pidfd_send_signal(&fd, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid, %error, "a process cannot be signalled");
        }
    }

    /// Whether it was started before that one. Within one tick of the clock nobody can tell: then it was not.
    pub(super) fn is_older_than(self, other: Self) -> bool {
        self.start < other.start
    }

    /// Whether the environment it was started with holds one of these: `NAME=value`.
    pub(super) fn has_one_of(self, variables: &BTreeSet<OsString>) -> bool {
        let Ok(environ) = fs_err::read(format!("/proc/{}/environ", self.pid)) else {
            return false;
        };
        environ
            .split(|byte| *byte == 0)
            .any(|variable| variables.contains(OsStr::from_bytes(variable)))
    }
}

impl Snapshot {
    /// Looks at all processes.
    pub(super) fn take() -> Self {
        let Ok(entries) = fs_err::read_dir("/proc") else { return Self(BTreeMap::new()) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, stat(pid)?))).collect())
    }

    /// The processes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Stat> {
        self.0.values()
    }

    /// What is known about this process; `None` when it is gone.
    pub(super) fn get(&self, proc: Proc) -> Option<&Stat> {
        self.0.get(&proc.pid).filter(|stat| stat.proc == proc)
    }

    /// Everything below the processes with these pids, by parent links.
    pub(super) fn below(&self, roots: impl IntoIterator<Item = i32>) -> BTreeSet<Proc> {
        let mut children: BTreeMap<i32, Vec<Proc>> = BTreeMap::new();
        for stat in self.iter() {
            children.entry(stat.parent).or_default().push(stat.proc);
        }
        let mut found = BTreeSet::new();
        let mut todo: Vec<i32> = roots.into_iter().collect();
        while let Some(pid) = todo.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                if found.insert(*child) {
                    todo.push(child.pid);
                }
            }
        }
        found
    }
}

/// Stops all of them first, so that none can start another for one that ended, then ends them.
pub(super) fn strike(living: &[Proc]) {
    for signal in [Signal::STOP, Signal::KILL] {
        for proc in living {
            proc.signal(signal);
        }
    }
}

/// `/proc/<pid>/stat`, whose fields are numbered from 1 in proc(5).
fn stat(pid: i32) -> Option<Stat> {
    // One line, written by the kernel at once: without asking for the size of the file first, a look at all
    // processes takes half as long.
    let mut line = [0; STAT_BYTES_MAX];
    let length = fs_err::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse(pid, &String::from_utf8_lossy(line.get(..length)?))
}

fn parse(pid: i32, text: &str) -> Option<Stat> {
    // The second field is the name in parentheses and may hold anything, also `)`.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    let threads: u32 = field(20)?.parse().ok()?;
    Some(Stat {
        proc: Proc { pid, start: field(22)?.parse().ok()? },
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        // The first thread may end before the others: it shows as a zombie, and the process lives.
        dead: matches!(field(3)?, "Z" | "X") && threads <= 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_changes_nothing() {
        let text = "7 (a) R 1) b) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
        let stat = parse(7, text).unwrap();
        assert_eq!(
            (stat.proc, stat.parent, stat.group, stat.dead),
            (Proc { pid: 7, start: 99 }, 3, 4, true)
        );
    }

    #[test]
    fn this_process_is_seen_below_its_parent() {
        let me = Proc::of(std::process::id()).unwrap();
        let all = Snapshot::take();
        let parent = all.get(me).unwrap().parent;
        assert!(all.below([parent]).contains(&me));
        assert!(!all.below([me.pid]).contains(&me));
    }
}
