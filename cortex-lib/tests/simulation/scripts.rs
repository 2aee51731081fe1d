//! How the world behaves: agents, verifications and the disk, each by its own dice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::TurnId;
use cortex_lib::port::{
    Opening, Runtime, Script, ScriptedHost, ScriptedRuntime, ScriptedWorld, Verdict,
};
use cortex_lib::store::{Fate, Faults};
use serde_json::json;

use crate::dice::Dice;

/// The runtimes: one that can do everything, one that cannot interrupt a turn nor go on with a session.
pub const RUNTIMES: [&str; 2] = ["able", "plain"];

/// Commits of one life. More means that the core writes in circles.
const COMMITS_MAX: u64 = 20_000;

pub fn runtimes(world: &ScriptedWorld, dice: &Dice) -> Vec<Arc<dyn Runtime>> {
    RUNTIMES
        .iter()
        .map(|id| {
            let (turns, openings, told) = (dice.fork(), dice.fork(), world.clone());
            let runtime = ScriptedRuntime::new(*id)
                .in_world(world)
                .close_takes(dice.seconds(15))
                .opening(move |_| opening(&openings))
                .turn(move |_| script(&turns, &told));
            let runtime = match *id {
                "plain" => runtime.without(Capability::Interrupt).without(Capability::Resume),
                _ => runtime,
            };
            Arc::new(runtime) as Arc<dyn Runtime>
        })
        .collect()
}

fn opening(dice: &Dice) -> Opening {
    match dice.roll(20) {
        0 => Opening::Never,
        1 => Opening::Fail(dice.seconds(5), Error::new(Code::RuntimeStartFailed, "no start")),
        2 => Opening::Fail(Duration::ZERO, Error::new(Code::RuntimeNotLoggedIn, "no login")),
        3..6 => Opening::After(dice.seconds(70)),
        _ => Opening::AT_ONCE,
    }
}

/// One turn: mostly an answer after a while, else every way in which agents go wrong.
fn script(dice: &Dice, world: &ScriptedWorld) -> Script {
    let script = match dice.roll(8) {
        0 => Script::new().deaf(),
        1 => Script::new().interrupted_after(dice.seconds(40)),
        2 => Script::new().interrupt_fails(Error::new(Code::RuntimeProtocol, "what?")),
        _ => Script::new(),
    };
    let script = match dice.roll(12) {
        0 => script.accepted_after(dice.seconds(20)),
        1 => script.outlives_close(),
        2 => script.say("thinking"),
        3 => script.ask("Bash", json!({ "command": "ls" })),
        _ => script,
    };
    let script = script.wait(dice.seconds(60));
    match dice.roll(24) {
        0 => script,
        1 => script.never_accepted(),
        2 => script.refused(Error::new(Code::RuntimeRefused, "no")),
        3 => script.refused(Error::new(Code::RuntimeProtocol, "no")),
        4 => script.fail(Cause::Transient, "overloaded"),
        5 => script.fail(Cause::Error, "broken"),
        6 => script.fail(Cause::Refused, "log in"),
        7 => script.rate_limited(None),
        8 => script.crash("killed"),
        9 => script.let_go(),
        10 => script.answer("done").answer("done again"),
        11 => script.stop().wait(dice.seconds(30)).answer("late"),
        12 => script.answer("done").wait(dice.seconds(30)).crash("later"),
        13 => script.end_another(TurnId::new("made-up")).wait(dice.seconds(9)).answer("done"),
        14 => {
            let turns = world.turns();
            match dice.pick(&turns) {
                Some(other) => script.end_another(other.id.clone()),
                None => script,
            }
            .wait(dice.seconds(9))
            .answer("done")
        }
        15 => script.use_tool("a long build").wait(dice.seconds(400)).answer("done"),
        16 => script.fail(Cause::Transient, "first this").answer("then that"),
        _ => script.answer("done"),
    }
}

pub fn host(world: &ScriptedWorld, dice: &Dice) -> Arc<ScriptedHost> {
    let dice = dice.fork();
    let host = ScriptedHost::new(world).verify(move |_| match dice.roll(8) {
        0 => Verdict::Never,
        1 | 2 => Verdict::Fail(dice.seconds(20), "it does not hold".to_owned()),
        3 => Verdict::Unavailable(dice.seconds(5), "not there".to_owned()),
        _ => Verdict::Pass(dice.seconds(30)),
    });
    Arc::new(host)
}

/// The disk and the power.
#[derive(Debug)]
pub struct SimFaults {
    dice: Dice,
    fails: bool,
    commits: AtomicU64,
}

impl SimFaults {
    /// A disk and power that fail by the dice, or never.
    pub fn new(dice: Dice, fails: bool) -> Self {
        Self { dice, fails, commits: AtomicU64::new(0) }
    }

    /// Whether so much was written that it cannot be right.
    pub fn is_flooded(&self) -> bool {
        self.commits.load(Ordering::Relaxed) > COMMITS_MAX
    }
}

impl Faults for SimFaults {
    fn at_commit(&self) -> Fate {
        let nth = self.commits.fetch_add(1, Ordering::Relaxed);
        if self.is_flooded() {
            return Fate::LoseBefore;
        }
        if !self.fails {
            return Fate::Commit;
        }
        // What a start settles is worth more crashes than the rest.
        match self.dice.roll(if nth < 3 { 30 } else { 300 }) {
            0 | 1 => Fate::LoseBefore,
            2 | 3 => Fate::LoseAfter,
            4 => Fate::FailCommit,
            5 => Fate::FailButKeep,
            6..12 => Fate::DiskFull,
            _ => Fate::Commit,
        }
    }
}
