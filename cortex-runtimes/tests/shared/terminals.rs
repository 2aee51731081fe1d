//! What tests of sessions in terminal mode have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::domain::agent::{Interaction, Role};
use cortex_lib::ids::{AgentId, SessionId};
use cortex_lib::port::{SessionSpec, Terminal};
use tokio::time::{interval, timeout};

/// Nothing that a test waits for takes longer, even on a machine with better things to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A session in terminal mode, with a folder of its own below the home.
pub(crate) fn spec(marker: &str, cwd: PathBuf, home: &Path) -> SessionSpec {
    SessionSpec {
        session_id: SessionId::new(marker),
        agent_id: Some(AgentId::new("agent")),
        role: Role::Worker,
        interaction: Interaction::Terminal,
        cwd,
        scratch: tempfile::tempdir_in(home).unwrap().keep(),
        model: None,
        instructions: None,
        resume: None,
        read_only: false,
        trusted: false,
        mcp: None,
    }
}

/// Waits until the terminal shows this.
pub(crate) async fn shows(terminal: &Arc<dyn Terminal>, text: &str) {
    let seen = until(|| terminal.picture().text().contains(text)).await;
    assert!(seen, "{text:?} does not come:\n{}", terminal.picture().text());
}

async fn until(holds: impl Fn() -> bool) -> bool {
    let look = async {
        let mut ticks = interval(Duration::from_millis(20));
        while !holds() {
            ticks.tick().await;
        }
    };
    timeout(PATIENCE, look).await.is_ok()
}

/// Types a line. The CLIs take what comes at once for a paste, in which a line end is one.
pub(crate) async fn says(terminal: &Arc<dyn Terminal>, text: &str) {
    terminal.write(text.into()).await.unwrap();
    shows(terminal, text).await;
    terminal.write(b"\r".to_vec()).await.unwrap();
}
