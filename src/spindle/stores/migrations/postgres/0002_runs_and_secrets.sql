CREATE TABLE runs (
    number      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          TEXT COLLATE "C" NOT NULL UNIQUE,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    principal   TEXT NOT NULL,
    groups      BYTEA NOT NULL,
    status      TEXT NOT NULL,
    created_at  DOUBLE PRECISION NOT NULL,
    updated_at  DOUBLE PRECISION NOT NULL,
    error       BYTEA,
    owner       TEXT,
    lease_until DOUBLE PRECISION
);
CREATE INDEX runs_by_status ON runs (status, owner);

CREATE TABLE run_events (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id     TEXT COLLATE "C" NOT NULL UNIQUE,
    run    TEXT COLLATE "C" NOT NULL,
    kind   TEXT NOT NULL,
    at     DOUBLE PRECISION NOT NULL,
    path   TEXT NOT NULL,
    sealed BYTEA
);
CREATE INDEX run_events_by_run ON run_events (run);

CREATE TABLE pauses (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    token      TEXT COLLATE "C" NOT NULL UNIQUE,
    run        TEXT COLLATE "C" NOT NULL,
    path       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    message    TEXT NOT NULL,
    principal  TEXT NOT NULL,
    groups     BYTEA NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    source     TEXT,
    tool       TEXT,
    expires_at DOUBLE PRECISION,
    state      TEXT NOT NULL,
    sealed     BYTEA,
    answer     BYTEA
);
CREATE INDEX pauses_by_run ON pauses (run);
CREATE INDEX pauses_by_state ON pauses (state, principal);

CREATE TABLE secrets (
    kind       TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    sealed     BYTEA NOT NULL,
    source     TEXT COLLATE "C" NOT NULL,
    principal  TEXT COLLATE "C" NOT NULL,
    expires_at DOUBLE PRECISION,
    used       BOOLEAN NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, key)
);

CREATE TABLE leases (
    name  TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT NOT NULL,
    until DOUBLE PRECISION NOT NULL
);
