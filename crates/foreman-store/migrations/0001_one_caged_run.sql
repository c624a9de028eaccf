-- Append-only: a released migration is never edited; a change is a new file.
-- Times are milliseconds since the Unix epoch. JSON columns hold domain types as they are on the wire;
-- columns beside them exist to be searched, ordered or checked.

CREATE TABLE meta (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL
) STRICT;
INSERT INTO meta (id, epoch) VALUES (1, 0);

CREATE TABLE orders (
    id         TEXT PRIMARY KEY,
    repo_key   TEXT NOT NULL,
    title      TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    number            INTEGER PRIMARY KEY AUTOINCREMENT,
    id                TEXT NOT NULL UNIQUE,
    order_id          TEXT NOT NULL REFERENCES orders (id),
    repo_key          TEXT NOT NULL,
    title             TEXT NOT NULL,
    -- What the engine keeps about its files, branch and cage; opaque here.
    details           TEXT NOT NULL,
    state             TEXT NOT NULL CHECK (state IN (
                          'provisioning', 'running', 'stopping', 'review', 'no_changes', 'failed',
                          'cancelled', 'interrupted', 'merging', 'merged', 'discarded')),
    state_json        TEXT NOT NULL,
    outcome_json      TEXT,
    -- A stop that was asked for and not yet seen to its end.
    stop_asked_at     INTEGER,
    revision          INTEGER NOT NULL,
    applied_revision  INTEGER NOT NULL DEFAULT 0,
    base_policy_json  TEXT NOT NULL,
    policy_json       TEXT NOT NULL,
    next_amendment    INTEGER NOT NULL DEFAULT 1,
    last_seq          INTEGER NOT NULL DEFAULT 0,
    denied_unattended INTEGER NOT NULL DEFAULT 0 CHECK (denied_unattended IN (0, 1)),
    created_at        INTEGER NOT NULL,
    ended_at          INTEGER
) STRICT;
CREATE INDEX runs_by_state ON runs (state);
CREATE INDEX runs_by_repo ON runs (repo_key);

CREATE TABLE events (
    run  INTEGER NOT NULL REFERENCES runs (number),
    seq  INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at   INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    run         INTEGER NOT NULL REFERENCES runs (number),
    name        TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('setup', 'agent', 'finish', 'harvest', 'check')),
    argv_json   TEXT NOT NULL,
    result_json TEXT,
    started_seq INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE blocks (
    run              INTEGER NOT NULL REFERENCES runs (number),
    number           INTEGER NOT NULL,
    state            TEXT NOT NULL CHECK (state IN ('open', 'amended', 'denied', 'expired', 'gone')),
    first_at         INTEGER NOT NULL,
    json             TEXT NOT NULL,
    -- The revision that a decision on it made: older news of the shim do not reopen it.
    decided_revision INTEGER,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX blocks_by_state ON blocks (state, first_at);

CREATE TABLE amendments (
    run         INTEGER NOT NULL REFERENCES runs (number),
    number      INTEGER NOT NULL,
    order_id    TEXT NOT NULL REFERENCES orders (id),
    repo_key    TEXT NOT NULL,
    block       INTEGER,
    decision    TEXT NOT NULL CHECK (decision IN ('allow', 'deny')),
    scope       TEXT NOT NULL CHECK (scope IN ('once', 'run', 'order', 'project')),
    state       TEXT NOT NULL CHECK (state IN ('active', 'revoked', 'lapsed')),
    json        TEXT NOT NULL,
    -- Exactly one of the two: an EgressRule that allows, or a Denial that refuses.
    rule_json   TEXT,
    denial_json TEXT,
    decided_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    PRIMARY KEY (run, number),
    CHECK ((rule_json IS NULL) <> (denial_json IS NULL)),
    CHECK ((decision = 'allow') = (rule_json IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX amendments_by_order ON amendments (order_id, state, scope);
CREATE INDEX amendments_by_repo ON amendments (repo_key, state, scope);
CREATE INDEX amendments_by_time ON amendments (decided_at);

-- Which decision made each policy revision of a run, so that a shim can be brought up to date in order.
CREATE TABLE revisions (
    run              INTEGER NOT NULL REFERENCES runs (number),
    revision         INTEGER NOT NULL,
    amendment_run    INTEGER NOT NULL,
    amendment_number INTEGER NOT NULL,
    PRIMARY KEY (run, revision),
    FOREIGN KEY (amendment_run, amendment_number) REFERENCES amendments (run, number)
) STRICT, WITHOUT ROWID;

-- Consent to a repository's policy file: this content of it and no other.
CREATE TABLE trust (
    repo_key   TEXT NOT NULL,
    hash       TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (repo_key, hash)
) STRICT, WITHOUT ROWID;

-- What a request did, so that a caller that lost its engine in the middle can ask again safely.
CREATE TABLE requests (
    key     TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
