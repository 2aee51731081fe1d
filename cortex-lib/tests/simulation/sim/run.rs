//! The lives of one run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cortex_lib::api::tool::{ListTasks, StopAgent};
use cortex_lib::domain::approval::{Decide, Rule, Unmatched};
use cortex_lib::engine::CoreState;
use cortex_lib::env::{Env, SimEnv};
use cortex_lib::error::Code;
use cortex_lib::ids::{RuntimeId, SessionId};
use cortex_lib::port::{Asked, ScriptedWorld};
use cortex_lib::settings::Settings;
use cortex_lib::store::{NoFaults, Store, StoreOptions};
use cortex_lib::time::Timestamp;
use cortex_lib::{Cortex, Error};
use futures_util::future::join_all;
use tempfile::TempDir;

use super::acts;
use super::defects::Defect;
use super::dice::{Dice, mix};
use super::hand::{Hand, Told};
use super::plan::{Choice, LAST, Plan, Setting};
use super::promises::{self, Broken, Promise, Story, Watch};
use super::world::{RUNTIMES, SimFaults, happen, host, runtimes, strangers};

/// 2026-09-21T14:13:20Z.
const EPOCH: i64 = 1_790_000_000_000;
/// Longer than every bound of the core: time-outs, graces, retries.
const QUIET: Duration = Duration::from_hours(3);
/// By then most of what runs has ended.
const SOON: Duration = Duration::from_mins(20);
/// Broken promises of one life that are told. The first says most.
const BROKEN_MAX: usize = 50;
/// Events that a run may write.
const EVENTS_KEPT: u64 = 1_000_000;

/// What came of a run.
#[derive(Default)]
pub struct Run {
    /// Everything that could be seen, in order.
    pub log: Vec<String>,
    pub broken: Vec<Broken>,
    pub lives: u64,
    /// Commits of each life.
    pub commits: Vec<u64>,
    /// Every command with every answer it had.
    pub met: BTreeMap<(&'static str, &'static str), u64>,
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

struct Sim<'a> {
    plan: &'a Plan,
    defect: Option<&'a Defect>,
    world: ScriptedWorld,
    dir: TempDir,
    offset: Duration,
    told: Rc<RefCell<Told>>,
    story: Story,
    broken: Vec<Broken>,
    commits: Vec<u64>,
}

/// Runs a plan, with a planted defect or without. A panic is a broken promise like others.
pub fn run(plan: &Plan, defect: Option<&Defect>) -> Run {
    catch_unwind(AssertUnwindSafe(|| Sim::new(plan, defect).run())).unwrap_or_else(|why| {
        let what = why.downcast_ref::<String>().cloned();
        let what = what.or_else(|| why.downcast_ref::<&str>().map(|what| (*what).to_owned()));
        let what = format!("a panic: {}", what.unwrap_or_default());
        Run { broken: vec![Broken::new(Promise::AnswersAreDeclared, what)], ..Run::default() }
    })
}

/// A folder in memory where there is one: what the disk costs says nothing here.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

impl<'a> Sim<'a> {
    fn new(plan: &'a Plan, defect: Option<&'a Defect>) -> Self {
        let world = ScriptedWorld::new();
        for stranger in strangers() {
            world.add_stranger(stranger);
        }
        world.make_repository(acts::root(), [("a.txt", "a"), ("b.txt", "b")]);
        Self {
            plan,
            defect,
            world,
            dir: folder(),
            offset: Duration::ZERO,
            told: Rc::default(),
            story: Story::default(),
            broken: Vec::new(),
            commits: Vec::new(),
        }
    }

    fn run(mut self) -> Run {
        let lives = self.plan.lives();
        for life in &lives {
            self.live(*life);
            if !self.broken.is_empty() {
                break;
            }
        }
        let mut told = BTreeSet::new();
        self.broken.retain(|broken| told.insert(broken.to_string()));
        let log = self.log();
        let met = std::mem::take(&mut self.told.borrow_mut().met);
        let lives = u64::try_from(lives.len()).unwrap();
        Run { log, broken: self.broken, lives, commits: self.commits, met }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("cortex.db")
    }

    /// A stream of dice for one purpose in one life, the same whatever else is planned.
    fn dice(&self, life: u8, purpose: u64) -> Dice {
        Dice::new(mix(self.plan.seed, u64::from(life) * 1000 + purpose))
    }

