-- The access of one remote client, from its question to its end. `nth` is the order in which they asked.
CREATE TABLE connection (
    nth           INTEGER PRIMARY KEY,
    connection_id TEXT NOT NULL UNIQUE,
    client_id     TEXT NOT NULL,
    client_name   TEXT NOT NULL,
    redirect_uri  TEXT NOT NULL,
    -- What it is for (RFC 8707): the public address of the endpoint at that time.
    resource      TEXT NOT NULL,
    -- What the client gets back with the answer.
    client_state  TEXT,
    -- The S256 challenge (RFC 7636).
    challenge     TEXT NOT NULL,
    -- Shown on the page in the person's browser, and typed at the machine.
    user_code     TEXT NOT NULL UNIQUE,
    -- The hash of the secret in the address of that page.
    page_hash     BLOB NOT NULL UNIQUE,
    -- The hash of the authorization code, once it was given out.
    grant_hash    BLOB UNIQUE,
    state         TEXT NOT NULL CHECK (state IN ('pending', 'allowed', 'connected', 'denied', 'expired', 'revoked')),
    reason        TEXT,
    created_at    INTEGER NOT NULL,
    decided_at    INTEGER,
    renewed_at    INTEGER,
    ended_at      INTEGER,
    -- When it expires unless something happens before, by the steady clock.
    due_at        INTEGER
) STRICT;
CREATE INDEX connection_open ON connection (nth) WHERE ended_at IS NULL;
CREATE INDEX connection_client ON connection (client_id) WHERE ended_at IS NULL;

-- The tokens of connections that are open. A refresh token that was used stays until it expires: whoever brings it
-- again has stolen it, or was stolen from.
CREATE TABLE connection_token (
    token_hash    BLOB PRIMARY KEY,
    connection_id TEXT NOT NULL REFERENCES connection (connection_id),
    kind          TEXT NOT NULL CHECK (kind IN ('access', 'refresh')),
    used          INTEGER NOT NULL CHECK (used IN (0, 1)),
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX connection_token_of ON connection_token (connection_id, kind, created_at);
CREATE INDEX connection_token_due ON connection_token (expires_at);

-- Clients that registered themselves (RFC 7591). They may be forgotten when nothing of them is connected.
CREATE TABLE oauth_client (
    client_id     TEXT PRIMARY KEY,
    client_name   TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_client_age ON oauth_client (created_at);
