-- The definitions of a pinned source that a person has accepted, by their fingerprints. Apart from the tools, so that they
-- outlive them. A row without a name says that the source is pinned at all.
CREATE TABLE pins (
    source      TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT NOT NULL,
    PRIMARY KEY (source, name)
);
