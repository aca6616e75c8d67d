"""Work that is remembered step by step: it can stop for a person and go on in another process."""
