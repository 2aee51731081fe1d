//! What the tests stand on: a place to run in, one that all share, and a session that lives.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cortex_lib::domain::agent::{Interaction, Role};
use cortex_lib::env::{Env, SystemEnv};
use cortex_lib::error::Result;
use cortex_lib::ids::{AgentId, AttemptId, SessionId, TurnId};
use cortex_lib::port::{
    OutputKind, Runtime as _, Session, SessionEvent, SessionFacts, SessionSpec, ToolAnswer,
    ToolRequest, Turn, TurnEnd, TurnOutcome,
};
use cortex_runtimes::{OpenCode, OpenCodeConfig, ProcessUse};
use cortex_scripted::{CliHome, Request, Script, ScriptedChat, cli};
use tokio::sync::{OnceCell, mpsc};
use tokio::time::{interval, timeout};

use crate::between::Between;

/// Nothing that a test waits for takes longer, even on a machine with better things to do.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often the world is looked at while a test waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a model may be silent here. The silent one is waited for, and all others answer sooner.
const SILENCE_SECS: u32 = 15;

/// A project, a home and a model, and the driver for them.
pub(crate) struct Place {
    pub(crate) server: ScriptedChat,
    pub(crate) home: CliHome,
    pub(crate) runtime: OpenCode,
}

static SHARED: OnceLock<Place> = OnceLock::new();
static LOSSY: OnceCell<Lossy> = OnceCell::const_new();
static STAYS: OnceLock<tokio::runtime::Handle> = OnceLock::new();

/// A place with a proxy before its server, for those who want one.
pub(crate) struct Lossy {
    pub(crate) between: Between,
    pub(crate) place: Place,
    keeper: Mutex<Option<Live>>,
}

/// The place with a proxy. The first one who asks starts it, on the runtime that stays.
pub(crate) async fn lossy() -> &'static Lossy {
    let start = async {
        let between = Between::start(&cli::opencode().unwrap()).await;
        let program = between.program();
        let script = crate::lossy::script();
        let place = Place::with(script, |config| config.executable = Some(program)).await;
        let keeper = Mutex::new(Some(place.open().await));
        Lossy { between, place, keeper }
    };
    let started = STAYS.get().unwrap().spawn(LOSSY.get_or_init(|| start));
    started.await.unwrap()
}

/// The place that all share. The cases come and go on runtimes of their own; its server stays on this one.
pub(crate) struct Shared {
    runtime: tokio::runtime::Runtime,
    keeper: Live,
}

impl Shared {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        STAYS.get_or_init(|| runtime.handle().clone());
        let keeper = runtime.block_on(async {
            let rules = [
                crate::turns::script(),
                crate::tools::script(),
                crate::rights::script(),
                crate::failures::script(),
            ];
            let rules = rules.into_iter().flat_map(|script| script.rules).collect();
            let place = Place::new(Script { rules, otherwise: None }).await;
            SHARED.get_or_init(|| place).open().await
        });
        Self { runtime, keeper }
    }

    pub(crate) fn end(self) {
        self.runtime.block_on(self.keeper.close());
        // What is static is never dropped, so its folder is removed here.
        let mut places = vec![shared()];
        if let Some(Lossy { between, place, keeper }) = LOSSY.get() {
            let keeper = keeper.lock().unwrap().take();
            self.runtime.block_on(keeper.unwrap().close());
            between.end();
            places.push(place);
        }
        for place in places {
            fs_err::remove_dir_all(place.home.home().parent().unwrap()).unwrap();
        }
    }
}

/// The place that all share.
pub(crate) fn shared() -> &'static Place {
    SHARED.get().unwrap()
}

impl Place {
    pub(crate) async fn new(script: Script) -> Self {
        Self::with(script, |_| {}).await
    }

    pub(crate) async fn with(script: Script, change: impl FnOnce(&mut OpenCodeConfig)) -> Self {
        let server = ScriptedChat::start(script).await.unwrap();
        let home = CliHome::new(&server).unwrap();
        home.configure_opencode().unwrap();
        let vars = home.vars().into_iter();
        let env = vars.map(|(name, value)| (name.to_owned(), value.into_string().unwrap()));
        let mut config = OpenCodeConfig {
            executable: Some(cli::opencode().unwrap()),
            env: env.collect(),
            process: ProcessUse::Shared,
            silence_secs: Some(SILENCE_SECS),
        };
        config.env.insert("OTHER_API_KEY".to_owned(), "hush".to_owned());
        change(&mut config);
        Self { server, home, runtime: OpenCode::new(config) }
    }

    pub(crate) async fn open(&self) -> Live {
        self.open_with(|_| {}).await.unwrap()
    }

    pub(crate) async fn resume(&self, native: &str) -> Result<Live> {
        self.open_with(|spec| spec.resume = Some(native.to_owned())).await
    }

    pub(crate) async fn open_with(&self, change: impl FnOnce(&mut SessionSpec)) -> Result<Live> {
        let marker = marker();
        let scratch = self.home.home().join(format!("scratch-{}", marker.as_str()));
        fs_err::create_dir(&scratch).unwrap();
        let mut spec = SessionSpec {
            session_id: marker.clone(),
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
        let opened = timeout(PATIENCE, self.runtime.open(spec)).await.unwrap()?;
        Ok(Live {
            marker: marker.as_str().to_owned(),
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

    /// A file of the project, which is not there yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.project().join(name)
    }

    /// What the model was asked in a conversation.
    pub(crate) fn asked(&self, live: &Live) -> Vec<Request> {
        let native = live.facts.native_session_id.clone();
        let all = self.server.requests().into_iter();
        all.filter(|request| request.conversation == native).collect()
    }
}

/// An open session and what it has said so far.
pub(crate) struct Live {
    pub(crate) marker: String,
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

    /// What it has said since the last time it was asked.
    pub(crate) fn said(&mut self) -> Vec<(OutputKind, String)> {
        std::mem::take(&mut self.output)
    }

    pub(crate) async fn request(&mut self) -> ToolRequest {
        self.wait("a tool request", |live| live.requests.pop_front()).await
    }

    /// Waits for a request and allows it.
    pub(crate) async fn allow(&mut self) -> ToolRequest {
        let request = self.request().await;
        self.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        request
    }

    /// Why the session has ended, once nothing follows.
    pub(crate) async fn last_words(&mut self) -> String {
        let words = self.wait("the end of the session", |live| live.words.take()).await;
        assert_eq!(self.events.recv().await, None);
        words
    }

    pub(crate) async fn close(self) {
        timeout(PATIENCE, self.session.close(Duration::from_secs(10))).await.unwrap();
        assert_eq!(alive(&self.marker), Vec::<String>::new());
    }

    /// The `sleep`s of this session that live.
    pub(crate) fn sleeping(&self) -> Vec<String> {
        let all = alive(&self.marker).into_iter();
        all.filter(|command| command.starts_with("sleep ")).collect()
    }

    /// Waits until so many `sleep`s live.
    pub(crate) async fn sleepers(&self, count: usize) {
        until(|| (self.sleeping().len() == count).then_some(())).await;
    }

    async fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let event = timeout(PATIENCE, self.events.recv()).await;
            let event = event.unwrap_or_else(|_| {
                panic!(
                    "{what} does not come; {:?}; {:?}; {:?}",
                    self.output, self.requests, self.ends
                )
            });
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

/// Whether a process is there.
pub(crate) fn runs(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
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

/// Waits for something of the world.
pub(crate) async fn until<T>(look: impl Fn() -> Option<T>) -> T {
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
