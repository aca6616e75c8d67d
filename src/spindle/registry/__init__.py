"""Registries of MCP servers: finding a server, and turning its entry into a source."""
