-- One index of events serves all: to find those of a run, to take each once, and each step's outcome once.
-- The three that there were made most of what a step of a run wrote.
ALTER TABLE run_events RENAME TO older_events;
CREATE TABLE run_events (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    at     REAL NOT NULL,
    path   TEXT NOT NULL,
    sealed BLOB
);
INSERT INTO run_events (number, id, run, kind, at, path, sealed)
    SELECT number, id, run, kind, at, path, sealed FROM older_events ORDER BY number;
DROP TABLE older_events;
CREATE UNIQUE INDEX run_events_of_run ON run_events (run, CASE kind WHEN 'step' THEN path ELSE id END);
