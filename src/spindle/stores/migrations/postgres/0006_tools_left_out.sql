-- The tools that a source lists and that cannot be used, each with the reason (JSON).
ALTER TABLE sources ADD COLUMN left_out TEXT;
