//! The lives of one run.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::tool::{ListTasks, StopAgent};
use cortex_lib::engine::CoreState;
use cortex_lib::env::{Env, SimEnv};
use cortex_lib::error::Code;
use cortex_lib::ids::SessionId;
use cortex_lib::port::{Asked, ScriptedWorld};
use cortex_lib::settings::Settings;
use cortex_lib::store::{NoFaults, Store, StoreOptions};
use cortex_lib::time::Timestamp;
use cortex_lib::{Cortex, Error};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::callers::{CallerScript, Told};
use crate::dice::Dice;
use crate::promises;
use crate::scripts::{SimFaults, host, runtimes};

/// 2026-09-21T14:13:20Z.
const EPOCH: i64 = 1_790_000_000_000;
/// Lives with faults; the last one has none.
const LIVES_MAX: u64 = 3;
/// Longer than every bound of the core: time-outs, graces, retries.
const QUIET: Duration = Duration::from_hours(3);

/// What came of a seed.
pub struct Run {
    pub log: Vec<String>,
    pub broken: Vec<String>,
    pub lives: u64,
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The power went during a commit.
    Power,
    /// The process was killed at some moment.
    Killed,
    /// The core failed, was stopped, or could not even begin.
    Over,
}

struct Sim {
    dice: Dice,
    world: ScriptedWorld,
    dir: TempDir,
    offset: Duration,
    told: Rc<RefCell<Told>>,
    broken: Vec<String>,
}

/// One run: lives until the last one, which rests.
pub fn run(seed: u64) -> Run {
    let dice = Dice::new(seed);
    let mut sim = Sim {
        world: ScriptedWorld::new(),
        dir: TempDir::new().unwrap(),
        offset: Duration::ZERO,
        told: Rc::default(),
        broken: Vec::new(),
        dice,
    };
    let lives = 1 + sim.dice.roll(LIVES_MAX);
    for life in 1..=lives {
        sim.live(life, life == lives);
        if !sim.broken.is_empty() {
            break;
        }
    }
    let log = sim.log();
    Run { log, broken: sim.broken, lives }
}

impl Sim {
    fn live(&mut self, life: u64, last: bool) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let end = runtime.block_on(async {
            let began = tokio::time::Instant::now();
            let end = self.life(last).await;
            if end != End::Over {
                // Before anything of it is dropped: what it had started lives on.
                self.world.lose_core();
            }
            self.offset += began.elapsed() + Duration::from_secs(1);
            end
        });
        // Every task ends where it stood.
        drop(runtime);
        self.told.borrow_mut().log.push(format!("life {life}: {end:?}"));
        self.check_disk();
    }

    async fn life(&mut self, last: bool) -> End {
        let epoch = Timestamp::from_millis(EPOCH).after(self.offset);
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(self.dice.next(), epoch));
        let faults = Arc::new(SimFaults::new(self.dice.fork(), !last));
        let options = StoreOptions { env: Arc::clone(&env), events_kept: 1_000_000 };
        let path = self.dir.path().join("cortex.db");
        let store = Store::open_inline(&path, options, Arc::clone(&faults) as _).unwrap();

        let mut settings = Settings::default();
        settings.agents.stall_secs = 100;
        settings.agents.restore_on_open = !self.dice.once_in(4);
        settings.resources.max_active_processes = 3;
        settings.resources.max_verifications = 2;
        let mut builder = Cortex::builder(self.dir.path()).settings(settings).env(env);
        for runtime in runtimes(&self.world, &self.dice) {
            builder = builder.runtime(runtime);
        }
        let before: BTreeSet<SessionId> =
            self.world.openings().into_iter().map(|spec| spec.session_id).collect();
        let cortex = tokio::select! { biased;
            () = store.crashed() => return End::Power,
            opened = builder.open_on(store.clone(), host(&self.world, &self.dice)) => match opened {
                Ok(cortex) => cortex,
                Err(error) => return self.not_opened(&error),
            },
        };
        let old = before.iter().filter(|id| self.world.processes().contains(id.as_str()));
        let old: Vec<_> = old.collect();
        if !old.is_empty() {
            self.broken.push(format!("sessions of an earlier life live: {old:?}"));
        }
        let killed_at = (!last && self.dice.once_in(3)).then(|| self.dice.seconds(120));
        let killed = async {
            match killed_at {
                Some(at) => tokio::time::sleep(at).await,
                None => std::future::pending().await,
            }
        };
        let work = Work { cortex: &cortex, store: &store, sim: self, last };
        let (end, broken) = tokio::select! { biased;
            () = store.crashed() => (End::Power, Vec::new()),
            () = killed => (End::Killed, Vec::new()),
            broken = work.run() => (End::Over, broken),
        };
        self.broken.extend(broken);
        if faults.is_flooded() {
            self.broken.push("the core writes in circles".to_owned());
        }
        end
    }

    /// A core may fail to open only because of the disk.
    fn not_opened(&mut self, error: &Error) -> End {
        self.told.borrow_mut().log.push(format!("not opened: {}", error.code()));
        if !matches!(error.code(), Code::StoreDiskFull | Code::StoreFailed) {
            self.broken.push(format!("the core did not open: {error:?}"));
        }
        // Whatever it had begun, nobody ends it now.
        End::Killed
    }

    fn store(&self) -> Store {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(1, Timestamp::from_millis(EPOCH)));
        let options = StoreOptions { env, events_kept: 1_000_000 };
        Store::open_inline(&self.dir.path().join("cortex.db"), options, Arc::new(NoFaults)).unwrap()
    }

    /// Looks at the disk between two lives.
    fn check_disk(&mut self) {
        let told = self.told.borrow();
        self.broken.extend(told.broken.iter().cloned());
        self.broken.extend(promises::of_world(&self.world));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let found = runtime.block_on(async {
            let store = self.store();
            let found = store.read(|tx| {
                let mut broken = promises::of_rows(tx, &told)?;
                broken.extend(promises::of_events(&tx.events_after(None, 1_000_000)?));
                Ok(broken)
            });
            store.close().await.unwrap();
            found
        });
        self.broken.extend(found.unwrap());
    }

    /// Everything that can be seen of a run.
    fn log(&self) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let events = runtime.block_on(async {
            let store = self.store();
            store.read(|tx| tx.events_after(None, 1_000_000)).unwrap()
        });
        let events = events.iter().map(|event| {
            format!("{} {} {} {:?} {}", event.seq, event.at, event.kind, event.agent_id, event.data)
        });
        let asked = self.world.asked().into_iter().map(|asked| match asked {
            Asked::Open(spec) => format!("open {} {:?}", spec.session_id, spec.resume),
            other => format!("{other:?}"),
        });
        self.told.borrow().log.iter().cloned().chain(asked).chain(events).collect()
    }
}

