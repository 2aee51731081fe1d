//! Plans that wait for a person: who wins a race, what a crash leaves, and how many are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cortex_lib::Cortex;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{ListProposals, ListTasks};
use cortex_lib::domain::proposal::{ProposalState, ProposalStatus};
use cortex_lib::env::SystemEnv;
use cortex_lib::error::{Code, Kind};
use cortex_lib::port::{ScriptedHost, ScriptedWorld};
use cortex_lib::store::{DataDir, Fate, Faults, Store, StoreOptions};
use serde_json::json;

use crate::bench::{Setup, pass, secs};
use crate::lives::life;
use crate::proposals::{
    another_project, approve, edit, list, new_proposal, plan, propose, refused, reject, see,
    try_propose,
};

/// S-117, S-121
#[tokio::test(start_paused = true)]
async fn of_racing_decisions_the_first_commit_wins() {
    let bench = Setup::new().open().await;
    for order in 0..3 {
        let id = propose(&bench, "p").await;
        let before = bench.call(ListTasks {}).await.objectives.len();
        let (edits, approves, rejects) = (
            bench.cx.call(edit(&id, plan("q"))),
            bench.cx.call(approve(&id)),
            bench.cx.call(reject(&id)),
        );
        // Polled in another order each time, so that each of them is the first once.
        let (edited, approved, rejected) = match order {
            0 => tokio::join!(biased; edits, approves, rejects),
            1 => {
                let (approved, rejected, edited) = tokio::join!(biased; approves, rejects, edits);
                (edited, approved, rejected)
            }
            _ => {
                let (rejected, edited, approved) = tokio::join!(biased; rejects, edits, approves);
                (edited, approved, rejected)
            }
        };
        let won = [edited.is_ok(), approved.is_ok(), rejected.is_ok()];
        assert_eq!(won, [order == 0, order == 1, order == 2]);
        let lost = if order == 0 { Code::ProposalSuperseded } else { Code::ProposalAlreadyDecided };
        let errors = [edited.err(), approved.err(), rejected.err()];
        assert!(errors.iter().flatten().all(|error| error.code() == lost), "{errors:?}");
        let made = bench.call(ListTasks {}).await.objectives.len() - before;
        assert_eq!(made, usize::from(order == 1));
    }
}

/// S-117, S-121
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "each caller is a task of its own")]
async fn of_many_callers_on_many_threads_one_decides() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataDir::open(dir.path().join("data")).unwrap();
    let env = Arc::new(SystemEnv::new());
    let store = Store::open(&data, StoreOptions { env, events_kept: 1_000 }).unwrap();
    let host = Arc::new(ScriptedHost::new(&ScriptedWorld::new()));
    let builder = Cortex::builder(dir.path().join("data"));
    let cortex = builder.open_on(store.clone(), host).await.unwrap();
    let add = AddProject { name: "p".into(), root: dir.path().to_owned(), verification: None };
    let project = cortex.as_user().call(add).await.unwrap().project.project_id;
    for round in 0..10 {
        let new = new_proposal(&project, plan("p"));
        let id = store.write(move |tx| tx.propose(new)).await.unwrap().id;
        let calls: Vec<_> = (0..12)
            .map(|caller| {
                let (cx, id) = (cortex.as_user(), id.clone());
                tokio::spawn(async move {
                    match caller % 3 {
                        0 => cx.call(approve(&id)).await.map(drop),
                        1 => cx.call(edit(&id, plan("q"))).await.map(drop),
                        _ => cx.call(reject(&id)).await.map(drop),
                    }
                })
            })
            .collect();
        let mut won = 0;
        for call in calls {
            match call.await.unwrap() {
                Ok(()) => won += 1,
                Err(error) => assert!(
                    [Code::ProposalSuperseded, Code::ProposalAlreadyDecided]
                        .contains(&error.code()),
                    "{error}"
                ),
            }
        }
        assert_eq!(won, 1, "round {round}");
        let (proposal, objectives) =
            store.read(|tx| Ok((tx.proposal(&id)?, tx.objectives(None, 1_000)?))).unwrap();
        let made =
            objectives.iter().filter(|objective| objective.proposal_id.as_ref() == Some(&id));
        let approved = matches!(proposal.state, ProposalState::Approved { .. });
        assert_eq!(made.count(), usize::from(approved), "round {round}");
    }
    cortex.shutdown().await.unwrap();
}

/// A disk that fails once, when it is told to.
#[derive(Debug)]
struct Once {
    armed: AtomicBool,
    fate: Fate,
}

impl Faults for Once {
    fn at_commit(&self) -> Fate {
        if self.armed.swap(false, Ordering::Relaxed) { self.fate } else { Fate::Commit }
    }
}

/// S-121, S-124: an approval and its objective are on disk together or not at all.
#[test]
fn a_crash_during_an_approval_leaves_both_or_neither() {
    for (fate, kept) in [(Fate::LoseBefore, false), (Fate::LoseAfter, true)] {
        let mut setup = Setup::new();
        let once = Arc::new(Once { armed: false.into(), fate });
        setup.faults = once.clone();
        let (project, id) = life(async {
            let bench = setup.open().await;
            let id = propose(&bench, "p").await;
            once.armed.store(true, Ordering::Relaxed);
            tokio::select! { biased;
                _ = bench.cx.call(approve(&id)) => panic!("it did not crash"),
                () = pass(secs(1)) => {}
            }
            setup.world.lose_core();
            (bench.project.clone(), id)
        });
        life(async {
            let bench = setup.reopen(&project).await;
            let (proposal, objectives) = (see(&bench, &id).await, bench.call(ListTasks {}).await);
            let made: Vec<_> = objectives.objectives.into_iter().map(|o| o.objective_id).collect();
            let named = proposal.resolution.and_then(|resolution| resolution.objective_id);
            assert_eq!(named.into_iter().collect::<Vec<_>>(), made, "{fate:?}");
            assert_eq!(made.len(), usize::from(kept), "{fate:?}");
            if !kept {
                bench.call(approve(&id)).await;
            }
            let again = refused(&bench, approve(&id)).await;
            assert_eq!(again.code(), Code::ProposalAlreadyDecided, "{fate:?}");
            assert_eq!(bench.call(ListTasks {}).await.objectives.len(), 1, "{fate:?}");
        });
    }
}

