//! Where it is measured: a scripted model in a process of its own, and a throw-away home for the CLI.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::ids::{AgentId, SessionId};
use cortex_lib::port::{Opened, Runtime, SessionSpec};
use cortex_scripted::{CliHome, ScriptedServer};
use tempfile::TempDir;

use crate::cli::Cli;

/// Tells this program to be the server.
pub(crate) const SERVE: &str = "--serve";

/// Serves a model until nobody holds our standard input any more.
pub(crate) async fn serve(api: Option<&str>) -> Result<()> {
    let cli = Cli::ALL.into_iter().find(|cli| Some(cli.api().as_str()) == api);
    let cli = cli.context("this API is not known")?;
    let server = ScriptedServer::listen(cli.api(), cli.script(), 0).await?;
    println!("{}", server.url());
    let mut rest = String::new();
    tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut rest)).await??;
    Ok(())
}

/// A model, a home and a project for one CLI.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) cli: Cli,
    pub(crate) executable: PathBuf,
    pub(crate) version: String,
    pub(crate) home: CliHome,
    pub(crate) folder: TempDir,
    server: Child,
}

impl Place {
    pub(crate) fn new(cli: Cli) -> Result<Self> {
        let (executable, version) = cli.pinned()?;
        let mut server = Command::new(std::env::current_exe()?)
            .args([SERVE, cli.api().as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        let stdout = server.stdout.take().context("the server has no output")?;
        std::io::BufReader::new(stdout).read_line(&mut url)?;
        let folder = tempfile::tempdir()?;
        let home = CliHome::at(url.trim(), folder.path())?;
        home.configure_opencode()?;
        Ok(Self { cli, executable, version, home, folder, server })
    }

    /// What the CLI is told by its environment.
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        let vars = self.home.vars().into_iter();
        vars.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())).collect()
    }

    /// The driver of the CLI.
    pub(crate) fn driver(&self) -> Arc<dyn Runtime> {
        self.cli.driver(self.executable.clone(), self.env())
    }

    /// Opens a session of a driver.
    pub(crate) async fn open(&self, driver: &dyn Runtime) -> Result<Opened> {
        let env: &dyn Env = &SystemEnv::new();
        let id = env.mint_v4().to_string();
        let scratch = self.folder.path().join(format!("scratch-{id}"));
        fs_err::create_dir(&scratch)?;
        let spec = SessionSpec {
            agent_id: Some(AgentId::new("agent")),
            ..SessionSpec::new(SessionId::new(id), self.home.project(), scratch)
        };
        Ok(driver.open(spec).await?)
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.id()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It ends with its input; a server that is gone already needs nothing.
        drop(self.server.stdin.take());
        drop(self.server.wait());
    }
}
