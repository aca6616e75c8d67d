-- The audit log: only ever added to. Its entries go by pruning alone, which says before how far.
CREATE TABLE audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        REAL NOT NULL,
    principal TEXT NOT NULL,
    action    TEXT NOT NULL,
    target    TEXT NOT NULL,
    allowed   INTEGER NOT NULL,
    outcome   TEXT NOT NULL,
    reason    TEXT NOT NULL,
    door      TEXT NOT NULL,
    address   TEXT NOT NULL,
    call      TEXT NOT NULL
);
INSERT INTO meta VALUES ('audit_pruned_to', 0);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is only ever added to'); END;
CREATE TRIGGER audit_is_only_pruned BEFORE DELETE ON audit
WHEN OLD.id > (SELECT value FROM meta WHERE key = 'audit_pruned_to')
BEGIN SELECT RAISE(ABORT, 'the audit log is only ever added to'); END;

-- Tokens, groups and quotas that administrators made, besides those in the settings. The version counts changes.
CREATE TABLE access_entries (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    body       BLOB NOT NULL,
    updated_at REAL NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
INSERT INTO meta VALUES ('access_version', 0);

-- What quotas have counted: the time at which a key has its whole quota again, and what runs at the moment.
CREATE TABLE quota_use (
    key      TEXT PRIMARY KEY,
    whole_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE quota_holds (
    key    TEXT NOT NULL,
    holder TEXT NOT NULL,
    until  REAL NOT NULL,
    PRIMARY KEY (key, holder)
) WITHOUT ROWID;
