-- What a model says that tools are about: numbers of 2 bytes. By name, since a sync gives tools other ids.
CREATE TABLE tool_vectors (
    model       TEXT NOT NULL,
    name        TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    digest      TEXT NOT NULL,
    vector      BYTEA NOT NULL,
    version     BIGINT NOT NULL,
    PRIMARY KEY (model, name)
);
CREATE INDEX tool_vectors_by_version ON tool_vectors (model, version);
CREATE INDEX tool_vectors_by_digest ON tool_vectors (model, digest);
CREATE TABLE vector_models (model TEXT PRIMARY KEY, day BIGINT NOT NULL);
INSERT INTO meta VALUES ('vector_version', 0);
