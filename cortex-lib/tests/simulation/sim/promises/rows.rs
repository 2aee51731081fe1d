//! Rules over the rows of proposals, messages, flows and worktrees, like those of `commit`.

use super::Promise;
use super::commit::Rule;

pub const PLANS: &[Rule] = &[
    (
        Promise::NothingRunsTwice,
        "an approved proposal has not exactly one objective",
        "SELECT proposal_id FROM proposal AS p WHERE status = 'approved' AND 1 <>
            (SELECT count(*) FROM objective AS o WHERE o.proposal_id = p.proposal_id)",
    ),
    (
        Promise::NothingRunsTwice,
        "an objective was made from a proposal that nobody approved",
        "SELECT objective_id FROM objective JOIN proposal USING (proposal_id)
            WHERE status <> 'approved'",
    ),
    (
        Promise::NothingRunsTwice,
        "several revisions of a plan count",
        "SELECT first_id FROM proposal WHERE status <> 'superseded'
            GROUP BY first_id HAVING count(*) > 1",
    ),
    (
        Promise::AnswersAreDeclared,
        "more than 20 proposals wait",
        "SELECT max(proposal_id) FROM proposal WHERE status = 'pending' HAVING count(*) > 20",
    ),
];

/// At the time of the newest post, which is what a quota was counted at.
pub const MESSAGES: &[Rule] = &[
    (
        Promise::NothingWaitsForEver,
        "a message waits for an attempt that is over",
        "SELECT message_id FROM message JOIN attempt ON attempt_id = to_execution_id
            WHERE message.status = 'WAITING' AND attempt.ended_at IS NOT NULL",
    ),
    (
        Promise::NothingWaitsForEver,
        "a message waits for an agent that was removed",
        "SELECT message_id FROM message JOIN agent ON agent.agent_id = reader_id
            WHERE message.status = 'WAITING' AND removed_at IS NOT NULL",
    ),
    (
        Promise::NothingWaitsForEver,
        "a message waits and nobody counts the time",
        "SELECT message_id FROM message WHERE status = 'WAITING' AND NOT EXISTS
            (SELECT 1 FROM timer WHERE kind = 'messages_due' AND due_at <= expires_at)",
    ),
    (
        Promise::AnswersAreDeclared,
        "an inbox holds more than 32 messages",
        "SELECT reader_id FROM message WHERE status = 'WAITING'
            AND expires_at > (SELECT max(created_at) FROM message)
            GROUP BY reader_id HAVING count(*) > 32",
    ),
    (
        Promise::AnswersAreDeclared,
        "an agent has more than 32 messages waiting",
        "SELECT from_agent_id FROM message WHERE status = 'WAITING' AND from_agent_id IS NOT NULL
            AND expires_at > (SELECT max(created_at) FROM message)
            GROUP BY from_agent_id HAVING count(*) > 32",
    ),
    (
        Promise::EventsAgreeWithRows,
        "a message is older than the one before it",
        "SELECT message_id FROM (SELECT message_id, created_at,
            lag(created_at) OVER (ORDER BY sequence) AS before FROM message)
            WHERE before > created_at",
    ),
    (
        Promise::NothingRunsTwice,
        "one key holds for two messages",
        "SELECT max(message_id) FROM message WHERE idempotency_key IS NOT NULL
            AND expires_at > (SELECT max(created_at) FROM message)
            GROUP BY from_agent_id, idempotency_key HAVING count(*) > 1",
    ),
];

pub const FLOWS: &[Rule] = &[
    (
        Promise::EventsAgreeWithRows,
        "an attempt is of a generation that is still to come",
        "SELECT attempt_id FROM attempt AS a JOIN task USING (task_id)
            JOIN objective AS o USING (objective_id) WHERE a.generation > o.generation",
    ),
    (
        Promise::NothingWaitsForEver,
        "a retry was spent without a failure",
        "SELECT task_id FROM task AS t WHERE json_extract(t.state, '$.retries') >
            (SELECT count(*) FROM attempt AS a
             WHERE a.task_id = t.task_id AND a.state LIKE '{\"over\":{\"failed\"%')",
    ),
    (
        Promise::NothingWaitsForEver,
        "a free repeat was spent for nothing",
        "SELECT task_id FROM task AS t WHERE json_extract(t.state, '$.free_repeats') >
            (SELECT count(*) FROM attempt AS a WHERE a.task_id = t.task_id
             AND a.ended_at IS NOT NULL AND a.state NOT LIKE '%objective_paused%'
             AND a.state NOT LIKE '%succeeded%')",
    ),
];

pub const WORKTREES: &[Rule] = &[
    (
        Promise::NothingIsLeftBehind,
        "an attempt has a worktree without a row",
        "SELECT attempt_id FROM attempt AS a
            WHERE json_extract(a.workspace, '$.kind') = 'worktree' AND NOT EXISTS
            (SELECT 1 FROM workspace AS w WHERE w.attempt_id = a.attempt_id)",
    ),
    (
        Promise::NothingOfOthersIsTouched,
        "what was integrated is not the commit of the attempt that completed the task",
        "SELECT t.task_id FROM task AS t JOIN attempt AS a ON a.task_id = t.task_id AND a.number =
            (SELECT max(number) FROM attempt AS b WHERE b.task_id = t.task_id)
            WHERE t.integration IS NOT NULL AND (t.status <> 'COMPLETED' OR
            json_extract(t.integration, '$.commit') IS NOT json_extract(a.files, '$.commit'))",
    ),
    (
        Promise::NothingOfOthersIsTouched,
        "what was verified is not what was kept",
        "SELECT attempt_id FROM attempt WHERE json_extract(workspace, '$.kind') = 'worktree'
            AND json_extract(verification, '$.tree') <> json_extract(files, '$.tree')",
    ),
    (
        Promise::NothingOfOthersIsTouched,
        "an integration runs that nobody asked for",
        "SELECT attempt_id FROM workspace WHERE state = '\"integrating\"' AND intent IS NULL",
    ),
];
