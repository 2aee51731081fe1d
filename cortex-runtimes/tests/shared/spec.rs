//! What a session is opened with, if a test says nothing else.

use std::path::{Path, PathBuf};

use cortex_lib::domain::agent::{Interaction, Role};
use cortex_lib::ids::{AgentId, SessionId};
use cortex_lib::port::SessionSpec;

/// A worker's session, with a folder of its own below the home.
pub(crate) fn spec(marker: &SessionId, cwd: PathBuf, home: &Path) -> SessionSpec {
    SessionSpec {
        session_id: marker.clone(),
        agent_id: Some(AgentId::new("agent")),
        role: Role::Worker,
        interaction: Interaction::Structured,
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
