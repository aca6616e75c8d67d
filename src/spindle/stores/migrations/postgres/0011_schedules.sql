-- Flows that are submitted at times. The version counts changes: a tick is taken by whoever changes it first.
CREATE TABLE schedules (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL UNIQUE,
    flow       TEXT NOT NULL,
    cron       TEXT,
    every      DOUBLE PRECISION,
    zone       TEXT NOT NULL,
    catch_up   BIGINT NOT NULL,
    queue      TEXT NOT NULL,
    priority   BIGINT NOT NULL,
    principal  TEXT NOT NULL,
    groups     BYTEA NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    next_at    DOUBLE PRECISION NOT NULL,
    paused     BOOLEAN NOT NULL,
    last_at    DOUBLE PRECISION,
    last_run   TEXT,
    error      BYTEA,
    sealed     BYTEA NOT NULL,
    version    BIGINT NOT NULL
);
