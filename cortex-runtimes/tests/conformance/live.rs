//! The CLIs of this machine with the logins of whoever runs this: only when it is asked for, since it spends tokens.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::port::{Health, Runtime};
use cortex_runtimes::conformance::{Ability, Scenario, Stage, Subject};
use cortex_runtimes::{
    ClaudeCode, ClaudeCodeConfig, Codex, CodexConfig, OpenCode, OpenCodeConfig, ProcessUse,
};
use tempfile::TempDir;

use crate::results::Results;

/// Asks for it.
const ASKED: &str = "CORTEX_LIVE_TESTS";

/// Whether somebody asked for it.
pub(crate) fn is_asked() -> bool {
    crate::variable(ASKED).is_some_and(|value| value == "1")
}

/// Every CLI that is installed and logged in, said loudly.
pub(crate) fn results() -> Results {
    let mut results = Results::default();
    results.lack_one();
    say(
        "CORTEX_LIVE_TESTS=1: this runs on your own logins and SPENDS TOKENS, some hundred turns for each CLI.",
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for subject in subjects() {
        let health = runtime.block_on(subject.runtime.check());
        if health.health == Health::Healthy {
            results.subject(Arc::new(subject));
        } else {
            let message = health.message.unwrap_or_default();
            say(&format!("SKIPPED: {} cannot start: {message}", subject.name));
        }
    }
    results
}

/// With a process for each session, so that what belongs to one can be told from what a person runs.
fn subjects() -> Vec<Live> {
    let process = ProcessUse::PerAgent;
    let codex = CodexConfig { process, ..CodexConfig::default() };
    let opencode = OpenCodeConfig { process, ..OpenCodeConfig::default() };
    vec![
        Live {
            name: "claude-code",
            runtime: Arc::new(ClaudeCode::new(ClaudeCodeConfig::default())),
            models: &["claude-haiku-4-5-20251001", "claude-sonnet-4-5-20250929"],
        },
        // Which models a person may use is known to their account alone.
        Live { name: "codex", runtime: Arc::new(Codex::new(codex)), models: &[] },
        Live { name: "opencode", runtime: Arc::new(OpenCode::new(opencode)), models: &[] },
    ]
}

fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").unwrap_or_default();
}

/// A CLI with a real model.
struct Live {
    name: &'static str,
    runtime: Arc<dyn Runtime>,
    models: &'static [&'static str],
}

#[async_trait]
impl Subject for Live {
    fn name(&self) -> &str {
        self.name
    }

    fn abilities(&self) -> BTreeSet<Ability> {
        // Its service cannot be made to fail, and what a repository may bring is tried with the scripted model.
        BTreeSet::from([
            Ability::Memory,
            Ability::Instructions,
            Ability::Shell,
            Ability::Questions,
            Ability::Processes,
            Ability::Tree,
            Ability::Program,
        ])
    }

    fn is_live(&self) -> bool {
        true
    }

    fn patience(&self) -> Duration {
        // A model thinks, and a suite waits in the queue of its service.
        Duration::from_mins(2)
    }

    async fn stage(&self, _: &Scenario) -> Result<Box<dyn Stage>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let models = self.models.iter().map(|model| (*model).to_owned()).collect();
        Ok(Box::new(Place { folder, runtime: Arc::clone(&self.runtime), models }))
    }
}

struct Place {
    folder: TempDir,
    runtime: Arc<dyn Runtime>,
    models: Vec<String>,
}

#[async_trait]
impl Stage for Place {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn open_gate(&self, _: &str) {}

    fn models(&self) -> Vec<String> {
        self.models.clone()
    }
}
