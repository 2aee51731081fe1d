//! Rules about tool requests: over the rows, and over what sessions were answered.

use cortex_lib::Result;
use cortex_lib::domain::approval::{ApprovalState, ApprovalStatus, Delivery};
use cortex_lib::port::{Asked, ScriptedWorld, ToolAnswer};
use cortex_lib::store::{ApprovalFilter, ReadTx};

use super::commit::Rule;
use super::{Broken, Promise};
use crate::sim::hand::Told;

pub const REQUESTS: &[Rule] = &[
    (
        Promise::NothingWaitsForEver,
        "a request waits for a turn that is over or has to end",
        "SELECT approval_id FROM approval AS a WHERE status = 'pending' AND NOT EXISTS
            (SELECT 1 FROM attempt AS t WHERE t.turn_id = a.turn_id
             AND t.state IN ('\"preparing\"', '\"opening\"', '\"starting\"', '\"running\"'))
            AND NOT EXISTS (SELECT 1 FROM turn AS t WHERE t.turn_id = a.turn_id
             AND t.state IN ('\"sending\"', '\"running\"'))",
    ),
    (
        Promise::NothingWaitsForEver,
        "a request waits in a session that is over",
        "SELECT approval_id FROM approval JOIN session USING (session_id)
            WHERE open = 1 AND ended_at IS NOT NULL",
    ),
    (
        Promise::NothingWaitsForEver,
        "a request waits for a time that nobody counts",
        "SELECT approval_id FROM approval AS a WHERE status = 'pending' AND due_at IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM timer AS t WHERE t.subject = a.approval_id
             AND t.kind = 'approval_due' AND t.due_at = a.due_at)",
    ),
    (
        Promise::NothingWaitsForEver,
        "the time of an attempt stands and nobody is asked",
        "SELECT attempt_id FROM attempt AS t WHERE time_left IS NOT NULL
            AND state IN ('\"starting\"', '\"running\"') AND NOT EXISTS
            (SELECT 1 FROM approval AS a WHERE a.attempt_id = t.attempt_id AND status = 'pending')",
    ),
    (
        Promise::EventsAgreeWithRows,
        "a request was decided by nobody, or waits decided",
        "SELECT approval_id FROM approval WHERE
            (status IN ('allowed', 'denied')) <> (decided_by IS NOT NULL)
            OR (status = 'pending') <> (decided_at IS NULL)",
    ),
    (
        Promise::AnswersAreDeclared,
        "more than 32 requests of a session wait",
        "SELECT session_id FROM approval WHERE status = 'pending'
            GROUP BY session_id HAVING count(*) > 32",
    ),
];

/// A session is answered once, what was decided, and only what stands on disk.
pub fn answers_agree(tx: &ReadTx<'_>, world: &ScriptedWorld) -> Result<Vec<Broken>> {
    let (asked, mut broken) = (world.asked(), Vec::new());
    for approval in tx.approvals(&ApprovalFilter::default(), u32::MAX)? {
        let given: Vec<_> = asked
            .iter()
            .filter_map(|asked| match asked {
                Asked::Answer(session, request, answer)
                    if *session == approval.session_id && *request == approval.request_id =>
                {
                    Some(answer)
                }
                _ => None,
            })
            .collect();
        let id = &approval.id;
        let mut wrong = |promise, what| broken.push(Broken::new(promise, what));
        if given.len() > 1 {
            let what = format!("request {id} was answered {} times", given.len());
            wrong(Promise::NothingRunsTwice, what);
        }
        let fits = |answer: &ToolAnswer| match approval.state.status() {
            ApprovalStatus::Allowed => !matches!(answer, ToolAnswer::Deny { .. }),
            ApprovalStatus::Denied => matches!(answer, ToolAnswer::Deny { .. }),
            ApprovalStatus::Pending | ApprovalStatus::Cancelled | ApprovalStatus::Expired => false,
        };
        if let Some(answer) = given.iter().find(|answer| !fits(answer)) {
            let what = format!("request {id} is {:?} and was answered {answer:?}", approval.state);
            wrong(Promise::NothingIsLost, what);
        }
        let told = matches!(
            approval.state,
            ApprovalState::Allowed(Delivery::Given) | ApprovalState::Denied(Delivery::Given)
        );
        if told && given.is_empty() {
            let what = format!("request {id} counts as answered and nobody was told");
            wrong(Promise::NothingIsLost, what);
        }
    }
    Ok(broken)
}

/// What a person answered stands as it was answered.
pub fn answers_are_kept(tx: &ReadTx<'_>, told: &Told) -> Result<Vec<Broken>> {
    let mut broken = Vec::new();
    for (id, wanted) in &told.answered {
        let status = tx.approval(id)?.state.status();
        if status != *wanted {
            let what = format!("request {id} was {wanted:?} and is {status:?}");
            broken.push(Broken::new(Promise::NothingIsLost, what));
        }
    }
    Ok(broken)
}
