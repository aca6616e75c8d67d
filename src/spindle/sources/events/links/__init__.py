"""Links to servers: one module a protocol, loaded when a document names it."""
