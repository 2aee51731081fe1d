//! Between two lives: what the core asked of the world.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cortex_lib::port::{Asked, ScriptedWorld};

use super::{Broken, Promise};
use crate::sim::world::strangers;

/// All rules about the world. `roots`: the folders of projects.
pub fn of_world(world: &ScriptedWorld, roots: &[PathBuf]) -> Vec<Broken> {
    let asked = world.asked();
    let mut broken = nothing_is_sent_twice(&asked);
    broken.extend(no_turns_overlap(world));
    broken.extend(strangers_are_left_alone(world));
    broken.extend(work_stays_in_projects(&asked, roots));
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
