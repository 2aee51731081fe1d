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
