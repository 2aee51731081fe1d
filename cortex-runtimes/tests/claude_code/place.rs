//! What the tests stand on: a place to run in, and a session that lives.

use std::path::PathBuf;
use std::sync::Arc;

use cortex_lib::error::Result;
use cortex_lib::ids::SessionId;
use cortex_lib::port::{HealthReport, Runtime as _, SessionSpec};
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig};
use cortex_scripted::{CliHome, Script, ScriptedAnthropic, cli};
use tokio::time::timeout;

pub(crate) use crate::live::{Live, succeeded};
use crate::processes::{PATIENCE, marker, sleeping, until};
pub(crate) use crate::processes::{alive, kill};
use crate::spec::spec;

/// A project, a home and a model, and the driver for them.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) server: Arc<ScriptedAnthropic>,
    pub(crate) home: Arc<CliHome>,
    config: ClaudeCodeConfig,
    marker: SessionId,
}

impl Place {
    pub(crate) async fn new(script: Script) -> Self {
        let server = ScriptedAnthropic::start(script).await.unwrap();
        let home = CliHome::new(&server).unwrap();
        let vars = home.vars().into_iter();
        let env = vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let config =
            ClaudeCodeConfig { executable: Some(cli::claude_code().unwrap()), env: env.collect() };
        Self { server: Arc::new(server), home: Arc::new(home), config, marker: marker() }
    }

    /// The same with another variable.
    pub(crate) fn var(&self, name: &str, value: &str) -> Self {
        let mut place = self.clone();
        place.config.env.insert(name.to_owned(), value.to_owned());
        place
    }

    /// The same with another program.
    pub(crate) fn with_executable(&self, executable: PathBuf) -> Self {
        let config = ClaudeCodeConfig { executable: Some(executable), ..self.config.clone() };
        Self { config, ..self.clone() }
    }

    /// A program of one's own.
    pub(crate) fn program(&self, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.home().join(format!("program-{}", marker().as_str()));
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// What the driver is made of here.
    pub(crate) fn runtime(&self) -> ClaudeCode {
        ClaudeCode::new(self.config.clone())
    }

    pub(crate) fn marker(&self) -> &str {
        self.marker.as_str()
    }

    pub(crate) async fn check(&self) -> HealthReport {
        self.runtime().check().await
    }

    pub(crate) async fn open(&self) -> Live {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<Live> {
        self.open_with(|_| {}).await
    }

    pub(crate) async fn resume(&self, native: &str) -> Result<Live> {
        self.open_with(|spec| spec.resume = Some(native.to_owned())).await
    }

    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut SessionSpec)) -> Result<Live> {
        let mut spec = spec(&self.marker, self.home.project(), &self.home.home());
        change(&mut spec);
        let opened = timeout(PATIENCE, self.runtime().open(spec)).await.unwrap()?;
        Ok(Live::new(&self.marker, opened))
    }

    /// Waits until the project has a file of this name.
    pub(crate) async fn file(&self, name: &str) {
        let file = self.home.project().join(name);
        until(|| file.exists().then_some(())).await;
    }

    /// The `sleep`s of this place that live.
    pub(crate) fn sleeping(&self) -> Vec<String> {
        sleeping(self.marker())
    }

    /// Waits until so many `sleep`s live.
    pub(crate) async fn sleepers(&self, count: usize) {
        until(|| (self.sleeping().len() == count).then_some(())).await;
    }

    /// Waits until a process of this place lives.
    pub(crate) async fn until_alive(&self) {
        until(|| (!alive(self.marker()).is_empty()).then_some(())).await;
    }
}

impl Live {
    /// Waits until it says this line.
    pub(crate) async fn output(&mut self, text: &str) {
        let seen = |live: &mut Self| live.output.iter().any(|(_, line)| line == text).then_some(());
        self.wait("output", seen).await;
    }
}

/// Waits until no process carries the marker.
pub(crate) async fn until_gone(marker: &str) {
    until(|| alive(marker).is_empty().then_some(())).await;
}
