"""Random ids: of calls, runs, pauses."""

from __future__ import annotations

import os

_unused: list[str] = []
os.register_at_fork(after_in_child=_unused.clear)


def new_id() -> str:
    """Returns a random id."""
    try:
        return _unused.pop()
    except IndexError:
        # Many at once, as each would be a request to the system.
        drawn = os.urandom(16 * 64).hex()
        _unused.extend([drawn[start : start + 32] for start in range(32, len(drawn), 32)])
        return drawn[:32]
