-- The beginning of the result, for calls whose caller asked to keep it (JSON).
ALTER TABLE calls ADD COLUMN result BLOB;
