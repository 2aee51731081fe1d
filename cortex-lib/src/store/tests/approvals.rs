//! The history of tool requests is bounded.

use serde_json::Value;

use super::*;
use crate::domain::approval::{ApprovalInput, ApprovalState, DecidedBy, Delivery};
use crate::ids::{ApprovalId, SessionId, TurnId};
use crate::limits::APPROVALS_KEPT;

const WHOSE: &str = "
    INSERT INTO project (project_id, name, root, is_git, trusted, created_at) VALUES ('p', 'p', '/p', 0, 0, 0);
    INSERT INTO agent (agent_id, project_id, name, runtime_id, role, interaction, skills, state, status, wanted, usage, idle_since,
                       created_at, updated_at)
        VALUES ('a', 'p', 'a', 'r', 'worker', 'structured', 1, '\"created\"', 'CREATED', 'stopped', '{}', 0, 0, 0);
    INSERT INTO session (session_id, agent_id, runtime_id, started_at) VALUES ('s', 'a', 'r', 0);";

fn request(nth: usize, state: ApprovalState) -> Approval {
    let waits = state == ApprovalState::Pending;
    Approval {
        id: ApprovalId::new(nth.to_string()),
        project_id: ProjectId::new("p"),
        agent_id: AgentId::new("a"),
        session_id: SessionId::new("s"),
        turn_id: TurnId::new("t"),
        attempt_id: None,
        task_id: None,
        request_id: nth.to_string(),
        tool: "Bash".to_owned(),
        of_cortex: None,
        summary: "make".to_owned(),
        input: Value::Null,
        truncated: false,
        cwd: "/p".into(),
        questions: Vec::new(),
        answers: None,
        state,
        decided_by: (!waits).then_some(DecidedBy::Default),
        reason: None,
        created_at: Timestamp::from_millis(EPOCH),
        decided_at: None,
        due_at: None,
    }
}

#[tokio::test]
async fn what_waits_and_the_newest_of_the_rest_are_kept() {
    let (home, more) = (Home::new(), 20);
    let store = home.open();
    let kept = store
        .write(move |tx| {
            tx.conn().execute_batch(WHOSE).map_err(sql)?;
            tx.insert_approval(&request(0, ApprovalState::Pending))?;
            for nth in 1..=APPROVALS_KEPT + more {
                let decided = request(nth, ApprovalState::Denied(Delivery::Owed));
                tx.insert_approval(&decided)?;
                tx.step_approval(decided, ApprovalInput::Told, Verdict::default())?;
            }
            tx.approvals(&ApprovalFilter::default(), u32::MAX)
        })
        .await
        .unwrap();
    let ids: Vec<_> = kept.iter().map(|one| one.id.as_str().parse::<usize>().unwrap()).collect();
    let newest = (more + 1..=APPROVALS_KEPT + more).rev();
    assert_eq!(ids, std::iter::once(0).chain(newest).collect::<Vec<_>>());
}
