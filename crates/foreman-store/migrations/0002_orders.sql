-- Orders that wait, and what the operator has set about them.

CREATE TABLE settings (
    key  TEXT PRIMARY KEY,
    json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Orders that were handed in to be dispatched. (`orders` also has a row for each single `foreman run`.)
CREATE TABLE work_orders (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE REFERENCES orders (id),
    -- What was ordered; opaque here.
    spec        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN (
                    'queued', 'dispatched', 'done', 'failed', 'cancelled')),
    state_json  TEXT NOT NULL,
    -- The run that it has, or had last.
    run         TEXT REFERENCES runs (id) DEFERRABLE INITIALLY DEFERRED,
    parent      TEXT,
    -- Attempts side by side have a name in common.
    group_name  TEXT,
    -- Runs that counted: those of which nothing was started do not.
    attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- When and why it is tried again; both or neither.
    retry_at    INTEGER,
    retry_why   TEXT,
    -- The operator asked for it by hand, and it has not started yet.
    manual      INTEGER NOT NULL DEFAULT 0 CHECK (manual IN (0, 1)),
    -- Why it could not be dispatched as it is, when that was found, and how often in a row.
    fault       TEXT,
    fault_at    INTEGER,
    faults      INTEGER NOT NULL DEFAULT 0,
    -- Of an order that a recurring one made: which, and for which slot.
    schedule    TEXT,
    slot        INTEGER,
    -- Of a recurring order: slots up to here are dealt with.
    slots_until INTEGER,
    -- The file that it came from.
    source      TEXT,
    created_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    UNIQUE (schedule, slot),
    CHECK ((retry_at IS NULL) = (retry_why IS NULL)),
    CHECK ((schedule IS NULL) = (slot IS NULL)),
    CHECK (state <> 'dispatched' OR run IS NOT NULL)
) STRICT;
CREATE INDEX work_orders_by_state ON work_orders (state);
CREATE INDEX work_orders_by_group ON work_orders (group_name);

-- One live run per order, whatever else goes wrong.
CREATE UNIQUE INDEX runs_one_live_per_order ON runs (order_id)
    WHERE state IN ('provisioning', 'running', 'stopping');
CREATE INDEX runs_by_order ON runs (order_id);

-- The budget's book: reserved before an attempt is launched, settled after it.
CREATE TABLE reservations (
    order_id   TEXT NOT NULL REFERENCES orders (id),
    attempt    INTEGER NOT NULL,
    amounts    TEXT NOT NULL,
    settled_at INTEGER,
    PRIMARY KEY (order_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX reservations_by_time ON reservations (settled_at);

-- Folders whose order files are taken in.
CREATE TABLE watched_folders (
    folder   TEXT PRIMARY KEY,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What became of each file: by its content, so that nothing is taken in twice.
CREATE TABLE order_files (
    path    TEXT PRIMARY KEY,
    folder  TEXT NOT NULL,
    hash    TEXT NOT NULL,
    -- Orders that it made, as a JSON array of ids.
    orders  TEXT NOT NULL,
    -- Why this content gave none, or did not change those that it had made.
    fault   TEXT,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
