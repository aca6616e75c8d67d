-- Processes that serve together look for what is meant for them many times a second.

CREATE INDEX secrets_by_source ON secrets (kind, source);
