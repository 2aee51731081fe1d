//! What the tests stand on: a place to run in, and a session that lives.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::domain::agent::{Interaction, Role};
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::Result;
use cortex_lib::ids::{AgentId, AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    HealthReport, OutputKind, Runtime as _, Session, SessionEvent, SessionFacts, SessionSpec,
    ToolRequest, Turn, TurnEnd, TurnOutcome,
};
use cortex_runtimes::{ClaudeCode, ClaudeCodeConfig};
use cortex_scripted::{CliHome, Script, ScriptedAnthropic, cli};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout, timeout_at};

/// Nothing that a test waits for takes longer, even on a machine with better things to do.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often the world is looked at while a test waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

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
        let scratch = self.home.home().join(format!("scratch-{}", marker().as_str()));
        fs_err::create_dir(&scratch).unwrap();
        let mut spec = SessionSpec {
            session_id: self.marker.clone(),
            agent_id: Some(AgentId::new("agent")),
            role: Role::Worker,
            interaction: Interaction::Structured,
            cwd: self.home.project(),
            scratch,
            model: None,
            instructions: None,
            resume: None,
            read_only: false,
            trusted: false,
            mcp: None,
        };
        change(&mut spec);
        let opened = timeout(PATIENCE, self.runtime().open(spec)).await.unwrap()?;
        Ok(Live {
            session: opened.session,
            events: opened.events,
            facts: opened.facts,
            withdrawn: 0,
            output: Vec::new(),
            requests: VecDeque::new(),
            ends: VecDeque::new(),
            words: None,
            turns: 0,
        })
    }

    /// Waits until the project has a file of this name.
    pub(crate) async fn file(&self, name: &str) {
        let file = self.home.project().join(name);
        until(|| file.exists().then_some(())).await;
    }

    /// The `sleep`s of this place that live.
    pub(crate) fn sleeping(&self) -> Vec<String> {
        let all = alive(self.marker()).into_iter();
        all.filter(|command| command.starts_with("sleep ")).collect()
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

/// An open session and what it has said so far.
pub(crate) struct Live {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) facts: SessionFacts,
    pub(crate) withdrawn: usize,
    events: mpsc::Receiver<SessionEvent>,
    output: Vec<(OutputKind, String)>,
    requests: VecDeque<ToolRequest>,
    ends: VecDeque<TurnEnd>,
    words: Option<String>,
    turns: usize,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Live {
    /// A turn that was not sent yet.
    pub(crate) fn next_turn(&mut self, text: &str, runs_attempt: bool) -> Turn {
        self.turns += 1;
        Turn {
            id: TurnId::new(format!("turn-{}", self.turns)),
            attempt_id: runs_attempt.then(|| AttemptId::new(format!("attempt-{}", self.turns))),
            instruction: text.to_owned(),
        }
    }

    /// Sends an attempt's turn and waits until it is accepted.
    pub(crate) async fn send(&mut self, text: &str) -> TurnId {
        let turn = self.next_turn(text, true);
        let id = turn.id.clone();
        timeout(PATIENCE, self.session.send(turn)).await.unwrap().unwrap();
        id
    }

    /// Runs an attempt's turn. Returns its end and what was seen of it.
    pub(crate) async fn turn(&mut self, text: &str) -> (TurnEnd, Vec<(OutputKind, String)>) {
        self.output.clear();
        let turn = self.send(text).await;
        let end = self.ended(&turn).await;
        (end, std::mem::take(&mut self.output))
    }

    /// The end of the turn, which must be the next that ends.
    pub(crate) async fn ended(&mut self, turn: &TurnId) -> TurnEnd {
        let end = self.wait("the end of the turn", |live| live.ends.pop_front()).await;
        assert_eq!(end.turn_id, *turn);
        end
    }

    pub(crate) async fn request(&mut self) -> ToolRequest {
        self.wait("a tool request", |live| live.requests.pop_front()).await
    }

    pub(crate) async fn output(&mut self, text: &str) {
        let seen = |live: &mut Self| live.output.iter().any(|(_, line)| line == text).then_some(());
        self.wait("output", seen).await;
    }

    /// Why the session has ended, once nothing follows.
    pub(crate) async fn last_words(&mut self) -> String {
        let words = self.wait("the end of the session", |live| live.words.take()).await;
        assert_eq!(self.events.recv().await, None);
        words
    }

    pub(crate) async fn close(self) {
        timeout(PATIENCE, self.session.close(Duration::from_secs(10))).await.unwrap();
    }

    async fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let event = timeout_at(deadline, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("{what} does not come; {:?}", self.output));
            match event {
                Some(event) => self.sort(event),
                None => panic!("{what} never came: {:?}; {:?}", self.words, self.output),
            }
        }
    }

    fn sort(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Output { kind, text, .. } => self.output.push((kind, text)),
            SessionEvent::ToolRequest(request) => self.requests.push_back(request),
            SessionEvent::ToolRequestWithdrawn { .. } => self.withdrawn += 1,
            SessionEvent::TurnEnded(end) => self.ends.push_back(end),
            SessionEvent::Ended { message } => self.words = Some(message),
            SessionEvent::Active | SessionEvent::NativeSession { .. } => {}
        }
    }
}

pub(crate) fn succeeded(text: &str) -> TurnOutcome {
    TurnOutcome::Succeeded { text: text.to_owned() }
}

/// Ends a process as nobody else would.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// What the processes that carry the marker run.
pub(crate) fn alive(marker: &str) -> Vec<String> {
    let wanted = format!("CORTEX_OWNER={marker}");
    let processes = fs_err::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    // A process that ends while it is looked at is not alive, and one that is dead has no environment.
    let found = processes.filter(|path| {
        let environment = fs_err::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    });
    let commands = found.filter_map(|path| fs_err::read_to_string(path.join("cmdline")).ok());
    let mut commands: Vec<_> =
        commands.map(|line| line.trim_end_matches('\0').replace('\0', " ")).collect();
    commands.sort();
    commands
}

/// Waits until no process carries the marker.
pub(crate) async fn until_gone(marker: &str) {
    until(|| alive(marker).is_empty().then_some(())).await;
}

async fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let waiting = async {
        let mut ticks = interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    };
    timeout(PATIENCE, waiting).await.unwrap()
}

fn marker() -> SessionId {
    let env: &dyn Env = &SystemEnv::new();
    SessionId::new(env.mint())
}
