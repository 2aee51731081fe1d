//! `poll_agent_events`.

use cortex_lib::api::tool::PollAgentEvents;
use cortex_lib::api::tool::poll_agent_events::AgentEvents;
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::port::Script;

use crate::bench::{Bench, Setup, pass, secs, spec};

fn poll(after: Option<u64>) -> PollAgentEvents {
    PollAgentEvents { after, limit: 100, agent_id: None, wait_ms: 0 }
}

async fn page(bench: &Bench, call: PollAgentEvents) -> AgentEvents {
    bench.call(call).await
}

/// S-076.
#[tokio::test(start_paused = true)]
async fn agent_events_tell_the_life_of_an_agent_and_its_turns_and_nothing_else() {
    let bench = Setup::new().open().await;
    let agent = bench.ready("a").await;
    let id = bench.one_task(spec("x", &[])).await;
    let task = bench.until_task(&id, TaskStatus::Blocked).await;
    let page = page(&bench, poll(None)).await;
    let told: Vec<_> = page
        .events
        .iter()
        .map(|event| (event.kind, event.data["to"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::AgentCreated, ""),
            (EventKind::AgentStateChanged, "STARTING"),
            (EventKind::AgentStateChanged, "READY"),
            (EventKind::AgentStateChanged, "BUSY"),
            (EventKind::SessionTurnCompleted, ""),
            (EventKind::AgentStateChanged, "READY"),
        ]
    );
    assert!(page.events.iter().all(|event| event.agent_id.as_ref() == Some(&agent)));
    let turn = &page.events[4].data;
    assert_eq!(turn["execution_id"], serde_json::json!(task.attempts[0].execution_id));
    assert_eq!((page.dropped, page.next_after), (0, bench.cortex.newest_event().unwrap()));
}

/// S-077.
#[tokio::test(start_paused = true)]
async fn pages_follow_each_other_without_a_gap() {
    let bench = Setup::new().open().await;
    for name in ["a", "b", "c"] {
        bench.ready(name).await;
    }
    let all = page(&bench, poll(None)).await.events;
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let next = page(&bench, PollAgentEvents { limit: 2, ..poll(after) }).await;
        if next.events.is_empty() {
            assert_eq!(Some(next.next_after), after, "it stays where it is");
            break;
        }
        assert!(next.events.len() <= 2);
        after = Some(next.next_after);
        seen.extend(next.events);
    }
    assert_eq!(seen, all);
}

#[tokio::test(start_paused = true)]
async fn a_filter_by_agent_moves_the_cursor_all_the_same() {
    let bench = Setup::new().open().await;
    let (first, _) = (bench.ready("a").await, bench.ready("b").await);
    let only = PollAgentEvents { agent_id: Some(first.clone()), ..poll(None) };
    let page = page(&bench, only).await;
    assert_eq!(page.events.len(), 3);
    assert!(page.events.iter().all(|event| event.agent_id.as_ref() == Some(&first)));
    assert_eq!(page.next_after, bench.cortex.newest_event().unwrap(), "H-40");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_beyond_the_newest_event_comes_back() {
    let bench = Setup::new().open().await;
    bench.ready("a").await;
    let beyond = bench.cortex.newest_event().unwrap() + 1_000;
    let page = page(&bench, poll(Some(beyond))).await;
    assert_eq!((page.events.len(), page.dropped), (0, 0));
    assert_eq!(page.next_after, bench.cortex.newest_event().unwrap(), "H-40");
}

#[tokio::test(start_paused = true)]
async fn a_poll_waits_for_the_first_event_and_no_longer() {
    let script = |_: &_| Script::new().wait(secs(7)).answer("done");
    let bench = Setup::new().runtime(move |runtime| runtime.turn(script)).open().await;
    let agent = bench.ready("a").await;
    let message = "hi".to_owned();
    bench.call(cortex_lib::api::tool::SendMessage { agent_id: agent, message }).await;
    let after = Some(page(&bench, poll(None)).await.next_after);
    let began = tokio::time::Instant::now();
    let answer = page(&bench, PollAgentEvents { wait_ms: 30_000, ..poll(after) }).await;
    assert_eq!(answer.events[0].kind, EventKind::SessionTurnCompleted);
    assert!(began.elapsed() >= secs(7) && began.elapsed() < secs(8), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    let after = Some(answer.next_after);
    let answer = page(&bench, PollAgentEvents { wait_ms: 4_000, ..poll(after) }).await;
    assert!(answer.events.is_empty());
    assert!(began.elapsed() >= secs(4) && began.elapsed() < secs(5), "{:?}", began.elapsed());
}

/// S-078.
#[tokio::test(start_paused = true)]
async fn what_the_log_no_longer_holds_is_counted() {
    let bench = Setup::new().settings(|settings| settings.events.kept = 20).open().await;
    let agent = bench.ready("a").await;
    let first = page(&bench, PollAgentEvents { limit: 1, ..poll(None) }).await;
    for _ in 0..30 {
        let agent_id = agent.clone();
        bench.call(cortex_lib::api::operator::RestartAgent { agent_id }).await;
    }
    pass(secs(1)).await;
    let mut seen = 1;
    let mut page =
        page(&bench, PollAgentEvents { limit: 500, ..poll(Some(first.next_after)) }).await;
    assert!(page.dropped > 0);
    seen += page.dropped + u64::try_from(page.events.len()).unwrap();
    page.events.clear();
    // Created, started; per restart: stopping, stopped, starting, ready.
    assert_eq!(seen, 3 + 30 * 4, "H-40: nothing is lost uncounted");
}

/// S-079: also when the clock is set back between two lives.
#[test]
fn numbers_of_events_only_increase() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    let mut setup = Setup::new();
    let (project, last) = runtime().block_on(async {
        let bench = setup.open().await;
        bench.agent("a").await;
        let last = bench.cortex.newest_event().unwrap();
        bench.cortex.shutdown().await.unwrap();
        (bench.project.clone(), last)
    });
    setup.epoch -= 365 * 86_400_000;
    runtime().block_on(async {
        let bench = setup.reopen(&project).await;
        bench.agent("b").await;
        let events = bench.agent_events().await;
        assert!(events.windows(2).all(|two| two[0].seq < two[1].seq));
        assert!(events.last().unwrap().seq > last);
    });
}
