-- How the triggers of the settings stand: what they last heard, and the run that it started.
CREATE TABLE triggers (
    name     TEXT COLLATE "C" PRIMARY KEY,
    runs     BIGINT NOT NULL,
    last_at  DOUBLE PRECISION,
    last_run TEXT,
    error    BYTEA
);
