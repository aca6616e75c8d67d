-- Who holds a run: the one who took it last. Each write of a run names the generation under which it holds it.
ALTER TABLE runs ADD COLUMN generation BIGINT NOT NULL DEFAULT 1;

-- The first outcome of a step is its outcome.
UPDATE run_events SET kind = 'note' WHERE kind = 'step' AND run LIKE 'trace:%';
DELETE FROM run_events WHERE kind = 'step' AND EXISTS (
    SELECT 1 FROM run_events AS earlier
    WHERE earlier.run = run_events.run AND earlier.path = run_events.path AND earlier.kind = 'step'
        AND earlier.number < run_events.number
);
-- By 128 bits of the path: an index takes no text of any length.
CREATE UNIQUE INDEX run_events_by_step
    ON run_events (run, hashtextextended(path, 0), hashtextextended(path, 1)) WHERE kind = 'step';
