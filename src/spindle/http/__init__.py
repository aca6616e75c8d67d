"""Everything that leaves over HTTP or a WebSocket: where it may go, how it is written, how it is read."""
