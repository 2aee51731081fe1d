//! What tests of sessions in terminal mode have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cortex_lib::domain::agent::Interaction;
use cortex_lib::ids::SessionId;
use cortex_lib::port::{SessionSpec, Terminal};

pub(crate) use crate::processes::PATIENCE;
use crate::processes::in_time;

/// A session in terminal mode.
pub(crate) fn spec(marker: &str, cwd: PathBuf, home: &Path) -> SessionSpec {
    let spec = crate::spec::spec(&SessionId::new(marker), cwd, home);
    SessionSpec { interaction: Interaction::Terminal, ..spec }
}

/// Waits until the terminal shows this.
pub(crate) async fn shows(terminal: &Arc<dyn Terminal>, text: &str) {
    let seen = in_time(|| terminal.picture().text().contains(text).then_some(())).await;
    assert!(seen.is_some(), "{text:?} does not come:\n{}", terminal.picture().text());
}

/// Types a line. The CLIs take what comes at once for a paste, in which a line end is one.
pub(crate) async fn says(terminal: &Arc<dyn Terminal>, text: &str) {
    terminal.write(text.into()).await.unwrap();
    shows(terminal, text).await;
    terminal.write(b"\r".to_vec()).await.unwrap();
}
