//! A complete driver, small: for any agent that reads and prints lines of JSON. `docs/writing-a-driver.md` explains it.
//!
//! Each turn starts the agent once. It reads one line, `{"instruction": "…", "instructions": "…"}`, and prints what it does, a
//! line each: `{"say": "…"}`, `{"ask": {"id": "…", "tool": "…", "input": {…}}}`, and at last `{"done": {"text": "…"}}` or
//! `{"failed": {"why": "…", "class": "may_pass"}}` (or `quota_used_up`, `refused`). After an `ask` it waits for one more line, `{"id": "…", "allow": true}` or
//! `{"id": "…", "allow": false, "reason": "…"}`.

mod protocol;
mod session;
mod turn;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cortex_lib::domain::capability::Capability;
use cortex_lib::ids::RuntimeId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{
    Health, HealthReport, Opened, ProcessStrategy, Runtime, RuntimeInfo, SessionFacts, SessionSpec,
};
use cortex_lib::{Code, Error, Result};
use tokio::sync::mpsc;

use self::session::LineSession;

/// The runtime: an agent that reads and prints lines of JSON.
#[derive(Debug)]
pub struct LineAgent {
    info: RuntimeInfo,
    program: PathBuf,
}

impl LineAgent {
    /// A runtime for this program. It looks at nothing yet.
    pub fn new(name: &str, program: PathBuf) -> Self {
        // Only what a case of the conformance suite shows.
        let capabilities = BTreeSet::from([
            Capability::StructuredSession,
            Capability::Interrupt,
            Capability::ToolApproval,
        ]);
        let info = RuntimeInfo {
            id: RuntimeId::new(format!("lines:{name}")),
            name: name.to_owned(),
            capabilities,
            process_strategy: ProcessStrategy::ProcessPerTurn,
            default_model: None,
            models: None,
        };
        Self { info, program }
    }
}

#[async_trait]
impl Runtime for LineAgent {
    fn info(&self) -> &RuntimeInfo {
        &self.info
    }

    async fn check(&self) -> HealthReport {
        let found = self.program.is_file();
        HealthReport {
            health: if found { Health::Healthy } else { Health::Unhealthy },
            version: None,
            executable: found.then(|| self.program.clone()),
            logged_in: None,
            message: (!found).then(|| format!("{} is not there", self.program.display())),
            remediation: (!found).then(|| "Install the agent, or name another path.".to_owned()),
        }
    }

    async fn open(&self, spec: SessionSpec) -> Result<Opened> {
        // The core asks for nothing else. If it did, nobody may get more than this driver can hold.
        spec.require_offered(&self.info)?;
        if !self.program.is_file() {
            let message = format!("{} is not there", self.program.display());
            return Err(Error::new(Code::RuntimeNotInstalled, message));
        }
        if !spec.cwd.is_dir() {
            let message = format!("the folder {} is not there", spec.cwd.display());
            return Err(Error::new(Code::ProjectInvalidRoot, message));
        }
        let (sender, events) = mpsc::channel(SESSION_QUEUE_MAX);
        let session = Arc::new(LineSession::new(self.program.clone(), spec, sender)?);
        Ok(Opened { session, events, facts: SessionFacts::default(), terminal: None })
    }
}
