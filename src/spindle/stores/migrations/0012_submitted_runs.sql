-- Runs that were submitted to a queue: which of their turns may have them, and what a turn needs to be handed over again.
ALTER TABLE runs ADD COLUMN queue TEXT;
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 100;
ALTER TABLE runs ADD COLUMN not_before REAL;
CREATE INDEX runs_by_queue ON runs (queue, status, updated_at) WHERE queue IS NOT NULL AND status IN ('queued', 'running');
