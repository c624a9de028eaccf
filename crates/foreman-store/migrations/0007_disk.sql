-- Removals that were asked for and are not done, and what the engine did about disk space.

-- A run's row here outlives a crash and a file that cannot be deleted: the removal is tried again until
-- nothing is left, and the row goes last.
CREATE TABLE removals (
    run       TEXT PRIMARY KEY REFERENCES runs (id),
    asked_at  INTEGER NOT NULL,
    tries     INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    tried_at  INTEGER,
    -- Why the last try did not finish, as a sentence.
    error     TEXT
) STRICT, WITHOUT ROWID;

-- What was removed and what was kept with the reason, newest last. One row for each change: the same
-- finding about a run is not repeated.
CREATE TABLE disk_log (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    run      TEXT NOT NULL REFERENCES runs (id),
    action   TEXT NOT NULL CHECK (action IN ('removed', 'kept', 'failed')),
    -- Why, as JSON (kept) or a sentence (failed); the snapshot's ref (removed).
    detail   TEXT NOT NULL,
    bytes    INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT;
CREATE INDEX disk_log_by_run ON disk_log (run, number);
