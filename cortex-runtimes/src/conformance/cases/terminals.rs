//! Terminals that people work at.

use std::time::Duration;

use cortex_lib::domain::agent::Interaction;
use cortex_lib::error::Code;
use cortex_lib::port::TerminalSize;
use tokio::time::timeout;

use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::refused;
use crate::conformance::place::Bench;
use crate::conformance::scenario::Scenario;

pub(super) const CASES: &[Case] = cases!["Terminals":
    a_terminal_shows_reads_and_changes_its_size [TerminalSession] [],
];

/// A word that no program shows by itself.
const TYPED: &str = "wagtail";

/// What a program that listens takes at most to show a word.
const TYPE_AGAIN: Duration = Duration::from_secs(5);

async fn a_terminal_shows_reads_and_changes_its_size(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    place.stage.settle()?;
    let mut live = place.open_with(|spec| spec.interaction = Interaction::Terminal).await?;
    let Some(terminal) = live.terminal.clone() else {
        return Err(Stop::Failed("a terminal session has no terminal".to_owned()));
    };
    let mut attached = terminal.attach();
    if attached.screen.is_empty() {
        let printed = live.in_time("the program shows nothing", attached.output.recv()).await?;
        ensure!(printed.is_some(), "the terminal ends at once");
    }
    let shows = || terminal.picture().text().contains(TYPED).then_some(());
    let types = async {
        loop {
            terminal.write(TYPED.into()).await?;
            // It does not hear what is typed before it listens.
            if timeout(TYPE_AGAIN, place.until("what was typed", shows)).await.is_ok() {
                return Ok::<_, Stop>(());
            }
        }
    };
    live.in_time("what is typed is not shown", types).await??;
    // What is printed from here on the program draws because it has heard of its new size.
    attached = terminal.attach();
    let size = TerminalSize { rows: 41, columns: 133 };
    terminal.resize(size)?;
    let printed = live.in_time("nothing is drawn anew", attached.output.recv()).await?;
    ensure!(printed.is_some(), "the terminal ended while its size was changed");
    ensure!(terminal.attach().size == size, "it has the size {:?}", terminal.attach().size);
    place.until("what was typed, in the new size", shows).await?;
    live.close().await?;
    place.nothing_lives(&live.id)?;
    let error =
        refused(terminal.write(b"x".to_vec()).await, "typing into a terminal that is gone")?;
    ensure!(error.code() == Code::RuntimeSessionEnded, "{error} ({})", error.code());
    Ok(Seen::Held)
}
