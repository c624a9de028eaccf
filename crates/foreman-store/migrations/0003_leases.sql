-- Who is in charge, and until when: of the whole file, and of each run. Expiry is decided by this
-- file's clock alone (unixepoch), whoever asks.

-- The engine as it described itself (opaque here), and the end of its lease; 0 when it gave it back.
ALTER TABLE meta ADD COLUMN holder TEXT;
ALTER TABLE meta ADD COLUMN lease_expires_at INTEGER NOT NULL DEFAULT 0;

-- +1 at each claim of the run by an engine. A lease and a heartbeat only while the run is followed.
ALTER TABLE runs ADD COLUMN run_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN lease_expires_at INTEGER;
ALTER TABLE runs ADD COLUMN heartbeat_at INTEGER;

-- Processes that were killed when the run's cage was torn down; NULL while that is not known.
ALTER TABLE runs ADD COLUMN killed INTEGER;
