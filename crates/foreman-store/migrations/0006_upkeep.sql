-- Events are kept as records (several lines of output in one row) under the last number they stand for,
-- so that a cursor inside a record, or inside a dropped range, finds the row that covers it.

-- What a run's events take, so that nothing has to be counted; and up to where nothing is left that may
-- be dropped: no output, and none of the other kinds that retention may drop.
CREATE TABLE event_usage (
    run            INTEGER PRIMARY KEY REFERENCES runs (number),
    bytes          INTEGER NOT NULL,
    output_through INTEGER NOT NULL DEFAULT 0,
    other_through  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO event_usage (run, bytes)
    SELECT run, sum(octet_length(json) + 32) FROM events GROUP BY run;

-- Open blocks of a run are counted for every run that is shown; closed ones are many, open ones few.
CREATE INDEX blocks_open ON blocks (run) WHERE state = 'open';

-- Text of events, made when somebody searches. Row ids are the run's number and the event's together.
CREATE VIRTUAL TABLE event_text USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
-- Up to which event a run's text is in it.
CREATE TABLE event_index (
    run     INTEGER PRIMARY KEY REFERENCES runs (number),
    through INTEGER NOT NULL
) STRICT;

-- The order in which decisions were recorded; the clock may go back between two of them.
ALTER TABLE amendments ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
UPDATE amendments SET place = (
    SELECT count(*) FROM amendments AS earlier
    WHERE (earlier.decided_at, earlier.run, earlier.number)
        <= (amendments.decided_at, amendments.run, amendments.number)
);
CREATE INDEX amendments_by_place ON amendments (place);

-- Up to which event a run's journal was looked after: it had ended and everything is here, so that the
-- journal was cut down to its end.
CREATE TABLE journals_cut (
    run     INTEGER PRIMARY KEY REFERENCES runs (number),
    through INTEGER NOT NULL
) STRICT;
