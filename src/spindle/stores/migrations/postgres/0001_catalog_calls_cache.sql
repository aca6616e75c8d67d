-- Names are compared byte by byte ("C"), as in SQLite: the order is the same in every database, and
-- an index serves the beginnings of a key.
CREATE TABLE sources (
    name      TEXT COLLATE "C" PRIMARY KEY,
    kind      TEXT NOT NULL,
    signature TEXT NOT NULL DEFAULT '',
    synced_at DOUBLE PRECISION,
    error     TEXT
);

-- `definition` is what may be called; `held` waits until a person accepts it (pinned sources).
-- `shared` and `held_shared` name the set of definitions that each of them refers to.
CREATE TABLE tools (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL UNIQUE,
    local_name  TEXT COLLATE "C" NOT NULL,
    source      TEXT COLLATE "C" NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    kind        TEXT NOT NULL,
    description TEXT NOT NULL,
    tags        TEXT NOT NULL,
    place       TEXT NOT NULL,
    fingerprint TEXT,
    definition  BYTEA,
    held        BYTEA,
    shared      TEXT,
    held_shared TEXT
);
CREATE INDEX tools_by_local_name ON tools (local_name);
CREATE INDEX tools_by_source ON tools (source);

-- Schemas that many tools of a source refer to, in sets: tools of a pinned source that wait to be
-- accepted refer to another set than those in force.
CREATE TABLE definitions (
    source TEXT COLLATE "C" NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    shared TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    schema BYTEA NOT NULL,
    PRIMARY KEY (source, shared, name)
);

-- Porter's stemmer for every kind of token, and no list of words to leave out: both as in SQLite.
-- Texts come here already taken apart into words.
CREATE TEXT SEARCH DICTIONARY stem (TEMPLATE = snowball, LANGUAGE = porter);
CREATE TEXT SEARCH CONFIGURATION words (PARSER = default);
ALTER TEXT SEARCH CONFIGURATION words
    ADD MAPPING FOR asciiword, word, numword, int, uint, float, sfloat WITH stem;

-- Apart from the tools, whose rows are much wider than what ranking has to read.
CREATE TABLE tool_search (
    tool     BIGINT PRIMARY KEY REFERENCES tools (id) ON DELETE CASCADE,
    document TSVECTOR NOT NULL
);
CREATE INDEX tool_search_by_word ON tool_search USING gin (document);

-- Arguments and errors are JSON as it was written. The jsonb type would refuse some of it, such as \u0000.
CREATE TABLE calls (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key        TEXT COLLATE "C" NOT NULL,
    tool       TEXT COLLATE "C" NOT NULL,
    source     TEXT NOT NULL,
    principal  TEXT NOT NULL,
    arguments  BYTEA NOT NULL,
    outcome    TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    duration   DOUBLE PRECISION NOT NULL,
    attempts   INTEGER NOT NULL,
    error      BYTEA,
    parent     TEXT
);
CREATE INDEX calls_by_key ON calls (key);

CREATE TABLE cache (
    key        TEXT COLLATE "C" PRIMARY KEY,
    result     BYTEA NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX cache_by_expiry ON cache (expires_at);
