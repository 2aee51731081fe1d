//! What tests of sessions in terminal mode have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cortex_lib::domain::agent::Interaction;
use cortex_lib::ids::SessionId;
use cortex_lib::port::{Color, SessionSpec, Terminal, TerminalSize};

pub(crate) use crate::processes::PATIENCE;
use crate::processes::in_time;

/// A session in terminal mode.
pub(crate) fn spec(marker: &str, cwd: PathBuf, home: &Path) -> SessionSpec {
    let spec = crate::spec::spec(&SessionId::new(marker), cwd, home);
    SessionSpec { interaction: Interaction::Terminal, ..spec }
}

/// Waits until the terminal shows this.
pub(crate) async fn shows(terminal: &Arc<dyn Terminal>, text: &str) {
    let seen = until(|| terminal.picture().text().contains(text)).await;
    assert!(seen, "{text:?} does not come:\n{}", terminal.picture().text());
}

/// Whether something becomes so.
pub(crate) async fn until(holds: impl Fn() -> bool) -> bool {
    in_time(|| holds().then_some(())).await.is_some()
}

/// Types a line. The CLIs take what comes at once for a paste, in which a line end is one.
pub(crate) async fn says(terminal: &Arc<dyn Terminal>, text: &str) {
    terminal.write(text.into()).await.unwrap();
    shows(terminal, text).await;
    terminal.write(b"\r".to_vec()).await.unwrap();
}

/// Widens the terminal. The program draws in the columns that come.
pub(crate) async fn widens(terminal: &Arc<dyn Terminal>) {
    let TerminalSize { rows, columns } = terminal.picture().size;
    let size = TerminalSize { rows: rows + 10, columns: columns + 30 };
    terminal.resize(size).unwrap();
    assert_eq!((terminal.attach().size, terminal.picture().size), (size, size));
    let draws = || {
        let lines = terminal.picture().lines;
        let mut new = lines.iter().flat_map(|line| line.iter().skip(columns.into()));
        new.any(|cell| cell.character != ' ' || cell.background != Color::Usual)
    };
    assert!(until(draws).await, "nothing new is drawn:\n{}", terminal.picture().text());
}
