//! What the tests stand on: a place to run in, one that all share, and a session that lives.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use cortex_lib::error::Result;
use cortex_lib::port::{OutputKind, Runtime as _, SessionSpec, ToolAnswer, ToolRequest};
use cortex_runtimes::{OpenCode, OpenCodeConfig, ProcessUse};
use cortex_scripted::{CliHome, Request, Script, ScriptedChat, cli};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::between::Between;
pub(crate) use crate::live::{Live, succeeded};
use crate::processes::{PATIENCE, marker, sleeping};
pub(crate) use crate::processes::{alive, kill, until};
use crate::spec::spec;

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
                crate::terminal::script(),
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
        let mut spec = spec(&marker, self.home.project(), &self.home.home());
        change(&mut spec);
        let opened = timeout(PATIENCE, self.runtime.open(spec)).await.unwrap()?;
        let mut live = Live::new(&marker, opened);
        live.is_alone = true;
        Ok(live)
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

impl Live {
    /// What it has said since the last time it was asked.
    pub(crate) fn said(&mut self) -> Vec<(OutputKind, String)> {
        std::mem::take(&mut self.output)
    }

    /// Waits for a request and allows it.
    pub(crate) async fn allow(&mut self) -> ToolRequest {
        let request = self.request().await;
        self.session.answer(&request.request_id, ToolAnswer::Allow).await.unwrap();
        request
    }

    /// The `sleep`s of this session that live.
    pub(crate) fn sleeping(&self) -> Vec<String> {
        sleeping(&self.marker)
    }

    /// Waits until so many `sleep`s live.
    pub(crate) async fn sleepers(&self, count: usize) {
        until(|| (self.sleeping().len() == count).then_some(())).await;
    }
}

/// Whether a process is there.
pub(crate) fn runs(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
