"""The levels of log messages, as MCP names them."""

from __future__ import annotations

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def is_as_severe(level: str, least: str | None) -> bool:
    """True if `level` is at least as severe as `least`."""
    known = level in LOG_LEVELS and least in LOG_LEVELS
    return known and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least or "")
