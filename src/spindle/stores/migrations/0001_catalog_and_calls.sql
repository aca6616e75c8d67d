CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES ('catalog_version', 0);

CREATE TABLE sources (
    name      TEXT PRIMARY KEY,
    kind      TEXT NOT NULL,
    signature TEXT NOT NULL DEFAULT '',
    synced_at REAL,
    error     TEXT
) WITHOUT ROWID;

-- `definition` is what may be called; `held` waits until a person accepts it (pinned sources).
CREATE TABLE tools (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    local_name  TEXT NOT NULL,
    source      TEXT NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    kind        TEXT NOT NULL,
    description TEXT NOT NULL,
    tags        TEXT NOT NULL,
    place       TEXT NOT NULL,
    fingerprint TEXT,
    definition  BLOB,
    held        BLOB
);
CREATE INDEX tools_by_local_name ON tools (local_name);
CREATE INDEX tools_by_source ON tools (source);

CREATE VIRTUAL TABLE tool_search USING fts5 (
    name, tags, description, parameters,
    tokenize = 'porter unicode61 remove_diacritics 2',
    prefix = '2 3 4'
);

-- No index: a record is written with every call and looked for by people, newest first.
CREATE TABLE calls (
    id         INTEGER PRIMARY KEY,
    key        TEXT NOT NULL,
    tool       TEXT NOT NULL,
    source     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    arguments  BLOB NOT NULL,
    outcome    TEXT NOT NULL,
    started_at REAL NOT NULL,
    duration   REAL NOT NULL,
    attempts   INTEGER NOT NULL,
    error      BLOB,
    parent     TEXT
);

CREATE TABLE cache (
    key        TEXT PRIMARY KEY,
    result     BLOB NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX cache_by_expiry ON cache (expires_at);
