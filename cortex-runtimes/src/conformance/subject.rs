//! What the suite needs of a driver's author: a runtime with an agent that does what a case needs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::ids::SessionId;
use cortex_lib::port::{Runtime, SessionFacts};

use super::scenario::Scenario;
use super::world;

/// A driver under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// What it is called in the results.
    fn name(&self) -> &str;

    /// What its agent can do that no capability tells. A case that needs more is not offered.
    fn abilities(&self) -> BTreeSet<Ability>;

    /// Whether a real model plays the agent. Then cases that none can be made to play are left out.
    fn is_live(&self) -> bool {
        false
    }

    /// The longest that anything a case waits for may take.
    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }

    /// A place of its own for one case, with an agent that plays the scenario.
    ///
    /// # Errors
    ///
    /// What hinders it, in one sentence. The case fails.
    async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String>;
}

/// A place where a case happens. Everything in it goes away with it.
#[async_trait]
pub trait Stage: Send + Sync {
    /// The driver. At each call the same.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// The folder that sessions work in; it is there and empty.
    fn project(&self) -> PathBuf;

    /// Opens a gate that an act waits for.
    fn open_gate(&self, gate: &str);

    /// All that the model was sent so far, if that can be told.
    fn heard(&self) -> Option<Vec<Heard>> {
        None
    }

    /// Models that can be chosen, to show that the chosen one is asked.
    fn models(&self) -> Vec<String> {
        Vec::new()
    }

    /// Settles what the program asks a person who is new to it, so that they type to it at once. Before a terminal.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn settle(&self) -> io::Result<()> {
        Ok(())
    }

    /// Lets the project bring all that could make this driver do or obey something: settings, hooks, servers, agents. Each
    /// makes the file `trace` when it runs. Returns whether there is any such thing.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn bring(&self, trace: &Path) -> io::Result<bool> {
        let _ = trace;
        Ok(false)
    }

    /// Lets the project bring what this driver cannot keep from running, so that it must refuse to start. Each makes the file
    /// `trace` when it runs. Returns what was brought; the driver is shown each alone.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    fn bring_refused(&self, trace: &Path) -> io::Result<Vec<PathBuf>> {
        let _ = trace;
        Ok(Vec::new())
    }

    /// What lives of a session: a line for each process, such as its command.
    fn alive(&self, session: &SessionId) -> Vec<String> {
        world::alive(session)
    }

    /// Ends the program of a session as nobody would who is polite.
    ///
    /// # Errors
    ///
    /// When there is none, in one sentence.
    async fn kill(&self, session: &SessionId, facts: &SessionFacts) -> Result<(), String> {
        let _ = session;
        world::kill(facts)
    }
}

/// Something that agents of one runtime can do and those of another cannot, without a capability that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ability {
    /// What was said in a session is known in its later turns.
    Memory,
    /// The instructions of an agent reach its model.
    Instructions,
    /// It runs commands.
    Shell,
    /// It asks its user.
    Questions,
    /// A service answers for it, which can fail.
    Service,
    /// It runs in processes that the system shows.
    Processes,
    /// The processes of a session are a tree of their own. Below a program that serves many sessions they are not: there
    /// one is known by its parents or its environment.
    Tree,
    /// A program lives as long as the session.
    Program,
    /// The folder of a project can bring something that the program would obey.
    Settings,
}

impl Ability {
    /// In words, for the results.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Memory => "turns that know each other",
            Self::Instructions => "instructions of an agent",
            Self::Shell => "a shell",
            Self::Questions => "questions to its user",
            Self::Service => "a model behind a service",
            Self::Processes => "processes",
            Self::Tree => "a tree of processes for each session",
            Self::Program => "a program that lives as long as the session",
            Self::Settings => "settings in the project",
        }
    }
}

/// What a model was sent once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The model that was asked.
    pub model: String,
    /// Every text of the conversation, the newest last.
    pub texts: Vec<String>,
}
