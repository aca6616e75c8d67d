"""The catalog as a small REST API, and as the documents that describe it."""
