DROP TABLE tool_search;

-- Each word of the tools of a source: the ids of those that have it, of 8 bytes each, and how much it tells of
-- each, in one byte (stores/words.py). Filled again from the tools after this migration.
CREATE TABLE search_words (
    word    TEXT NOT NULL,
    source  TEXT NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    tools   BLOB NOT NULL,
    weights BLOB NOT NULL,
    PRIMARY KEY (word, source)
) WITHOUT ROWID;
CREATE INDEX search_words_by_source ON search_words (source);
