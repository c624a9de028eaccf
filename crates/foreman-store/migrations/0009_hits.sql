-- How often the rule of each decision let something through; kept although old events may go.
CREATE TABLE rule_hits (
    rule    TEXT PRIMARY KEY,
    hits    INTEGER NOT NULL,
    last_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO rule_hits (rule, hits, last_at)
    SELECT json_extract(json, '$.rule'), sum(json_extract(json, '$.count')), max(at) FROM events
    WHERE kind = 'egress' AND json_extract(json, '$.verdict') = 'allowed'
        AND json_extract(json, '$.rule') LIKE 'amendment:%'
    GROUP BY 1;
