-- The gate: what was checked, what is being brought onto another base, what waits to be merged, and what
-- was pushed.

-- A round checks one commit in a cage of its own. Its results count for that commit and no other.
CREATE TABLE check_rounds (
    run        INTEGER NOT NULL REFERENCES runs (number),
    round      INTEGER NOT NULL CHECK (round > 0),
    head       TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    -- How each check ended, with the end of its output, as JSON; opaque here.
    results    TEXT,
    -- Why it has no results of some, as a sentence.
    trouble    TEXT,
    PRIMARY KEY (run, round)
) STRICT, WITHOUT ROWID;
-- One at a time.
CREATE UNIQUE INDEX check_rounds_open ON check_rounds (run) WHERE ended_at IS NULL;

-- A run's commits that are being moved: written before anything is moved, and gone when all is, so that
-- what was cut short in between is finished.
CREATE TABLE syncs (
    run  INTEGER PRIMARY KEY REFERENCES runs (number),
    json TEXT NOT NULL
) STRICT;

-- The merge queue: in each repository one at a time, in this order.
CREATE TABLE merges (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    run       INTEGER NOT NULL REFERENCES runs (number),
    repo_key  TEXT NOT NULL,
    asked_by  TEXT NOT NULL CHECK (asked_by IN ('operator', 'checks')),
    state     TEXT NOT NULL CHECK (state IN ('waiting', 'working', 'merged', 'returned')),
    -- What was approved, and under which policy revision.
    head      TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    -- Why it may be merged although its checks did not pass.
    despite   TEXT,
    -- The merged commit, or why it was returned.
    commit_id TEXT,
    reason    TEXT,
    queued_at INTEGER NOT NULL,
    ended_at  INTEGER,
    CHECK ((state = 'merged') = (commit_id IS NOT NULL)),
    CHECK ((state = 'returned') = (reason IS NOT NULL)),
    CHECK ((ended_at IS NULL) = (state IN ('waiting', 'working')))
) STRICT;
CREATE UNIQUE INDEX merges_open ON merges (run) WHERE ended_at IS NULL;
CREATE INDEX merges_by_repo ON merges (repo_key, ended_at, number);

-- Where a branch of a remote was left by the last push to it.
CREATE TABLE pushes (
    run    INTEGER NOT NULL REFERENCES runs (number),
    remote TEXT NOT NULL,
    branch TEXT NOT NULL,
    head   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (run, remote, branch)
) STRICT, WITHOUT ROWID;
