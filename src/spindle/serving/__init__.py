"""What every way of serving the catalog over HTTP shares: who may come in, and listening."""