    fn live(&mut self, life: u8) {
        self.world.restore_folder(&acts::root());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.unwrap();
        let end = runtime.block_on(async {
            if let Some(defect) = self.defect {
                self.store().close().await.unwrap();
                defect.plant(&self.path());
            }
            let began = tokio::time::Instant::now();
            let end = self.life(life).await;
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

    async fn life(&mut self, life: u8) -> End {
        let epoch = Timestamp::from_millis(EPOCH).after(self.offset);
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(self.dice(life, 0).next(), epoch));
        let lie = self.defect.and_then(Defect::every_fifth_commit);
        let faults = Arc::new(SimFaults::new(self.plan, life, lie));
        let options = StoreOptions { env: Arc::clone(&env), events_kept: EVENTS_KEPT };
        let store = Store::open_inline(&self.path(), options, Arc::clone(&faults) as _).unwrap();

        let mut builder = Cortex::builder(self.dir.path()).settings(self.settings(life)).env(env);
        // Nobody listens there: callers of this kind call the core itself.
        builder = builder.endpoint("http://127.0.0.1:1/mcp");
        let mut host = host(&self.world, self.plan, life);
        let mut runtimes = runtimes(&self.world, self.plan, life);
        if let Some(defect) = self.defect {
            (host, runtimes) = defect.disguise(&self.world, host, runtimes);
        }
        for runtime in runtimes {
            builder = builder.runtime(runtime);
        }
        let before: BTreeSet<SessionId> =
            self.world.openings().into_iter().map(|spec| spec.session_id).collect();
        let cortex = tokio::select! { biased;
            () = store.crashed() => {
                self.commits.push(faults.commits());
                return End::Power;
            }
            opened = builder.open_on(store.clone(), host) => match opened {
                Ok(cortex) => cortex,
                Err(error) => {
                    self.commits.push(faults.commits());
                    return self.not_opened(&error);
                }
            },
        };
        self.no_earlier_session_lives(&before);
        let (end, broken) = self.work(life, &cortex, &store).await;
        self.commits.push(faults.commits());
        self.broken.extend(broken);
        if faults.is_flooded() {
            let what = "the core writes in circles".to_owned();
            self.broken.push(Broken::new(Promise::NothingWaitsForEver, what));
        }
        self.core_failed_with_its_store(&cortex, &store);
        end
    }

    /// Everything at once: callers, events of the world, the power, and somebody who looks after every commit.
    async fn work(&mut self, life: u8, cortex: &Cortex, store: &Store) -> (End, Vec<Broken>) {
        let kill = self.plan.choices().find_map(|choice| match choice {
            Choice::Kill(of, at) if *of == life => Some(*at),
            _ => None,
        });
        let killed = async {
            match kill {
                Some(at) => tokio::time::sleep(at).await,
                None => std::future::pending().await,
            }
        };
        let mut story = std::mem::take(&mut self.story);
        let mut watch = Watch::new(&self.path());
        let mut seen = Vec::new();
        let watched = async {
            let mut changes = store.changes();
            loop {
                // What is broken stays so for many commits, and what follows from it tells more.
                let new = watch.look(&self.world, &mut story);
                seen.extend(new.into_iter().take(BROKEN_MAX.saturating_sub(seen.len())));
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let work = Work { cortex, store, sim: self, life };
        let root = acts::root();
        let world = async {
            happen(&self.world, self.plan, life, &root).await;
            std::future::pending::<()>().await;
        };
        // Whoever was answered hears it before the power is gone.
        let (end, mut broken) = tokio::select! { biased;
            broken = work.run() => (End::Over, broken),
            () = killed => (End::Killed, Vec::new()),
            () = world => (End::Over, Vec::new()),
            () = watched => (End::Over, Vec::new()),
            () = store.crashed() => (End::Power, Vec::new()),
        };
        broken.extend(seen);
        self.story = story;
        (end, broken)
    }

    fn settings(&self, life: u8) -> Settings {
        let mut settings = Settings::default();
        settings.planner.runtime_id = RuntimeId::new(RUNTIMES[0]);
        settings.agents.stall_secs = 100;
        settings.resources.max_active_processes = 5;
        settings.resources.max_verifications = 2;
        settings.approvals.default = Unmatched::Deny;
        settings.approvals.timeout_secs = 60;
        for choice in self.plan.choices() {
            let Choice::Setting(of, setting) = choice else { continue };
            if *of != life {
                continue;
            }
            match setting {
                Setting::RestoreNothing => settings.agents.restore_on_open = false,
                Setting::ApproveUnverified => settings.approvals.approve_unverified = true,
                Setting::AllowTools => settings.approvals.rules.push(Rule {
                    id: "all".to_owned(),
                    tool: "*".to_owned(),
                    input: None,
                    agent: None,
                    decide: Decide::Allow,
                }),
                Setting::AskPeople => settings.approvals.default = Unmatched::Ask,
                // Only a life that ends may wait for a person who never comes.
                Setting::WaitForPeople if life != LAST => settings.approvals.timeout_secs = 0,
                Setting::WaitForPeople => {}
                Setting::Processes(max) => settings.resources.max_active_processes = *max,
                Setting::Verifications(max) => settings.resources.max_verifications = *max,
                Setting::CloseTakes(_) | Setting::StopAtOnce => {}
            }
        }
        settings
    }

    fn no_earlier_session_lives(&mut self, before: &BTreeSet<SessionId>) {
        let processes = self.world.processes();
        let old: Vec<_> = before.iter().filter(|id| processes.contains(id.as_str())).collect();
        if !old.is_empty() {
            let what = format!("sessions of an earlier life live: {old:?}");
            self.broken.push(Broken::new(Promise::NothingIsLeftBehind, what));
        }
    }

    /// A core may fail to open only because of the disk.
    fn not_opened(&mut self, error: &Error) -> End {
        self.told.borrow_mut().log.push(format!("not opened: {}", error.code()));
        if !matches!(error.code(), Code::StoreDiskFull | Code::StoreFailed) {
            let what = format!("the core did not open: {error:?}");
            self.broken.push(Broken::new(Promise::AnswersAreDeclared, what));
        }
        // Whatever it had begun, nobody ends it now.
        End::Killed
    }

    /// A core fails with its store and for no other reason, and no write panics.
    fn core_failed_with_its_store(&mut self, cortex: &Cortex, store: &Store) {
        let failed = store.failed();
        let panicked = failed.as_ref().is_some_and(|why| why.message().contains("panicked"));
        if panicked || (cortex.state() == CoreState::Failed && failed.is_none()) {
            let what = format!("the core failed: {failed:?}");
            self.broken.push(Broken::new(Promise::AnswersAreDeclared, what));
        }
    }

    fn store(&self) -> Store {
        let env: Arc<dyn Env> = Arc::new(SimEnv::new(1, Timestamp::from_millis(EPOCH)));
        let options = StoreOptions { env, events_kept: EVENTS_KEPT };
        Store::open_inline(&self.path(), options, Arc::new(NoFaults)).unwrap()
    }

    /// Looks at the disk between two lives.
    fn check_disk(&mut self) {
        let told = self.told.borrow();
        self.broken.extend(told.broken.iter().cloned());
        self.broken.extend(promises::disowned_worktrees_stay(&self.world, &told));
        self.broken.extend(promises::of_world(&self.world, &acts::roots(), &told.delivered));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let found = runtime.block_on(async {
            let store = self.store();
            let found = store.read(|tx| {
                let mut found = promises::on_disk(&self.path(), tx, &told)?;
                found.extend(promises::answers_agree(tx, &self.world)?);
                Ok(found)
            });
            store.close().await.unwrap();
            found
        });
        self.broken.extend(found.unwrap());
        self.broken.extend(Watch::new(&self.path()).look(&self.world, &mut self.story));
    }

    /// Everything that can be seen of a run.
    fn log(&self) -> Vec<String> {
        let asked = self.world.asked().into_iter().map(|asked| match asked {
            Asked::Open(spec) => format!("open {} {:?}", spec.session_id, spec.resume),
            other => format!("{other:?}"),
        });
        self.told.borrow().log.iter().cloned().chain(asked).chain(self.story.lines()).collect()
    }
}

/// What happens in one life, up to its orderly end.
struct Work<'a> {
    cortex: &'a Cortex,
    store: &'a Store,
    sim: &'a Sim<'a>,
    life: u8,
}

impl Work<'_> {
    fn hand(&self, name: u8, dice: Dice) -> Hand {
        Hand::new((self.cortex, self.store), &self.sim.world, &self.sim.told, name, dice)
    }

    /// Returns what was broken.
    async fn run(&self) -> Vec<Broken> {
        let first = self.hand(0, self.sim.dice(self.life, 1));
        acts::set_up(&first).await;
        join_all((1..=9).map(|caller| self.steps(caller))).await;
        let mut broken = Vec::new();
        if let Ok(list) = self.cortex.as_user().call(ListTasks {}).await {
            broken.extend(promises::waits_have_reasons(&list.objectives));
        }
        if self.life == LAST && self.cortex.state() == CoreState::Ready {
            self.sim.world.restore_folder(&acts::root());
            acts::start_all(&first).await;
            acts::resume_all(&first).await;
            tokio::time::sleep(SOON).await;
            acts::integrate_all(&first).await;
            broken.extend(self.rest().await);
        }
        broken.extend(self.stop().await);
        broken
    }

    /// What one caller does, one after the other.
    async fn steps(&self, name: u8) {
        for choice in self.sim.plan.choices() {
            if let Choice::Step { life, caller, after, act, dice } = choice
                && (*life, *caller) == (self.life, name)
            {
                tokio::time::sleep(*after).await;
                act.run(&self.hand(name, Dice::new(*dice))).await;
            }
        }
    }

    /// Waits until nothing moves by itself any more.
    async fn rest(&self) -> Vec<Broken> {
        let cx = self.cortex.as_user();
        tokio::time::sleep(QUIET).await;
        let mut broken = Vec::new();
        let mut restless = |what| broken.push(Broken::new(Promise::NothingWaitsForEver, what));
        let list = cx.call(ListTasks {}).await;
        if let Err(error) = &list {
            restless(format!("nobody can look: {error:?}"));
        }
        let seen = self.cortex.newest_event().unwrap();
        tokio::time::sleep(QUIET).await;
        if self.cortex.newest_event().unwrap() != seen {
            restless("something still moves after a quiet time".to_owned());
        }
        // Isolated attempts need a session beside those of the agents: a person makes room for them.
        let max = self.sim.settings(self.life).resources.max_active_processes;
        let full = self.sim.world.processes().len() >= usize::try_from(max).unwrap();
        broken.extend(
            list.iter().flat_map(|list| promises::everything_rests(&list.objectives, full)),
        );
        let world = &self.sim.world;
        broken.extend(self.store.read(|tx| promises::agents_have_sessions(tx, world)).unwrap());
        let conn = rusqlite::Connection::open(self.sim.path()).unwrap();
        broken.extend(promises::messages_expire(&conn));
        broken.extend(promises::worktrees_have_rows(&conn, world, &self.sim.told.borrow()));
        drop(conn);
        let agents = self.store.read(|tx| tx.agents(None)).unwrap();
        if let Some(agent) = agents.into_iter().next() {
            let stopped = cx.call(StopAgent { agent_id: agent.id }).await;
            let what = stopped.err().map(|error| format!("nobody can stop it: {error:?}"));
            broken.extend(what.map(|what| Broken::new(Promise::NothingWaitsForEver, what)));
        }
        broken
    }

    /// Ends the core, in order or at once: nothing of it lives on.
    async fn stop(&self) -> Vec<Broken> {
        let mut broken = Vec::new();
        let at_once = self.sim.plan.choices().any(|choice| {
            matches!(choice, Choice::Setting(life, Setting::StopAtOnce) if *life == self.life)
        });
        let stopped = if at_once {
            self.cortex.shutdown_at_once().await
        } else {
            self.cortex.shutdown().await
        };
        if let Err(error) = stopped
            && !matches!(error.code(), Code::StoreFailed | Code::StoreDiskFull)
        {
            let what = format!("the core did not stop: {error:?}");
            broken.push(Broken::new(Promise::AnswersAreDeclared, what));
        }
        let mut left = |what| broken.push(Broken::new(Promise::NothingIsLeftBehind, what));
        let processes = self.sim.world.processes();
        if !processes.is_empty() {
            left(format!("after the end these live: {processes:?}"));
        }
        let scratch = self.sim.world.scratch();
        if self.life == LAST && !scratch.is_empty() {
            left(format!("after the end these folders are left: {scratch:?}"));
        }
        broken
    }
}
