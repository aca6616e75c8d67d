-- How the triggers of the settings stand: what they last heard, and the run that it started.
CREATE TABLE triggers (
    name     TEXT PRIMARY KEY,
    runs     INTEGER NOT NULL,
    last_at  REAL,
    last_run TEXT,
    error    BLOB
);
