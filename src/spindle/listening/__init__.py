"""The one door for all that comes in over HTTP: where we listen, and what a connection may cost us."""
