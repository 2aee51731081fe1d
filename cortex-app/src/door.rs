//! The way to a core: one that runs already, or one that is opened here. Commands do not care which.

use std::path::Path;
use std::time::Duration;

use cortex_lib::Cortex;
use cortex_lib::api::Command;
use cortex_lib::api::operator::CoreStatus;
use cortex_lib::domain::approval::Rule;
use cortex_lib::engine::{Output, OutputFeed};
use cortex_lib::error::{Code, Result};
use cortex_lib::local::{self, Client};
use cortex_lib::store::{Event, Feed};
use cortex_runtimes::CommandConfig;
use serde_json::Value;

use crate::boot::{self, Life, Opened};
use crate::cli::Global;
use crate::config::Config;
use crate::log;
use crate::program::Program;

/// A core that has just taken the data directory listens within this time: it settles its earlier life first.
const START_MAX: Duration = Duration::from_secs(10);
/// How often a core that starts is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A way to a core, as the user.
#[derive(Debug)]
pub struct Door {
    core: Core,
    program: Program,
}

#[derive(Debug)]
enum Core {
    /// It runs here.
    Here(Opened),
    /// It runs in another process.
    There(Client),
}

/// What is opened when no core serves the data directory.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How long it is meant to live.
    pub life: Life,
    /// Runtimes besides those of the configuration. A core that runs already does not have them.
    pub extra: Vec<CommandConfig>,
    /// Rules for tool requests behind those of the configuration. A core that runs already does not have them.
    pub rules: Vec<Rule>,
}

impl Opening {
    /// A core that lives as long as said, and is as configured.
    pub fn of(life: Life) -> Self {
        Self { life, extra: Vec::new(), rules: Vec::new() }
    }
}

impl Door {
    /// The core that serves the data directory, else one that is opened here for one command.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub async fn open(global: &Global) -> Result<Self> {
        Self::open_with(global, Opening::of(Life::Glance)).await
    }

    /// The core that serves the data directory, else one that is opened here as `opening` says.
    ///
    /// # Errors
    ///
    /// Those of [`Config::read`], [`boot::open`] and [`Client::connect`].
    pub async fn open_with(global: &Global, opening: Opening) -> Result<Self> {
        let core = Core::reach(global, opening).await?;
        Ok(Self { core, program: global.program() })
    }

    /// The core that serves the data directory, if one does.
    ///
    /// # Errors
    ///
    /// Those of [`Client::connect`].
    pub(crate) async fn open_running(global: &Global) -> Result<Option<Self>> {
        let running = Core::running(global, &global.data_dir()?).await?;
        Ok(running.map(|core| Self { core, program: global.program() }))
    }

    /// What a person calls next to reach the same core: `cortex` with these words.
    pub(crate) fn hint(&self, words: &str) -> String {
        self.program.call(words)
    }

    /// The core, when it runs here.
    pub(crate) fn here(&self) -> Option<&Cortex> {
        match &self.core {
            Core::Here(opened) => Some(&opened.cortex),
            Core::There(_) => None,
        }
    }

    /// The way to the core, when it runs in another process.
    pub(crate) fn there(&self) -> Option<&Client> {
        match &self.core {
            Core::Here(_) => None,
            Core::There(client) => Some(client),
        }
    }

    /// Runs `command`.
    ///
    /// # Errors
    ///
    /// Those of the command.
    pub async fn call<C: Command>(&self, command: C) -> Result<C::Output> {
        match &self.core {
            Core::Here(opened) => opened.cortex.as_user().call(command).await,
            Core::There(client) => client.call(command).await,
        }
    }

    /// Runs the tool or operator command called `name`.
    ///
    /// # Errors
    ///
    /// Those of the command; `tool.not_found`.
    pub async fn call_json(&self, name: &str, args: Value) -> Result<Value> {
        match &self.core {
            Core::Here(opened) => opened.cortex.as_user().call_operator_json(name, args).await,
            Core::There(client) => client.call_json(name, args).await,
        }
    }

    /// The committed events behind `after`, then those that come; without `after`, from the oldest kept.
    ///
    /// # Errors
    ///
    /// Those of [`Client::events`].
    pub async fn events(&self, after: Option<u64>) -> Result<EventStream> {
        Ok(EventStream(match &self.core {
            Core::Here(opened) => Events::Here(opened.cortex.events(after)),
            Core::There(client) => Events::There(client.events(after).await?),
        }))
    }

    /// What agents print, from now on.
    ///
    /// # Errors
    ///
    /// Those of [`Client::output`].
    pub async fn output(&self) -> Result<OutputStream> {
        Ok(OutputStream(match &self.core {
            Core::Here(opened) => Outputs::Here(opened.cortex.output()),
            Core::There(client) => Outputs::There(client.output().await?),
        }))
    }

    /// The number of the newest event; pass it to [`events`](Self::events) to hear only what comes.
    ///
    /// # Errors
    ///
    /// Those of the command `core_status`.
    pub async fn newest_event(&self) -> Result<u64> {
        Ok(self.call(CoreStatus {}).await?.newest_event)
    }

    /// Whether the core is in another process, and goes on when this one ends.
    pub fn is_there(&self) -> bool {
        matches!(self.core, Core::There(_))
    }

    /// Leaves: stops the core in order if it is ours.
    ///
    /// # Errors
    ///
    /// Those of [`Opened::close`].
    pub async fn close(self) -> Result<()> {
        match self.core {
            Core::Here(opened) => opened.close().await,
            Core::There(_) => Ok(()),
        }
    }
}