/// S-123
#[tokio::test(start_paused = true)]
async fn a_full_disk_leaves_the_proposal_pending() {
    let mut setup = Setup::new();
    let once = Arc::new(Once { armed: false.into(), fate: Fate::DiskFull });
    setup.faults = once.clone();
    let bench = setup.open().await;
    let id = propose(&bench, "p").await;
    once.armed.store(true, Ordering::Relaxed);
    let error = bench.cx.call(approve(&id)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreDiskFull);
    assert_eq!(see(&bench, &id).await.state, ProposalStatus::Pending);
    assert_eq!(bench.call(ListTasks {}).await.objectives, []);
    bench.call(approve(&id)).await;
}

/// S-107, S-114, S-124: a plan outlives the core, and so does what was decided.
#[tokio::test(start_paused = true)]
async fn proposals_are_there_after_a_restart() {
    let mut setup = Setup::new();
    let bench = setup.open().await;
    let first = propose(&bench, "p").await;
    let second = bench.call(edit(&first, plan("q"))).await.proposal.proposal_id;
    let third = propose(&bench, "r").await;
    let objective = bench.call(approve(&third)).await.objective.objective_id;
    let before = list(&bench).await;
    let project = bench.project.clone();
    bench.cortex.shutdown().await.unwrap();
    drop(bench);
    let bench = setup.reopen(&project).await;
    assert_eq!(list(&bench).await, before);
    assert_eq!(bench.refuse(approve(&third)).await.detail("objective_id"), Some(&json!(objective)));
    bench.call(approve(&second)).await;
    assert_eq!(bench.call(ListTasks {}).await.objectives.len(), 2);
}

/// S-111, H-44
#[tokio::test(start_paused = true)]
async fn twenty_proposals_wait_and_not_one_more() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let other = another_project(&bench).await;
    for n in 0..19 {
        propose(&bench, &format!("p{n}")).await;
    }
    bench.store.read(|tx| tx.check_room_for_proposal()).unwrap();
    // Two turns of the planner end at once: the room is looked at when a plan is written, too.
    let both = ["a", "b"].map(|title| new_proposal(&other, plan(title)));
    let [first, second] = both.map(|new| try_propose(&bench, new));
    let (first, second) = tokio::join!(first, second);
    let last = first.unwrap();
    let error = second.unwrap_err();
    assert_eq!(
        (error.code(), error.code().kind()),
        (Code::ProposalTooManyPending, Kind::StateConflict)
    );
    let early = bench.store.read(|tx| tx.check_room_for_proposal()).unwrap_err();
    assert_eq!(early.code(), Code::ProposalTooManyPending, "before a turn is spent");

    let edited = bench.call(edit(&last.id, plan("b"))).await.proposal;
    assert_eq!(list(&bench).await.len(), 21, "an edit takes no more room");
    bench.call(reject(&edited.proposal_id)).await;
    propose(&bench, "c").await;
}

/// S-113, S-114
#[tokio::test(start_paused = true)]
async fn the_newest_200_decided_are_kept_with_their_history() {
    let bench = Setup::new().open().await;
    // It came first, and it waits while all others are decided.
    let waits = propose(&bench, "waits").await;
    let first = propose(&bench, "first").await;
    let last = bench.call(edit(&first, plan("edited"))).await.proposal.proposal_id;
    bench.call(reject(&last)).await;
    for n in 0..199 {
        let id = propose(&bench, &format!("p{n}")).await;
        bench.call(reject(&id)).await;
    }
    assert_eq!(list(&bench).await.len(), 1 + 1 + 200, "a superseded revision does not count");
    assert_eq!(see(&bench, &first).await.plan.title, "first");

    let approved = propose(&bench, "one more").await;
    let objective = bench.call(approve(&approved)).await.objective;
    let kept: Vec<_> = list(&bench).await.into_iter().map(|p| p.proposal_id).collect();
    assert_eq!(kept.len(), 1 + 200);
    assert!(!kept.contains(&first) && !kept.contains(&last), "they go together");
    assert!(kept.contains(&waits) && kept.contains(&approved));
    assert_eq!(refused(&bench, approve(&last)).await.code(), Code::ProposalNotFound);

    let oldest =
        bench.call(ListProposals { project_id: None, state: Some(ProposalStatus::Rejected) });
    let oldest = oldest.await.proposals.remove(0);
    assert_eq!(oldest.plan.title, "p0", "the oldest decided one goes first");
    for n in 0..200 {
        let id = propose(&bench, &format!("q{n}")).await;
        bench.call(reject(&id)).await;
    }
    let objectives = bench.call(ListTasks {}).await.objectives;
    assert_eq!(objectives[0].objective_id, objective.objective_id);
    let source = objectives[0].source.as_ref().unwrap();
    assert_eq!(source.proposal_id, approved, "it names its proposal, which is gone");
}
