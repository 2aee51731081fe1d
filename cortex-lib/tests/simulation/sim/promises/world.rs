//! Between two lives: what the core asked of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cortex_lib::port::{Asked, ScriptedWorld};

use super::{Broken, Promise};
use crate::sim::world::strangers;

/// All rules about the world. `roots`: the folders of projects; `delivered`: what callers were told that agents heard.
pub fn of_world(
    world: &ScriptedWorld,
    roots: &[PathBuf],
    delivered: &BTreeSet<String>,
) -> Vec<Broken> {
    let asked = world.asked();
    let mut broken = nothing_is_sent_twice(&asked);
    broken.extend(no_turns_overlap(world));
    broken.extend(strangers_are_left_alone(world));
    broken.extend(work_stays_in_projects(&asked, roots));
    broken.extend(what_is_delivered_is_said(&asked, delivered));
    broken.extend(credentials_are_their_own(&asked));
    broken
}

/// A message that is delivered was said to its agent: as a turn, or to one that ran. Never as two turns.
fn what_is_delivered_is_said(asked: &[Asked], delivered: &BTreeSet<String>) -> Vec<Broken> {
    // What follows is the line that counts the inbox.
    let words = |text: &str| format!("{}.", text.split('.').next().unwrap_or_default());
    let (mut turns, mut said, mut broken) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for asked in asked {
        match asked {
            Asked::Turn(_, turn) if turn.instruction.starts_with("hello") => {
                let words = words(&turn.instruction);
                if !turns.insert(words.clone()) {
                    let what = format!("{words:?} was said in two turns");
                    broken.push(Broken::new(Promise::NothingRunsTwice, what));
                }
            }
            Asked::Steer(_, _, text) => drop(said.insert(words(text))),
            _ => {}
        }
    }
    said.extend(turns);
    let lost = delivered.difference(&said);
    broken.extend(lost.map(|words| {
        Broken::new(Promise::NothingIsLost, format!("{words:?} was delivered and never said"))
    }));
    broken
}

/// Every session of an agent has a credential that no other one ever had, and the planner's has none.
fn credentials_are_their_own(asked: &[Asked]) -> Vec<Broken> {
    let (mut owners, mut broken) = (BTreeMap::new(), Vec::new());
    for asked in asked {
        let Asked::Open(spec) = asked else { continue };
        let token = spec.mcp.as_ref().map(|mcp| mcp.token.expose().to_owned());
        let owner = token
            .clone()
            .map(|token| owners.entry(token).or_insert_with(|| spec.session_id.clone()).clone());
        if token.is_some() != spec.agent_id.is_some()
            || owner.is_some_and(|owner| owner != spec.session_id)
        {
            let what = format!("session {} has no credential of its own", spec.session_id);
            broken.push(Broken::new(Promise::AnswersAreDeclared, what));
        }
    }
    broken
}

fn nothing_is_sent_twice(asked: &[Asked]) -> Vec<Broken> {
    let (mut turns, mut attempts, mut sessions) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut broken = Vec::new();
    let mut twice = |what| broken.push(Broken::new(Promise::NothingRunsTwice, what));
    for asked in asked {
        match asked {
            Asked::Turn(_, turn) => {
                if turn.attempt_id.clone().is_some_and(|attempt| !attempts.insert(attempt)) {
                    twice(format!("attempt {:?} was sent twice", turn.attempt_id));
                }
                if !turns.insert(turn.id.clone()) {
                    twice(format!("turn {} was sent twice", turn.id));
                }
            }
            // A session that could not be resumed is begun anew under its name.
            Asked::Open(spec)
                if !sessions.insert((spec.session_id.clone(), spec.resume.is_some())) =>
            {
                twice(format!("session {} was opened twice", spec.session_id));
            }
            _ => {}
        }
    }
    broken
}

fn no_turns_overlap(world: &ScriptedWorld) -> Option<Broken> {
    let overlaps = world.overlaps();
    (!overlaps.is_empty()).then(|| {
        let what = format!("turns {overlaps:?} were sent while another one ran");
        Broken::new(Promise::NothingRunsTwice, what)
    })
}

fn strangers_are_left_alone(world: &ScriptedWorld) -> Vec<Broken> {
    let left = world.strangers();
    let gone = strangers().into_iter().filter(|stranger| !left.contains(stranger));
    gone.map(|stranger| {
        let what = format!("{stranger:?}, which is not Cortex's, is gone");
        Broken::new(Promise::NothingOfOthersIsTouched, what)
    })
    .collect()
}

/// Sessions and verifications run in the folder of a project; what a session writes for itself has its own place.
fn work_stays_in_projects(asked: &[Asked], roots: &[PathBuf]) -> Vec<Broken> {
    let strays = asked.iter().filter_map(|asked| {
        let (id, cwd) = match asked {
            Asked::Open(spec) => {
                let own = Path::new("/scratch").join(spec.session_id.as_str());
                if spec.scratch != own {
                    return Some(format!(
                        "{} writes to {}",
                        spec.session_id,
                        spec.scratch.display()
                    ));
                }
                (spec.session_id.as_str(), &spec.cwd)
            }
            Asked::Verify(request) => (request.attempt_id.as_str(), &request.cwd),
            _ => return None,
        };
        let own = cwd.parent() == Some(Path::new("/worktrees"));
        (!own && !roots.contains(cwd)).then(|| format!("{id} works in {}", cwd.display()))
    });
    strays.map(|what| Broken::new(Promise::NothingOfOthersIsTouched, what)).collect()
}
