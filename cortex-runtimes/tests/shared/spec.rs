//! What a session is opened with, if a test says nothing else.

use std::path::{Path, PathBuf};

use cortex_lib::ids::{AgentId, SessionId};
use cortex_lib::port::SessionSpec;

/// A worker's session, with a folder of its own below the home.
pub(crate) fn spec(marker: &SessionId, cwd: PathBuf, home: &Path) -> SessionSpec {
    let scratch = tempfile::tempdir_in(home).unwrap().keep();
    SessionSpec {
        agent_id: Some(AgentId::new("agent")),
        ..SessionSpec::new(marker.clone(), cwd, scratch)
    }
}
