"""Links to event servers: one module per protocol, loaded when a document names it."""
