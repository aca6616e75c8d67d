CREATE TABLE runs (
    number      INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    principal   TEXT NOT NULL,
    groups      TEXT NOT NULL,
    status      TEXT NOT NULL,
    created_at  REAL NOT NULL,
    updated_at  REAL NOT NULL,
    error       BLOB,
    owner       TEXT,
    lease_until REAL
);
CREATE INDEX runs_by_status ON runs (status, owner);

CREATE TABLE run_events (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    run    TEXT NOT NULL,
    kind   TEXT NOT NULL,
    at     REAL NOT NULL,
    path   TEXT NOT NULL,
    sealed BLOB
);
CREATE INDEX run_events_by_run ON run_events (run);

CREATE TABLE pauses (
    number     INTEGER PRIMARY KEY,
    token      TEXT NOT NULL UNIQUE,
    run        TEXT NOT NULL,
    path       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    message    TEXT NOT NULL,
    principal  TEXT NOT NULL,
    groups     TEXT NOT NULL,
    created_at REAL NOT NULL,
    source     TEXT,
    tool       TEXT,
    expires_at REAL,
    state      TEXT NOT NULL,
    sealed     BLOB,
    answer     BLOB
);
CREATE INDEX pauses_by_run ON pauses (run);
CREATE INDEX pauses_by_state ON pauses (state, principal);

CREATE TABLE secrets (
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    source     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    expires_at REAL,
    used       INTEGER NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE leases (
    name  TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until REAL NOT NULL
) WITHOUT ROWID;
