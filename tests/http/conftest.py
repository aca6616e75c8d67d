"""A real HTTP server, and made-up names for where it is."""

from servers.names import certificate, echo, names, secure

__all__ = ["certificate", "echo", "names", "secure"]
