-- Bounds beyond which a run is refused more while it goes on: their blocks are born gone, and ask about later runs
-- until somebody answers. They are few among the many blocks that are gone for good.
CREATE INDEX blocks_asking ON blocks (run)
    WHERE state = 'gone' AND json_extract(json, '$.subject.bound') IN ('processes', 'open_files');
