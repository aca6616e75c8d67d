"""A real HTTP server for all sources that speak HTTP, and made-up names for where it is."""

from servers.names import certificate, echo, names, secure

__all__ = ["certificate", "echo", "names", "secure"]