impl Core {
    async fn running(global: &Global, data_dir: &Path) -> Result<Option<Self>> {
        let running = Client::connect(data_dir).await?;
        Ok(running.map(|client| {
            log::to_terminal(global.verbose);
            Self::There(client)
        }))
    }

    async fn reach(global: &Global, opening: Opening) -> Result<Self> {
        let data_dir = global.data_dir()?;
        let running = Self::running(global, &data_dir).await?;
        if let Some(running) = running {
            return Ok(running);
        }
        let mut config = Config::read(&data_dir)?;
        config.approvals.rules.extend(opening.rules);
        log::to_file(&data_dir, &config.log, global.verbose)?;
        let opened = boot::open(&data_dir, &config, opening.life, opening.extra).await;
        match opened {
            Ok(opened) => Ok(Self::Here(opened)),
            Err(error) if error.code() == Code::DataDirInUse => {
                let found = wait_for_core(&data_dir).await?;
                found.map(Self::There).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// Somebody has the data directory: it is a core that starts, or a program without a local socket.
async fn wait_for_core(data_dir: &Path) -> Result<Option<Client>> {
    let look = async {
        loop {
            if let Some(client) = Client::connect(data_dir).await? {
                return Ok(Some(client));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::time::timeout(START_MAX, look).await.unwrap_or(Ok(None))
}

/// Committed events, in order and without a gap.
#[derive(Debug)]
pub struct EventStream(Events);

#[derive(Debug)]
enum Events {
    Here(Feed),
    There(local::EventStream),
}

impl EventStream {
    /// The next event; waits for it. `None` when the core ends. Dropping the wait loses nothing.
    ///
    /// # Errors
    ///
    /// Those of the store; `core.stopped` when the core is gone without an end.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        match &mut self.0 {
            Events::Here(feed) => Ok(feed.next().await?.map(std::sync::Arc::unwrap_or_clone)),
            Events::There(stream) => stream.next().await,
        }
    }
}

/// What agents print.
#[derive(Debug)]
pub struct OutputStream(Outputs);

#[derive(Debug)]
enum Outputs {
    Here(OutputFeed),
    There(local::OutputStream),
}

impl OutputStream {
    /// The next output; `None` when the core is gone. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Option<Output> {
        match &mut self.0 {
            Outputs::Here(feed) => feed.next().await,
            Outputs::There(stream) => stream.next().await,
        }
    }
}
