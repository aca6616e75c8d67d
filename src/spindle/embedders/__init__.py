"""Models that turn texts into vectors: one that comes with an extra, an endpoint, and a folder."""
