//! The scripted runtime of the core's tests: what stands for a driver there must behave like one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cortex_lib::domain::attempt::Cause;
use cortex_lib::domain::capability::Capability;
use cortex_lib::domain::usage::Usage;
use cortex_lib::env::{Env as _, SystemEnv};
use cortex_lib::error::{Code, Error};
use cortex_lib::ids::SessionId;
use cortex_lib::port::{
    Asked, Opening, OutputKind, Runtime, Script, ScriptedRuntime, ScriptedWorld, SessionEvent,
    SessionFacts, SessionSpec, Turn, TurnEnd, TurnOutcome,
};
use cortex_runtimes::conformance::{
    Ability, Act, Fault, Heard, Scenario, Stage, Subject, marked_word,
};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

/// The subject.
pub(crate) struct Scripted;

#[async_trait]
impl Subject for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn abilities(&self) -> BTreeSet<Ability> {
        // Its processes are entries of its world, and its service is its script.
        BTreeSet::from([Ability::Memory, Ability::Instructions, Ability::Service, Ability::Program])
    }

    async fn stage(&self, scenario: &Scenario) -> Result<Box<dyn Stage>, String> {
        stage(scenario, |runtime| Arc::new(runtime))
    }
}

/// A place with a runtime that follows the scenario, and what is made of it.
pub(crate) fn stage(
    scenario: &Scenario,
    make: impl FnOnce(ScriptedRuntime) -> Arc<dyn Runtime>,
) -> Result<Box<dyn Stage>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let world = ScriptedWorld::new();
    let agent = Agent { scenario: scenario.clone(), world: world.clone(), held: Arc::default() };
    let (opening, turns) = (agent.clone(), agent.clone());
    let runtime = ScriptedRuntime::new("scripted")
        .in_world(&world)
        .capabilities(CAPABILITIES)
        .opening(move |spec| opening.opens(spec))
        .turn(move |turn| turns.plays(turn));
    Ok(Box::new(World { folder, runtime: make(runtime), agent }))
}

/// What it does here. In the tests of the core it may stand for a driver that can do more.
const CAPABILITIES: [Capability; 5] = [
    Capability::StructuredSession,
    Capability::Interrupt,
    Capability::Resume,
    Capability::ModelSelection,
    Capability::UsageReporting,
];

const USAGE: Usage =
    Usage { input_tokens: Some(12), output_tokens: Some(7), cached_tokens: None, cost_usd: None };

/// What its program takes to start, so that somebody can give it up before.
const STARTS: Duration = Duration::from_millis(20);

struct World {
    folder: TempDir,
    runtime: Arc<dyn Runtime>,
    agent: Agent,
}

#[async_trait]
impl Stage for World {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.runtime)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn open_gate(&self, gate: &str) {
        let held: Vec<_> =
            self.agent.held.lock().unwrap().extract_if(.., |held| held.gate == gate).collect();
        for Held { turn, first, rest, .. } in held {
            let world = self.agent.world.clone();
            drop(TaskTracker::new().spawn(async move {
                let session = session_of(&world, &turn);
                let (turn_id, kind) = (turn.id, OutputKind::Text);
                let output = SessionEvent::Output {
                    turn_id: Some(turn_id.clone()),
                    kind,
                    text: rest.clone(),
                };
                world.emit(&session, output).await;
                let outcome = TurnOutcome::Succeeded { text: format!("{first}\n{rest}") };
                world
                    .emit(
                        &session,
                        SessionEvent::TurnEnded(TurnEnd { turn_id, outcome, usage: USAGE }),
                    )
                    .await;
            }));
        }
    }

    fn heard(&self) -> Option<Vec<Heard>> {
        let world = &self.agent.world;
        let heard = world.turns().into_iter().map(|turn| {
            let session = session_of(world, &turn);
            let opening = world.openings().into_iter().find(|spec| spec.session_id == session);
            let model = opening.and_then(|spec| spec.model).unwrap_or_default();
            Heard { model, texts: self.agent.texts(&turn) }
        });
        Some(heard.collect())
    }

    fn models(&self) -> Vec<String> {
        vec!["small".to_owned(), "large".to_owned()]
    }

    fn alive(&self, session: &SessionId) -> Vec<String> {
        let all = self.agent.world.processes().into_iter();
        all.filter(|marker| marker == session.as_str()).collect()
    }

    async fn kill(&self, session: &SessionId, _: &SessionFacts) -> Result<(), String> {
        self.agent.world.kill(session, "killed").await;
        Ok(())
    }
}

