-- Who holds a run: the one who took it last. Each write of a run names the generation under which it holds it.
ALTER TABLE runs ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;

-- The first outcome of a step is its outcome.
UPDATE run_events SET kind = 'note' WHERE kind = 'step' AND run LIKE 'trace:%';
DELETE FROM run_events WHERE kind = 'step' AND EXISTS (
    SELECT 1 FROM run_events AS earlier
    WHERE earlier.run = run_events.run AND earlier.path = run_events.path AND earlier.kind = 'step'
        AND earlier.number < run_events.number
);
CREATE UNIQUE INDEX run_events_by_step ON run_events (run, path) WHERE kind = 'step';

-- Leases end by the clock of the machine from now on, which no older time can be compared with.
UPDATE runs SET lease_until = 0 WHERE lease_until IS NOT NULL;
DELETE FROM leases;
