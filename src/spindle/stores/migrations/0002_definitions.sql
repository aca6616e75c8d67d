-- Schemas that many tools of a source refer to. `shared` is the key of a set: tools of a pinned source
-- that wait to be accepted refer to another set than those in force.
CREATE TABLE definitions (
    source TEXT NOT NULL REFERENCES sources (name) ON DELETE CASCADE,
    shared TEXT NOT NULL,
    name   TEXT NOT NULL,
    schema BLOB NOT NULL,
    PRIMARY KEY (source, shared, name)
) WITHOUT ROWID;

ALTER TABLE tools ADD COLUMN shared TEXT;
ALTER TABLE tools ADD COLUMN held_shared TEXT;
