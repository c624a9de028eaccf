-- What a run was asked to do, so that it can be tried again. It may hold values of variables that were
-- given with it, so it goes as soon as there is nothing left to try.
CREATE TABLE run_requests (
    run  INTEGER PRIMARY KEY REFERENCES runs (number),
    json TEXT NOT NULL
) STRICT;

CREATE TRIGGER forget_run_request AFTER UPDATE OF state ON runs
WHEN NEW.state IN ('merged', 'discarded')
BEGIN
    DELETE FROM run_requests WHERE run = NEW.number;
END;
