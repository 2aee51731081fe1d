//! Any program as an agent: here a shell script that does what the scenario says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cortex_lib::port::Runtime;
use cortex_runtimes::conformance::{Ability, Act, Heard, Scenario, Stage, Subject};
use cortex_runtimes::{CommandConfig, CommandRuntime};
use tempfile::TempDir;

/// The subject.
pub(crate) struct Command;

#[async_trait]
impl Subject for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn abilities(&self) -> BTreeSet<Ability> {
        BTreeSet::from([Ability::Instructions, Ability::Shell, Ability::Processes, Ability::Tree])
    }

    async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let place = Place { folder };
        fs_err::create_dir(place.project()).map_err(|error| error.to_string())?;
        let program = place.folder.path().join("agent.sh");
        fs_err::write(program, place.program(scenario)).map_err(|error| error.to_string())?;
        Ok(Box::new(place))
    }
}

struct Place {
    folder: TempDir,
}

#[async_trait]
impl Stage for Place {
    fn runtime(&self) -> Arc<dyn Runtime> {
        let program = self.folder.path().join("agent.sh").display().to_string();
        let argv = vec!["sh".to_owned(), program];
        let config = CommandConfig { name: "agent".to_owned(), argv, env: BTreeMap::new() };
        Arc::new(CommandRuntime::new(config).unwrap())
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn open_gate(&self, gate: &str) {
        fs_err::write(self.gate(gate), "").unwrap();
    }

    fn heard(&self) -> Option<Vec<Heard>> {
        let heard = fs_err::read_to_string(self.heard_file()).unwrap_or_default();
        let texts = heard.split('\u{1e}').filter(|text| !text.is_empty());
        Some(texts.map(|text| Heard { texts: vec![text.to_owned()], ..Heard::default() }).collect())
    }
}

impl Place {
    fn gate(&self, gate: &str) -> PathBuf {
        self.folder.path().join(format!("gate-{gate}"))
    }

    fn heard_file(&self) -> PathBuf {
        self.folder.path().join("heard")
    }

    /// A shell script that acts by the instruction it reads.
    fn program(&self, scenario: &Scenario) -> String {
        let heard = quoted(&self.heard_file());
        let mut program = format!(
            "{{ cat \"$CORTEX_INSTRUCTION_FILE\"; printf '\\036'; }} >>{heard}\ncase \"$(cat)\" in\n"
        );
        for reply in &scenario.replies {
            writeln!(program, "*'{}'*)", reply.cue).unwrap();
            for act in &reply.acts {
                writeln!(program, "{}", self.act(act)).unwrap();
            }
            writeln!(program, ";;").unwrap();
        }
        program + "*) exit 9;;\nesac\n"
    }

    fn act(&self, act: &Act) -> String {
        let until =
            |gate: &str| format!("until [ -e {} ]; do sleep 0.02; done", quoted(&self.gate(gate)));
        match act {
            Act::Say(text) => format!("printf '%s\\n' {}", word(text)),
            Act::SayInTwo { first, rest, gate } => {
                format!("echo {}; {}; echo {}", word(first), until(gate), word(rest))
            }
            Act::SayLong(count) => format!("head -c {count} /dev/zero | tr '\\0' x"),
            Act::SayWord => {
                "sed -n 's/.*«\\([^»]*\\)».*/\\1/p' \"$CORTEX_AGENT_INSTRUCTIONS_FILE\"".to_owned()
            }
            Act::Wait { gate } => until(gate),
            // What its tools print is not its answer.
            Act::Run(command) => format!("sh -c {} >&2", word(command)),
            other => format!("echo {} >&2; exit 8", word(&format!("{other:?}"))),
        }
    }
}

/// A word as a shell reads it.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn quoted(path: &Path) -> String {
    word(&path.display().to_string())
}