/// What the scripts follow.
#[derive(Clone)]
struct Agent {
    scenario: Scenario,
    world: ScriptedWorld,
    held: Arc<Mutex<Vec<Held>>>,
}

/// A turn that waits for a gate.
struct Held {
    gate: String,
    turn: Turn,
    first: String,
    rest: String,
}

impl Agent {
    fn opens(&self, spec: &SessionSpec) -> Opening {
        let fail = |error| Opening::Fail(Duration::ZERO, error);
        if !spec.cwd.is_dir() {
            return fail(Error::new(Code::ProjectInvalidRoot, "the folder is not there"));
        }
        let others =
            self.world.openings().into_iter().filter(|other| other.session_id != spec.session_id);
        let known: BTreeSet<_> = others.map(|other| native(&other)).collect();
        match &spec.resume {
            Some(native) if !known.contains(native) => fail(
                Error::new(Code::RuntimeStartFailed, "nobody knows the session")
                    .with("resume_unknown", true),
            ),
            _ => Opening::After(STARTS),
        }
    }

    fn plays(&self, turn: &Turn) -> Script {
        let script = Script::new().usage(USAGE);
        if self.scenario.unreachable {
            return script.fail(Cause::Transient, "nobody answers");
        }
        let acts = self.scenario.reply(&turn.instruction).map(|reply| reply.acts.as_slice());
        match acts {
            Some([Act::Say(text)]) => text.lines().fold(script, Script::say).answer(text),
            Some([Act::SayLong(count)]) => script.answer("x".repeat(*count)),
            Some([Act::SayWord]) => {
                let texts = self.texts(turn);
                let word =
                    texts.iter().rev().find_map(|text| marked_word(text)).unwrap_or("nothing");
                script.say(word).answer(word)
            }
            Some([Act::SayInTwo { first, rest, gate }]) => {
                let (gate, turn) = (gate.clone(), turn.clone());
                self.held.lock().unwrap().push(Held {
                    gate,
                    turn,
                    first: first.clone(),
                    rest: rest.clone(),
                });
                script.say(first)
            }
            Some([Act::Wait { .. }, ..]) => script,
            Some([Act::Fail(fault)]) => fail(script, *fault),
            other => script.fail(Cause::Error, format!("no script for {other:?}")),
        }
    }

    /// What the conversation of a turn knows, the turn last.
    fn texts(&self, turn: &Turn) -> Vec<String> {
        let openings = self.world.openings();
        let spec = |id: &SessionId| openings.iter().find(|spec| spec.session_id == *id).unwrap();
        let own = spec(&session_of(&self.world, turn));
        let mut texts: Vec<_> = own.instructions.iter().cloned().collect();
        for asked in self.world.asked() {
            if let Asked::Turn(session, said) = asked
                && native(spec(&session)) == native(own)
            {
                texts.push(said.instruction);
                if said.id == turn.id {
                    break;
                }
            }
        }
        texts
    }
}

fn fail(script: Script, fault: Fault) -> Script {
    match fault {
        Fault::LoginRefused | Fault::RequestRefused => script.fail(Cause::Refused, "refused"),
        Fault::RateLimited(secs) => {
            script.rate_limited(Some(SystemEnv::new().now().after(Duration::from_secs(secs))))
        }
        _ => script.fail(Cause::Transient, "it may pass"),
    }
}

/// The native name of the session that this opened.
fn native(spec: &SessionSpec) -> String {
    spec.resume.clone().unwrap_or_else(|| format!("native-{}", spec.session_id))
}

fn session_of(world: &ScriptedWorld, turn: &Turn) -> SessionId {
    let session = |asked| match asked {
        Asked::Turn(session, said) if said.id == turn.id => Some(session),
        _ => None,
    };
    world.asked().into_iter().find_map(session).unwrap()
}