/// What happens in one life, up to its orderly end.
struct Work<'a> {
    cortex: &'a Cortex,
    store: &'a Store,
    sim: &'a Sim,
    last: bool,
}

impl Work<'_> {
    fn caller(&self, name: u64) -> CallerScript {
        CallerScript {
            cx: self.cortex.as_user(),
            dice: self.sim.dice.fork(),
            told: Rc::clone(&self.sim.told),
            name,
        }
    }

    /// Returns what was broken.
    async fn run(&self) -> Vec<String> {
        let first = self.caller(0);
        first.set_up().await;
        join_all((1..=3).map(|name| self.caller(name).run(4))).await;
        let mut broken = Vec::new();
        if let Ok(list) = self.cortex.as_user().call(ListTasks {}).await {
            broken.extend(promises::of_waits(&list.objectives));
        }
        if self.last && self.cortex.state() == CoreState::Ready {
            first.start_all().await;
            broken.extend(self.rest().await);
        }
        broken.extend(self.stop().await);
        broken
    }

    /// Waits until nothing moves by itself any more.
    async fn rest(&self) -> Vec<String> {
        let cx = self.cortex.as_user();
        tokio::time::sleep(QUIET).await;
        let mut broken = Vec::new();
        match cx.call(ListTasks {}).await {
            Ok(list) => broken.extend(promises::of_rest(&list.objectives)),
            Err(error) => broken.push(format!("nobody can look: {error:?}")),
        }
        let seen = self.cortex.newest_event().unwrap();
        tokio::time::sleep(QUIET).await;
        if self.cortex.newest_event().unwrap() != seen {
            broken.push("something still moves after a quiet time".to_owned());
        }
        broken.extend(self.store.read(|tx| promises::of_agents(tx, &self.sim.world)).unwrap());
        let agents = self.store.read(|tx| tx.agents(None)).unwrap();
        if let Some(agent) = agents.into_iter().next() {
            let stopped = cx.call(StopAgent { agent_id: agent.id }).await;
            broken.extend(stopped.err().map(|error| format!("nobody can stop it: {error:?}")));
        }
        broken
    }

    /// Ends the core, in order or at once: nothing of it lives on.
    async fn stop(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let stopped = if self.sim.dice.once_in(3) {
            self.cortex.shutdown_at_once().await
        } else {
            self.cortex.shutdown().await
        };
        if let Err(error) = stopped
            && !matches!(error.code(), Code::StoreFailed | Code::StoreDiskFull)
        {
            broken.push(format!("the core did not stop: {error:?}"));
        }
        let left = self.sim.world.processes();
        if !left.is_empty() {
            broken.push(format!("after the end these live: {left:?}"));
        }
        let scratch = self.sim.world.scratch();
        if self.last && !scratch.is_empty() {
            broken.push(format!("after the end these folders are left: {scratch:?}"));
        }
        broken
    }
}
