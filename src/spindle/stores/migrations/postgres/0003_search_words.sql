DROP TABLE tool_search;
DROP TEXT SEARCH CONFIGURATION words;
DROP TEXT SEARCH DICTIONARY stem;

-- Each word of the tools of a source: the ids of those that have it, of 8 bytes each, and how much it tells of
-- each, in one byte (stores/words.py). Filled again from the tools after this migration.
CREATE TABLE search_words (
    word    TEXT COLLATE "C" NOT NULL,
    source  TEXT COLLATE "C" NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    tools   BYTEA NOT NULL,
    weights BYTEA NOT NULL,
    PRIMARY KEY (word, source)
);
CREATE INDEX search_words_by_source ON search_words (source);
