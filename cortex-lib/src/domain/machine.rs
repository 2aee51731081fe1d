//! The shape that every lifecycle has, and the walker that checks its laws.

use std::fmt::Debug;

/// An accepted input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<S> {
    /// Go to this state.
    To(S),
    /// Nothing changes, and that is fine.
    Stay,
}

/// A refused input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The state does not admit the input.
    WrongState,
    /// The input speaks of an attempt, turn or session that no longer counts.
    Stale,
}

/// A lifecycle: a total function from state and input to a step or a refusal.
pub trait Machine: Clone + Debug + Ord + Sized {
    /// What can happen to it.
    type Input: Clone + Debug;
    /// What the world owes it while it is in a state.
    type Duty: Clone + Debug + PartialEq;

    /// Decides what `input` does.
    ///
    /// # Errors
    ///
    /// A refusal: the row stays as it is, and the caller hears why.
    fn step(&self, input: Self::Input) -> Result<Step<Self>, Refusal>;

    /// What the world has to do as long as this is the stored state.
    fn owes(&self) -> Option<Self::Duty>;

    /// Whether it has ended for good.
    fn is_final(&self) -> bool;
}

/// What a walk over a machine saw.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Walk<M> {
    /// Every reachable state.
    pub(crate) states: std::collections::BTreeSet<M>,
    /// Steps that lead to another state.
    pub(crate) edges: usize,
    /// Inputs that were refused.
    pub(crate) refusals: usize,
}

/// Visits every state that `inputs` reach from `first` and shows each edge to `law`.
///
/// Checks what holds for every machine: nothing is owed to what has ended, nothing leaves a final
/// state, a step changes something, and a machine that `can_end` gets there from every state.
#[cfg(test)]
pub(crate) fn walk<M: Machine>(
    first: M,
    inputs: &[M::Input],
    can_end: bool,
    mut law: impl FnMut(&M, &M::Input, &M),
) -> Walk<M> {
    use std::collections::BTreeSet;

    fn ends<M: Machine>(state: &M, inputs: &[M::Input], passed: &mut BTreeSet<M>) -> bool {
        state.is_final()
            || passed.insert(state.clone())
                && inputs.iter().any(|input| match state.step(input.clone()) {
                    Ok(Step::To(next)) => ends(&next, inputs, passed),
                    Ok(Step::Stay) | Err(_) => false,
                })
    }

    let (mut states, mut frontier) = (BTreeSet::from([first.clone()]), vec![first]);
    let (mut edges, mut refusals) = (0, 0);
    while let Some(state) = frontier.pop() {
        assert!(
            !(state.is_final() && state.owes().is_some()),
            "{state:?} is over and still owed something"
        );
        for input in inputs {
            match state.step(input.clone()) {
                Err(_) => refusals += 1,
                Ok(Step::Stay) => {}
                Ok(Step::To(next)) => {
                    edges += 1;
                    assert!(!state.is_final(), "{input:?} leaves the final state {state:?}");
                    assert!(next != state, "{state:?} --{input:?}--> itself: say Stay");
                    law(&state, input, &next);
                    if states.insert(next.clone()) {
                        frontier.push(next);
                    }
                }
            }
        }
    }
    for state in states.iter().filter(|_| can_end) {
        assert!(ends(state, inputs, &mut BTreeSet::new()), "{state:?} can never end");
    }
    Walk { states, edges, refusals }
}
