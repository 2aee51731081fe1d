-- One row: what the store knows about itself.
CREATE TABLE meta (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    -- When the file was made, in milliseconds since 1970.
    created_at INTEGER NOT NULL,
    -- The number of the first event: microseconds since 1970 at that time.
    first_seq INTEGER NOT NULL CHECK (first_seq > 0)
) STRICT;

-- The newest events. Numbers have no gaps; the newest event is never pruned, so numbers never come twice.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    project_id TEXT,
    agent_id TEXT,
    -- Whether poll_agent_events shows it.
    for_agents INTEGER NOT NULL CHECK (for_agents IN (0, 1)),
    data TEXT NOT NULL
) STRICT;

CREATE INDEX event_for_agents ON event (project_id, seq) WHERE for_agents = 1;

-- Short names of projects, for the next table only. They outlive the projects. '' stands for no project.
CREATE TABLE pruned_scope (
    scope INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL UNIQUE
) STRICT;

-- What is left of a pruned agent event: a few bytes, so that `dropped` is exact for every cursor. `nth` counts
-- the pruned agent events of the scope from 1, so a count is a difference of two rows.
CREATE TABLE pruned_event (
    scope INTEGER NOT NULL REFERENCES pruned_scope,
    seq INTEGER NOT NULL,
    nth INTEGER NOT NULL,
    PRIMARY KEY (scope, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE project (
    project_id   TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    root         TEXT NOT NULL,
    is_git       INTEGER NOT NULL CHECK (is_git IN (0, 1)),
    verification TEXT,
    -- Whether what the folder brings for a runtime counts: settings, hooks, servers.
    trusted      INTEGER NOT NULL CHECK (trusted IN (0, 1)),
    created_at   INTEGER NOT NULL,
    removed_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX project_name ON project (name) WHERE removed_at IS NULL;

CREATE TABLE agent (
    agent_id          TEXT PRIMARY KEY,
    project_id        TEXT NOT NULL REFERENCES project (project_id),
    name              TEXT NOT NULL,
    runtime_id        TEXT NOT NULL,
    model             TEXT,
    role              TEXT NOT NULL CHECK (role IN ('worker', 'orchestrator')),
    interaction       TEXT NOT NULL CHECK (interaction IN ('structured', 'terminal')),
    instructions      TEXT,
    skills            INTEGER NOT NULL CHECK (skills IN (0, 1)),
    state             TEXT NOT NULL,
    status            TEXT NOT NULL CHECK (status IN ('CREATED', 'STARTING', 'READY', 'BUSY', 'PAUSED', 'STOPPING', 'STOPPED', 'FAILED', 'CRASHED')),
    wanted            TEXT NOT NULL CHECK (wanted IN ('running', 'stopped')),
    last_failure      TEXT,
    native_session_id TEXT,
    usage             TEXT NOT NULL,
    idle_since        INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    removed_at        INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX agent_name ON agent (project_id, name) WHERE removed_at IS NULL;
CREATE INDEX agent_in_motion ON agent (agent_id) WHERE status IN ('STARTING', 'STOPPING');

-- A session is one life of an agent's conversation. Sessions without an end when a store opens were lost.
CREATE TABLE session (
    session_id        TEXT PRIMARY KEY,
    agent_id          TEXT NOT NULL REFERENCES agent (agent_id),
    runtime_id        TEXT NOT NULL,
    native_session_id TEXT,
    pid               INTEGER,
    resumed           INTEGER NOT NULL DEFAULT 0 CHECK (resumed IN (0, 1)),
    token_hash        BLOB,
    hook_token_hash   BLOB,
    -- The attempt that it was opened for alone. Absent: it is the agent's own conversation.
    attempt_id        TEXT,
    started_at        INTEGER NOT NULL,
    ended_at          INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX session_live ON session (agent_id) WHERE ended_at IS NULL;

-- A session of the planner belongs to no agent. Its row is there exactly as long as something of it may live.
CREATE TABLE planner_session (
    session_id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES project (project_id),
    runtime_id TEXT NOT NULL,
    started_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turn (
    turn_id    TEXT PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agent (agent_id),
    session_id TEXT NOT NULL REFERENCES session (session_id),
    text       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('"sending"', '"running"', '"interrupting"', '"stalled"', '"unanswered"', '"over"')),
    failure    TEXT,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_live ON turn (session_id) WHERE ended_at IS NULL;

-- A message for a turn that ran. One that came too late becomes a turn under its own id.
CREATE TABLE steer (
    steer_id   TEXT PRIMARY KEY,
    turn_id    TEXT NOT NULL REFERENCES turn (turn_id),
    agent_id   TEXT NOT NULL REFERENCES agent (agent_id),
    session_id TEXT NOT NULL REFERENCES session (session_id),
    text       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('"sending"', '"late"', '"taken"', '"begun"', '"failed"')),
    failure    TEXT,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX steer_open ON steer (created_at, steer_id) WHERE ended_at IS NULL;

-- One revision of a proposed plan. Revisions of one plan share the id of their first, and all but the newest are
-- superseded. `nth` is the order in which they came, `decided` the order of approvals and rejections: a clock
-- that is set back changes neither.
CREATE TABLE proposal (
    nth         INTEGER PRIMARY KEY,
    proposal_id TEXT NOT NULL UNIQUE,
    first_id    TEXT NOT NULL,
    revision    INTEGER NOT NULL,
    project_id  TEXT NOT NULL REFERENCES project (project_id),
    goal        TEXT NOT NULL,
    source      TEXT NOT NULL,
    previous    TEXT,
    plan        TEXT NOT NULL,
    state       TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'superseded', 'approved', 'rejected')),
    resolution  TEXT,
    created_at  INTEGER NOT NULL,
    decided     INTEGER UNIQUE,
    UNIQUE (first_id, revision)
) STRICT;
CREATE INDEX proposal_pending ON proposal (project_id) WHERE status = 'pending';

CREATE TABLE objective (
    objective_id TEXT PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES project (project_id),
    title        TEXT NOT NULL,
    -- The proposal that it was made from. It may be gone: old ones are not kept.
    proposal_id  TEXT,
    flow         TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL,
    changed_by   TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX objective_open ON objective (project_id) WHERE ended_at IS NULL;
CREATE INDEX objective_ended ON objective (ended_at, objective_id) WHERE ended_at IS NOT NULL;

CREATE TABLE task (
    task_id       TEXT PRIMARY KEY,
    objective_id  TEXT NOT NULL REFERENCES objective (objective_id),
    project_id    TEXT NOT NULL REFERENCES project (project_id),
    position      INTEGER NOT NULL,
    spec          TEXT NOT NULL,
    depends_on    TEXT NOT NULL,
    pinned        TEXT REFERENCES agent (agent_id),
    state         TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('CREATED', 'READY', 'RUNNING', 'VERIFYING', 'BLOCKED', 'COMPLETED', 'FAILED', 'CANCELLED')),
    hold          TEXT,
    result        TEXT,
    failure       TEXT,
    decisions     TEXT NOT NULL,
    reassignments TEXT NOT NULL,
    integration   TEXT,
    created_at    INTEGER NOT NULL,
    ready_at      INTEGER,
    started_at    INTEGER,
    ended_at      INTEGER,
    UNIQUE (objective_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_open ON task (objective_id) WHERE ended_at IS NULL;
CREATE INDEX task_pinned ON task (pinned) WHERE ended_at IS NULL;

CREATE TABLE attempt (
    attempt_id   TEXT PRIMARY KEY,
    task_id      TEXT NOT NULL REFERENCES task (task_id),
    number       INTEGER NOT NULL,
    agent_id     TEXT NOT NULL REFERENCES agent (agent_id),
    runtime_id   TEXT NOT NULL,
    session_id   TEXT NOT NULL REFERENCES session (session_id),
    turn_id      TEXT NOT NULL UNIQUE,
    state        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    workspace    TEXT NOT NULL,
    files        TEXT NOT NULL,
    result       TEXT,
    failure      TEXT,
    usage        TEXT NOT NULL,
    verification TEXT,
    -- What is left of its time, in milliseconds, while a tool request of it waits for a person. Absent: its time runs.
    time_left    INTEGER,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    UNIQUE (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_live ON attempt (session_id) WHERE ended_at IS NULL;

-- A tool that an agent wanted to use, or what it asked its user. `nth` is the order in which they came; the newest row is
-- never removed, so numbers never come twice.
CREATE TABLE approval (
    nth         INTEGER PRIMARY KEY,
    approval_id TEXT NOT NULL UNIQUE,
    project_id  TEXT NOT NULL REFERENCES project (project_id),
    agent_id    TEXT NOT NULL REFERENCES agent (agent_id),
    session_id  TEXT NOT NULL REFERENCES session (session_id),
    turn_id     TEXT NOT NULL,
    -- Absent: a person sent the turn directly.
    attempt_id  TEXT REFERENCES attempt (attempt_id),
    task_id     TEXT REFERENCES task (task_id),
    -- The runtime's name of it.
    request_id  TEXT NOT NULL,
    tool        TEXT NOT NULL,
    of_cortex   TEXT,
    summary     TEXT NOT NULL,
    -- Without secrets, and cut.
    input       TEXT NOT NULL,
    truncated   INTEGER NOT NULL CHECK (truncated IN (0, 1)),
    cwd         TEXT NOT NULL,
    questions   TEXT NOT NULL,
    answers     TEXT,
    state       TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'allowed', 'denied', 'cancelled', 'expired')),
    -- Whether something can still happen to it.
    open        INTEGER NOT NULL CHECK (open IN (0, 1)),
    decided_by  TEXT,
    reason      TEXT,
    created_at  INTEGER NOT NULL,
    decided_at  INTEGER,
    -- When it is denied because nobody answered. Absent: it waits as long as its turn.
    due_at      INTEGER
) STRICT;
CREATE INDEX approval_open ON approval (nth) WHERE open = 1;
CREATE INDEX approval_settled ON approval (nth) WHERE open = 0;
CREATE INDEX approval_agent ON approval (agent_id, nth);
CREATE INDEX approval_project ON approval (project_id, nth);

-- The rules of a project about tool requests, in their order.
CREATE TABLE rule (
    project_id TEXT NOT NULL REFERENCES project (project_id),
    rule_id    TEXT NOT NULL,
    position   INTEGER NOT NULL,
    tool       TEXT NOT NULL,
    input      TEXT,
    -- Absent: for every agent.
    agent_id   TEXT REFERENCES agent (agent_id),
    decide     TEXT NOT NULL CHECK (decide IN ('allow', 'deny', 'ask')),
    PRIMARY KEY (project_id, rule_id)
) STRICT, WITHOUT ROWID;

-- A message of the bus. One that waits at its expires_at has expired, whether or not its row says so yet.
CREATE TABLE message (
    -- The order of the bus. The newest row is never removed, so numbers never come twice.
    sequence        INTEGER PRIMARY KEY,
    message_id      TEXT NOT NULL UNIQUE,
    project_id      TEXT NOT NULL REFERENCES project (project_id),
    -- The channel; without it: the project's.
    objective_id    TEXT REFERENCES objective (objective_id),
    -- Without it: the user.
    from_agent_id   TEXT REFERENCES agent (agent_id),
    -- Whose inbox it waits in. For an attempt: the agent that runs it.
    reader_id       TEXT NOT NULL REFERENCES agent (agent_id),
    to_execution_id TEXT REFERENCES attempt (attempt_id),
    kind            TEXT NOT NULL CHECK (kind IN ('note', 'request', 'reply')),
    action          TEXT CHECK (action IS NULL OR kind = 'request'),
    in_reply_to     TEXT,
    status          TEXT NOT NULL CHECK (status IN ('WAITING', 'ACKED', 'EXPIRED')),
    ttl_secs        INTEGER NOT NULL,
    -- Taken away when its time is over.
    idempotency_key TEXT,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    acked_at        INTEGER,
    body            TEXT NOT NULL
) STRICT;
-- Inboxes and both quotas.
CREATE INDEX message_inbox ON message (reader_id, sequence) WHERE status = 'WAITING';
CREATE INDEX message_sent ON message (from_agent_id) WHERE status = 'WAITING';
CREATE INDEX message_waiting ON message (sequence) WHERE status = 'WAITING';
CREATE INDEX message_key ON message (idempotency_key) WHERE idempotency_key IS NOT NULL;
-- What time alone changes, and what may be forgotten.
CREATE INDEX message_due ON message (expires_at) WHERE status = 'WAITING' OR idempotency_key IS NOT NULL;
CREATE INDEX message_settled ON message (sequence) WHERE status <> 'WAITING' AND idempotency_key IS NULL;
-- The worktree of an attempt that has one of its own. Its base and its branch stand with the attempt.
CREATE TABLE workspace (
    attempt_id TEXT PRIMARY KEY REFERENCES attempt (attempt_id),
    task_id    TEXT NOT NULL REFERENCES task (task_id),
    project_id TEXT NOT NULL REFERENCES project (project_id),
    root       TEXT NOT NULL,
    path       TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- Whether its state owes something: what the engine looks for at every wake.
    owed       INTEGER NOT NULL CHECK (owed IN (0, 1)),
    intent     TEXT,
    refusal    TEXT,
    -- When nothing could happen to it any more.
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX workspace_owed ON workspace (attempt_id) WHERE owed = 1;
CREATE INDEX workspace_task ON workspace (task_id) WHERE ended_at IS NULL;
CREATE INDEX workspace_project ON workspace (project_id) WHERE ended_at IS NULL;

-- What is due by time alone. A row goes with the state that set it.
CREATE TABLE timer (
    subject TEXT NOT NULL,
    kind    TEXT NOT NULL,
    due_at  INTEGER NOT NULL,
    PRIMARY KEY (subject, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_due ON timer (due_at);
