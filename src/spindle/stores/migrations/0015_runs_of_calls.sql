-- The run that a call was a step of, or became, and the trace that it belongs to.
ALTER TABLE calls ADD COLUMN run TEXT;
ALTER TABLE calls ADD COLUMN trace TEXT;
CREATE INDEX calls_by_run ON calls (run) WHERE run IS NOT NULL;
