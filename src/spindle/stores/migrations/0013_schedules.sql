-- Flows that are submitted at times. The version counts changes: a tick is taken by whoever changes it first.
CREATE TABLE schedules (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    flow       TEXT NOT NULL,
    cron       TEXT,
    every      REAL,
    zone       TEXT NOT NULL,
    catch_up   INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    principal  TEXT NOT NULL,
    groups     BLOB NOT NULL,
    created_at REAL NOT NULL,
    next_at    REAL NOT NULL,
    paused     INTEGER NOT NULL,
    last_at    REAL,
    last_run   TEXT,
    error      BLOB,
    sealed     BLOB NOT NULL,
    version    INTEGER NOT NULL
);
