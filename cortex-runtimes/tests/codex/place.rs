//! What the tests stand on: a place to run in, and a session that lives.

use std::path::PathBuf;
use std::sync::Arc;

use cortex_lib::error::Result;
use cortex_lib::ids::SessionId;
use cortex_lib::limits::SESSION_QUEUE_MAX;
use cortex_lib::port::{HealthReport, Runtime as _, SessionSpec};
use cortex_lib::process::Program;
use cortex_runtimes::conformance::processes_with;
use cortex_runtimes::{Codex, CodexConfig};
use cortex_scripted::{CliHome, Script, ScriptedResponses, cli};
use tokio::time::timeout;

pub(crate) use crate::live::{Live, succeeded};
use crate::processes::{PATIENCE, marker, sleeping, until};
pub(crate) use crate::processes::{alive, kill};
use crate::spec::spec;

/// A project, a home and a model, and the driver for them.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) server: Arc<ScriptedResponses>,
    pub(crate) home: Arc<CliHome>,
    config: CodexConfig,
    runtime: Arc<Codex>,
    marker: SessionId,
}

impl Place {
    pub(crate) async fn new(script: Script) -> Self {
        let server = ScriptedResponses::start(script).await.unwrap();
        let home = CliHome::new(&server).unwrap();
        let vars = home.vars().into_iter();
        let env = vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let executable = Some(cli::codex().unwrap());
        let config = CodexConfig { executable, env: env.collect(), ..CodexConfig::default() };
        let runtime = Arc::new(Codex::new(config.clone()));
        Self { server: Arc::new(server), home: Arc::new(home), config, runtime, marker: marker() }
    }

    /// The same with another configuration, so with another runtime.
    pub(crate) fn with(&self, change: impl FnOnce(&mut CodexConfig)) -> Self {
        let mut place = self.clone();
        change(&mut place.config);
        place.runtime = Arc::new(Codex::new(place.config.clone()));
        place
    }

    /// The same with another variable.
    pub(crate) fn var(&self, name: &str, value: &str) -> Self {
        self.with(|config| drop(config.env.insert(name.to_owned(), value.to_owned())))
    }

    /// The same with another program.
    pub(crate) fn with_executable(&self, executable: PathBuf) -> Self {
        self.with(|config| config.executable = Some(executable))
    }

    /// The same runtime, for sessions of another marker.
    pub(crate) fn other(&self) -> Self {
        Self { marker: marker(), ..self.clone() }
    }

    /// A program of one's own.
    pub(crate) fn program(&self, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.home().join(format!("program-{}", marker().as_str()));
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn runtime(&self) -> &Codex {
        &self.runtime
    }

    pub(crate) fn marker(&self) -> &str {
        self.marker.as_str()
    }

    pub(crate) async fn check(&self) -> HealthReport {
        self.runtime.check().await
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
        let opened = timeout(PATIENCE, self.runtime.open(spec)).await.unwrap()?;
        Ok(Live::new(&self.marker, opened))
    }

    /// What the model was told last about a tool that it used.
    pub(crate) fn told(&self) -> String {
        let last = self.server.requests().pop().unwrap();
        last.tool_results.first().unwrap().text.clone()
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

    /// What the CLIs of this place run, and all that runs with their settings.
    pub(crate) fn processes(&self) -> Vec<String> {
        processes_with(&format!("CODEX_HOME={}", self.home.codex_home().display()))
    }

    /// Waits until no CLI of this place lives.
    pub(crate) async fn until_no_process(&self) {
        until(|| self.processes().is_empty().then_some(())).await;
    }

    /// Waits until a process of this place runs something with this in its command line.
    pub(crate) async fn until_running(&self, wanted: &str) {
        until(|| self.processes().iter().any(|command| command.contains(wanted)).then_some(()))
            .await;
    }

    /// The same with the CLI behind a shell that looks at what it is told: `cases` are patterns for lines of its input, and what
    /// is done instead of passing one on.
    pub(crate) fn behind(&self, cases: &str) -> Self {
        let real = cli::codex().unwrap();
        let real = real.display();
        self.with_executable(self.program(&format!(
            "#!/bin/sh\n[ \"$1\" = debug ] && exec {real} \"$@\"\nonce() {{ [ ! -e \"$0.$1\" ] && : > \"$0.$1\"; }}\n(while IFS= read -r line; do case $line in\n{cases}\nesac; printf '%s\\n' \"$line\"; done) | exec {real} \"$@\""
        )))
    }
}

impl Live {
    /// Waits until no further event fits, and takes none.
    pub(crate) async fn full(&self) {
        until(|| (self.events.len() == SESSION_QUEUE_MAX).then_some(())).await;
    }
}

/// Runs a script of the shell to its end.
pub(crate) async fn sh(script: &str) {
    let program = Program::new(["sh", "-c", script], "/", marker().as_str());
    let owned = program.spawn().await.unwrap();
    assert!(owned.exited().await.is_success(), "{script}");
    owned.end().await;
}

/// Waits until no process carries the marker.
pub(crate) async fn until_gone(marker: &str) {
    until(|| alive(marker).is_empty().then_some(())).await;
}
