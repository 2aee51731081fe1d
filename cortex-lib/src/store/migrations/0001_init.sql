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

-- A session is one life of an agent's conversation. Sessions without an end when a store opens were lost.
CREATE TABLE session (
    session_id        TEXT PRIMARY KEY,
    agent_id          TEXT NOT NULL REFERENCES agent (agent_id),
    runtime_id        TEXT NOT NULL,
    native_session_id TEXT,
    pid               INTEGER,
    resumed           INTEGER NOT NULL DEFAULT 0 CHECK (resumed IN (0, 1)),
    token_hash        BLOB,
    -- The attempt that it was opened for alone. Absent: it is the agent's own conversation.
    attempt_id        TEXT,
    started_at        INTEGER NOT NULL,
    ended_at          INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX session_live ON session (agent_id) WHERE ended_at IS NULL;

CREATE TABLE turn (
    turn_id    TEXT PRIMARY KEY,
    agent_id   TEXT NOT NULL REFERENCES agent (agent_id),
    session_id TEXT NOT NULL REFERENCES session (session_id),
    text       TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('"sending"', '"running"', '"interrupting"', '"over"')),
    failure    TEXT,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX turn_live ON turn (session_id) WHERE ended_at IS NULL;

CREATE TABLE objective (
    objective_id TEXT PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES project (project_id),
    title        TEXT NOT NULL,
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
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    UNIQUE (task_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_live ON attempt (session_id) WHERE ended_at IS NULL;

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
