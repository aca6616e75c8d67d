-- The audit log: only ever added to. Its entries go by pruning alone, which says before how far.
CREATE TABLE audit (
    id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        DOUBLE PRECISION NOT NULL,
    principal TEXT COLLATE "C" NOT NULL,
    action    TEXT COLLATE "C" NOT NULL,
    target    TEXT NOT NULL,
    allowed   BOOLEAN NOT NULL,
    outcome   TEXT NOT NULL,
    reason    TEXT NOT NULL,
    door      TEXT NOT NULL,
    address   TEXT NOT NULL,
    call      TEXT NOT NULL
);
INSERT INTO meta VALUES ('audit_pruned_to', 0);
CREATE FUNCTION keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pruned_to BIGINT;
BEGIN
    IF TG_OP = 'DELETE' THEN
        EXECUTE format('SELECT value FROM %I.meta WHERE key = ''audit_pruned_to''', TG_TABLE_SCHEMA) INTO pruned_to;
        IF OLD.id <= pruned_to THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit log is only ever added to';
END
$$;
CREATE TRIGGER audit_is_only_added_to BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION keep_audit();

-- Tokens, groups and quotas that administrators made, besides those in the settings. The version counts changes.
CREATE TABLE access_entries (
    kind       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    body       BYTEA NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (kind, name)
);
INSERT INTO meta VALUES ('access_version', 0);

-- What quotas have counted: the time at which a key has its whole quota again, and what runs at the moment.
CREATE TABLE quota_use (
    key      TEXT COLLATE "C" PRIMARY KEY,
    whole_at DOUBLE PRECISION NOT NULL
);
CREATE TABLE quota_holds (
    key    TEXT COLLATE "C" NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    until  DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key, holder)
);
