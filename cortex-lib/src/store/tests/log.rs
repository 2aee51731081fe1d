//! The log of events: numbers, subscriptions, and what was pruned.

use proptest::prelude::*;

use super::*;
use crate::limits::{EVENT_LAG_MAX, EVENTS_PRUNED_AT_ONCE};

async fn emit(store: &Store, events: Vec<NewEvent>) {
    store.write(move |tx| events.into_iter().try_for_each(|event| tx.emit(event))).await.unwrap();
}

fn numbered(from: u64, to: u64) -> Vec<NewEvent> {
    (from..to).map(project_event).collect()
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is not general over the lifetime of the snapshot"
)]
fn newest(store: &Store) -> u64 {
    store.read(|tx| tx.newest_seq()).unwrap()
}

const FIRST: u64 = EPOCH.unsigned_abs() * 1000;

#[tokio::test]
async fn numbers_begin_with_the_time_of_the_first_open_and_never_come_twice() {
    let home = Home::new();
    let store = home.open();
    assert_eq!(newest(&store), FIRST - 1);
    emit(&store, numbered(0, 300)).await;
    assert_eq!(newest(&store), FIRST + 299);
    store.close().await.unwrap();

    // Opened earlier by the clock, with a log of one event.
    let options = StoreOptions { env: TestEnv::at(0), events_kept: 0 };
    let store = Store::open(&home.dir, options).unwrap();
    assert_eq!(newest(&store), FIRST + 299);
    for _ in 0..8 {
        emit(&store, numbered(0, 1)).await; // prunes all that is old
    }
    let kept = store.read(|tx| tx.events_after(None, 1000)).unwrap();
    assert_eq!(kept.last().unwrap().seq, FIRST + 307);
    assert!(kept.len() <= 1 + usize::try_from(EVENTS_PRUNED_AT_ONCE).unwrap());
    store.close().await.unwrap();
    assert_eq!(newest(&home.open()), FIRST + 307);
}

#[tokio::test]
async fn an_event_reads_as_the_reference_says() {
    let home = Home::new();
    let store = home.open();
    emit(&store, vec![event(EventKind::AgentCreated, "p1", Some("a1"), 1)]).await;
    let events = store.read(|tx| tx.events_after(None, 10)).unwrap();
    let wire = serde_json::to_value(&events[0]).unwrap();
    assert_eq!(
        wire,
        json!({
            "seq": FIRST, "type": "agent.created", "at": "2026-09-21T14:13:20.000Z",
            "agent_id": "a1", "project_id": "p1", "data": { "n": 1 },
        })
    );
    assert_eq!(serde_json::from_value::<Event>(wire).unwrap(), events[0]);
}

async fn hear(feed: &mut Feed, count: usize) -> Vec<u64> {
    let mut heard = Vec::new();
    while heard.len() < count {
        heard.push(feed.next().await.unwrap().unwrap().seq);
    }
    heard
}

