//! Terminals that people work at.

use cortex_lib::domain::agent::Interaction;
use cortex_lib::error::Code;
use cortex_lib::port::TerminalSize;

use crate::conformance::case::{Case, Outcome, Seen, Stop, cases, ensure};
use crate::conformance::live::refused;
use crate::conformance::place::Bench;
use crate::conformance::scenario::Scenario;

pub(super) const CASES: &[Case] = cases!["Terminals":
    a_terminal_shows_reads_and_changes_its_size [TerminalSession] [],
];

async fn a_terminal_shows_reads_and_changes_its_size(bench: &Bench<'_>) -> Outcome {
    let place = bench.stage(&Scenario::new()).await?;
    let mut live = place.open_with(|spec| spec.interaction = Interaction::Terminal).await?;
    let Some(terminal) = live.terminal.clone() else {
        return Err(Stop::Failed("a terminal session has no terminal".to_owned()));
    };
    let mut attached = terminal.attach();
    if attached.screen.is_empty() {
        let printed = live.in_time("the program shows nothing", attached.output.recv()).await?;
        ensure!(printed.is_some(), "the terminal ends at once");
    }
    terminal.write(b"words".to_vec()).await?;
    let printed = live.in_time("nothing comes after typing", attached.output.recv()).await?;
    ensure!(printed.is_some(), "the terminal ended while somebody typed");
    let size = TerminalSize { rows: 41, columns: 133 };
    terminal.resize(size)?;
    let shows = || (terminal.attach().size == size).then_some(());
    place.until("the new size", shows).await?;
    live.close().await?;
    place.nothing_lives(&live.id)?;
    let error =
        refused(terminal.write(b"x".to_vec()).await, "typing into a terminal that is gone")?;
    ensure!(error.code() == Code::RuntimeSessionEnded, "{error} ({})", error.code());
    Ok(Seen::Held)
}
