//! What lives, as the system shows it.

use cortex_lib::ids::SessionId;
use cortex_lib::port::SessionFacts;

/// The commands of the processes that carry the mark of a session.
pub(super) fn alive(session: &SessionId) -> Vec<String> {
    processes_with(&format!("{}={session}", cortex_lib::process::MARKER))
}

/// The commands of the processes whose environment has this entry, written `NAME=value`: for a
/// [`Stage`](super::Stage) whose sessions share a process. Elsewhere than on Linux there are none.
#[cfg(target_os = "linux")]
pub fn processes_with(entry: &str) -> Vec<String> {
    // A process that ends while it is looked at is not alive, and one that is dead has no environment.
    let carries = |process: &std::path::Path| {
        let environment = fs_err::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
    };
    let mut commands: Vec<_> =
        processes().filter(|process| carries(process)).map(|process| command(&process)).collect();
    commands.sort();
    commands
}

/// The processes of all users whose command is this, whatever they carry.
#[cfg(target_os = "linux")]
pub(super) fn running(wanted: &str) -> usize {
    processes().filter(|process| command(process) == wanted).count()
}

/// Whether a process lives.
#[cfg(target_os = "linux")]
pub(super) fn lives(pid: u32) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A dead process whose parent has not looked is still listed.
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

#[cfg(target_os = "linux")]
pub(super) fn kill(facts: &SessionFacts) -> Result<(), String> {
    use rustix::process::{Pid, Signal, kill_process};

    let pid = facts.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or("the driver names no process")?;
    kill_process(pid, Signal::KILL).map_err(|error| error.to_string())
}

#[cfg(target_os = "linux")]
fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs_err::read_dir("/proc").into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(target_os = "linux")]
fn command(process: &std::path::Path) -> String {
    let line = fs_err::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ")
}

/// Elsewhere the system does not show whose a process is.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::SessionFacts;

    /// Nothing: the system does not show it.
    pub fn processes_with(_: &str) -> Vec<String> {
        Vec::new()
    }

    pub(in super::super) fn running(_: &str) -> usize {
        0
    }

    pub(in super::super) fn lives(_: u32) -> bool {
        true
    }

    pub(in super::super) fn kill(_: &SessionFacts) -> Result<(), String> {
        Err("processes are only looked at on Linux".to_owned())
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::processes_with;
#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{kill, lives, running};