#[tokio::test]
async fn a_slow_subscriber_misses_nothing_and_holds_nobody_up() {
    let home = Home::new();
    let store = home.open();
    emit(&store, numbered(0, 10)).await;
    let (mut slow, mut late) = (store.follow(None), store.follow(Some(FIRST + 4)));
    let lag = u64::try_from(EVENT_LAG_MAX).unwrap() + 500;
    let mut heard = hear(&mut slow, 15 - 5).await;
    emit(&store, numbered(10, 10 + lag)).await; // the live channel does not hold that many
    heard.extend(hear(&mut slow, 700).await);
    emit(&store, numbered(10 + lag, 12 + lag)).await;
    let total = usize::try_from(12 + lag).unwrap();
    let rest = total - heard.len();
    heard.extend(hear(&mut slow, rest).await);
    assert_eq!(heard, (FIRST..FIRST + 12 + lag).collect::<Vec<_>>());
    assert_eq!(hear(&mut late, total - 5).await, (FIRST + 5..FIRST + 12 + lag).collect::<Vec<_>>());

    // Caught up: the next one comes live.
    let waiting = tokio::spawn(async move { hear(&mut slow, 1).await });
    emit(&store, numbered(0, 1)).await;
    assert_eq!(waiting.await.unwrap(), [FIRST + 12 + lag]);
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_hear_every_event_in_order_while_many_write() {
    let home = Home::new();
    let store = home.open();
    let feeds: Vec<_> = (0..8)
        .map(|_| {
            let mut feed = store.follow(None);
            tokio::spawn(async move { hear(&mut feed, 800).await })
        })
        .collect();
    let writers: Vec<_> = (0..16)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    emit(&store, vec![project_event(n)]).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for feed in feeds {
        assert_eq!(feed.await.unwrap(), (FIRST..FIRST + 800).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_subscriber_learns_how_many_were_pruned_before_it_read_them() {
    let home = Home::new();
    let store = home.keep(100);
    let mut feed = store.follow(Some(FIRST - 1));
    let lag = u64::try_from(EVENT_LAG_MAX).unwrap();
    emit(&store, numbered(0, lag)).await;
    emit(&store, numbered(lag, lag + 500)).await;
    let first = hear(&mut feed, 1).await;
    assert_eq!(feed.lost(), first[0] - FIRST);
    assert!(feed.lost() > lag);
}

#[tokio::test]
async fn a_cursor_of_the_future_goes_on_with_what_comes() {
    let home = Home::new();
    let store = home.open();
    let mut feed = store.follow(Some(u64::MAX));
    let waiting = tokio::spawn(async move { hear(&mut feed, 1).await });
    tokio::task::yield_now().await;
    emit(&store, numbered(0, 1)).await;
    assert_eq!(waiting.await.unwrap(), [FIRST]);
    let all = AgentEventFilter::default();
    let page = store.read(|tx| tx.agent_events(&all, Some(u64::MAX), 10)).unwrap();
    assert_eq!(page, AgentEventPage { events: vec![], dropped: 0, next_after: FIRST });
}

#[tokio::test]
async fn a_subscription_ends_with_the_store() {
    let home = Home::new();
    let store = home.open();
    let mut feed = store.follow(None);
    let waiting = tokio::spawn(async move { feed.next().await });
    tokio::task::yield_now().await;
    store.close().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(None));
}

#[tokio::test]
async fn a_page_moves_the_cursor_to_the_last_event_that_was_looked_at() {
    let home = Home::new();
    let store = home.open();
    let created = |agent| event(EventKind::AgentCreated, "p1", Some(agent), 0);
    emit(&store, vec![created("a1"), created("a2"), created("a1"), project_event(0)]).await;
    let page = |agent: &str, after, limit| {
        let filter = AgentEventFilter {
            project_id: Some(ProjectId::new("p1")),
            agent_id: Some(AgentId::new(agent)),
        };
        let page = store.read(|tx| tx.agent_events(&filter, after, limit)).unwrap();
        (page.events.iter().map(|event| event.seq - FIRST).collect::<Vec<_>>(), page.next_after)
    };
    assert_eq!(page("a1", None, 1), (vec![0], FIRST)); // full: there may be more
    assert_eq!(page("a1", Some(FIRST), 9), (vec![2], FIRST + 3)); // all was looked at
    assert_eq!(page("a3", None, 9), (vec![], FIRST + 3));
}

/// What happens in the property: an event of some project, of some kind.
fn happening() -> impl Strategy<Value = (bool, u8, u8)> {
    (prop::bool::weighted(0.7), 0..3u8, 0..2u8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For every cursor: what was dropped and what is shown is all that happened.
    #[test]
    fn dropped_is_exact_for_every_cursor_project_and_filter(
        commits in prop::collection::vec(prop::collection::vec(happening(), 1..60), 1..12),
        kept in 1..150u64,
        reopen_after in 0..12usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let home = Home::new();
            let mut store = home.keep(kept);
            let mut happened = Vec::new();
            for (nth, commit) in commits.iter().enumerate() {
                let events = commit.iter().map(|(agent, project, who)| {
                    let kind = if *agent { EventKind::AgentUpdated } else { EventKind::TaskChanged };
                    let mut new = event(kind, &format!("p{project}"), Some(&format!("a{who}")), 0);
                    if *project == 2 {
                        new.project_id = None;
                    }
                    new
                });
                let events: Vec<_> = events.collect();
                happened.extend(events.clone());
                emit(&store, events).await;
                if nth == reopen_after {
                    store.close().await.unwrap();
                    store = home.keep(kept);
                }
            }
            let oldest = store.read(|tx| tx.events_after(None, 1)).unwrap()[0].seq;
            let total = u64::try_from(happened.len()).unwrap();
            prop_assert!(FIRST + total - oldest >= kept.min(total), "too much was pruned");
            prop_assert!(FIRST + total - oldest < kept + EVENTS_PRUNED_AT_ONCE, "too much is kept");
            for project in [None, Some("p0"), Some("p1"), Some("p9")] {
                for agent in [None, Some("a0")] {
                    let filter = AgentEventFilter {
                        project_id: project.map(ProjectId::new), agent_id: agent.map(AgentId::new),
                    };
                    for after in (0..=total).step_by(7).map(|n| FIRST - 1 + n) {
                        let page = store.read(|tx| tx.agent_events(&filter, Some(after), 10_000)).unwrap();
                        let behind = || (FIRST..).zip(&happened).filter(|(seq, event)| {
                            *seq > after && event.kind.is_agent_event()
                                && (filter.project_id.is_none() || event.project_id == filter.project_id)
                        });
                        let dropped = behind().filter(|(seq, _)| *seq < oldest).count();
                        let shown: Vec<_> = behind()
                            .filter(|(seq, _)| *seq >= oldest)
                            .filter(|(_, event)| agent.is_none() || event.agent_id == filter.agent_id)
                            .map(|(seq, _)| seq).collect();
                        prop_assert_eq!(page.dropped, u64::try_from(dropped).unwrap());
                        prop_assert_eq!(page.events.iter().map(|e| e.seq).collect::<Vec<_>>(), shown);
                        prop_assert_eq!(page.next_after, FIRST + total - 1);
                    }
                }
            }
            Ok(())
        })?;
    }
}
