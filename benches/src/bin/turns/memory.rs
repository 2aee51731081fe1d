//! What sessions take of the machine's memory: the shares (PSS) of all processes that belong to them.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::bare::{BareClaude, BareCodex, Seat};
use crate::cli::Cli;
use crate::cortex::Core;
use crate::opencode::BareOpenCode;
use crate::place::Place;
use crate::seen::Seen;

/// How many sessions there are when it is looked.
const SESSIONS: [usize; 3] = [1, 5, 10];

/// Measures one CLI and prints it.
pub(crate) async fn measure(cli: Cli) -> Result<()> {
    println!(
        "\n== {}: memory of live sessions after a turn each, MB (PSS of the processes)",
        cli.name()
    );
    println!("  {:<10} {:>8} {:>12} {:>12}", "", "sessions", "in all", "for each");
    bare(cli).await?;
    cortex(cli).await
}

async fn bare(cli: Cli) -> Result<()> {
    let place = Place::new(cli)?;
    let driver = place.driver();
    let first = crate::cortex::ByDriver::open(&place, &*driver).await?;
    let mut seen = Seen::process(first.pid().unwrap_or_default())?;
    if cli == Cli::Codex {
        seen = seen.listen(&place).await?;
    }
    let mut seats: Vec<(Box<dyn Seat>, u32)> = Vec::new();
    for wanted in SESSIONS {
        while seats.len() < wanted {
            let (mut seat, pid): (Box<dyn Seat>, _) = match cli {
                Cli::ClaudeCode => {
                    let seat = BareClaude::start(&seen).await?;
                    let pid = seat.pid();
                    (Box::new(seat), pid)
                }
                Cli::Codex => {
                    let seat = BareCodex::start(&seen).await?;
                    let pid = seat.pid();
                    (Box::new(seat), pid)
                }
                Cli::OpenCode => {
                    let seat = BareOpenCode::start(&seen, &place).await?;
                    let pid = seat.pid();
                    (Box::new(seat), pid)
                }
            };
            seat.turn("say a word").await?;
            seats.push((seat, pid.unwrap_or_default()));
        }
        let processes = Processes::now();
        let kb: u64 = seats.iter().map(|(_, pid)| processes.tree(*pid)).sum();
        print("bare", wanted, kb);
    }
    drop(seats);
    first.close().await;
    Ok(())
}

async fn cortex(cli: Cli) -> Result<()> {
    let place = Place::new(cli)?;
    let own = std::process::id();
    let before = Processes::now().share(own);
    let data = tempfile::tempdir()?;
    let core = Core::open(&place, data.path()).await?;
    let idle = Processes::now().share(own);
    let mut agents = Vec::new();
    let mut of_core = Vec::new();
    for wanted in SESSIONS {
        while agents.len() < wanted {
            let mut agent = core.agent(&format!("agent-{}", agents.len())).await?;
            agent.turn("say a word").await?;
            agents.push(agent);
        }
        let processes = Processes::now();
        // All that lives below us, except the model.
        let kb = processes.tree(own) - processes.share(own) - processes.tree(place.server_pid());
        print("Cortex", wanted, kb);
        of_core.push((wanted, processes.share(own)));
    }
    println!("  the core itself: {:.1} MB more once it is open", mb(idle.saturating_sub(before)));
    for (sessions, kb) in of_core {
        println!("    with {sessions} sessions: {:.1} MB more", mb(kb.saturating_sub(before)));
    }
    drop(agents);
    core.close().await
}

fn print(who: &str, sessions: usize, kb: u64) {
    let count = u32::try_from(sessions).unwrap_or(u32::MAX);
    println!("  {who:<10} {sessions:>8} {:>12.1} {:>12.1}", mb(kb), mb(kb) / f64::from(count));
}

fn mb(kb: u64) -> f64 {
    f64::from(u32::try_from(kb).unwrap_or(u32::MAX)) / 1024.0
}

/// The processes of this machine and whose children they are.
struct Processes(BTreeMap<u32, Vec<u32>>);

impl Processes {
    fn now() -> Self {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let entries = fs_err::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name, which may hold anything, is in brackets.
            let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Self(children)
    }

    /// Of a process and everything below it, in kB.
    fn tree(&self, pid: u32) -> u64 {
        let below = self.0.get(&pid).into_iter().flatten();
        self.share(pid) + below.map(|child| self.tree(*child)).sum::<u64>()
    }

    /// Of a process alone, in kB.
    #[expect(clippy::unused_self, reason = "it is asked of the same moment")]
    fn share(&self, pid: u32) -> u64 {
        let text = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default()
    }
}
