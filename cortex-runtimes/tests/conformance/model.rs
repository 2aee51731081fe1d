//! A scripted model that plays a scenario, with the tools of the CLI that asks it.

use std::time::Duration;

use cortex_lib::env::{Env as _, SystemEnv};
use cortex_runtimes::conformance::{Act, Fault, Heard, Scenario};
use cortex_scripted::{Answer, Script, ScriptedServer, When};
use serde_json::Value;

/// The tools of one CLI.
pub(crate) trait Tools {
    /// The calls by which its agent does this: one, or every way there is to try it. Each is a tool and its arguments.
    fn calls(&self, act: &Act) -> Vec<(String, Value)>;

    /// The events of its model's API up to the first piece of text, this included.
    fn events_to_first_text(&self) -> usize;
}

/// The script of a model that does what the scenario says.
pub(crate) fn script(scenario: &Scenario, tools: &dyn Tools) -> Script {
    let mut script = Script::new();
    for reply in &scenario.replies {
        let mut results = 0;
        for act in &reply.acts {
            let mut when = When::during(&reply.cue, results);
            if matches!(act, Act::SayWord) {
                when = when.take("word", "«", "»");
            }
            let calls = tools.calls(act);
            results += calls.len();
            script = script.on(when, answer(act, calls, tools));
        }
    }
    // What a CLI asks its model beside the turns, such as a title, and what an agent below ours asks.
    script.otherwise(Answer::text("fine"))
}

fn answer(act: &Act, calls: Vec<(String, Value)>, tools: &dyn Tools) -> Answer {
    match act {
        Act::Say(text) => Answer::text(text),
        Act::SayInTwo { first, rest, gate } => {
            Answer::text(format!("{first}\n{rest}")).hang_after(tools.events_to_first_text(), gate)
        }
        Act::SayLong(count) => Answer::text("x".repeat(*count)),
        Act::SayWord => Answer::text("{{word}}"),
        Act::Wait { gate } => Answer::text("x").silent_until(gate),
        Act::Fail(fault) => fail(*fault, tools),
        Act::Run(_)
        | Act::Write { .. }
        | Act::Read(_)
        | Act::Ask { .. }
        | Act::Call(_)
        | Act::Try(_) => calls
            .into_iter()
            .fold(Answer::default(), |answer, (name, input)| answer.and_tool(name, input)),
        other => panic!("no model can play {other:?} yet"),
    }
}

fn fail(fault: Fault, tools: &dyn Tools) -> Answer {
    match fault {
        Fault::LoginRefused => Answer::status(401),
        Fault::RequestRefused => Answer::status(400),
        Fault::RateLimited(secs) => {
            let resets = SystemEnv::new().now().after(Duration::from_secs(secs));
            Answer::used_up(u64::try_from(resets.as_millis() / 1_000).unwrap())
        }
        Fault::Overloaded => Answer::status(503),
        Fault::Broken => Answer::status(500),
        Fault::Cut => Answer::text("some words").cut_after(tools.events_to_first_text()),
        other => panic!("no model can play {other:?} yet"),
    }
}

/// What the model was sent so far.
pub(crate) fn heard(server: &ScriptedServer) -> Vec<Heard> {
    let heard = server.requests().into_iter().map(|request| {
        let texts = request.texts.into_iter().map(|one| one.text);
        Heard { model: request.model, texts: [request.system].into_iter().chain(texts).collect() }
    });
    heard.collect()
}
