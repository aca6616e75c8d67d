"""The tools of a source that ask something while they run, as far as that has been seen."""

from __future__ import annotations

MAX_TOOLS = 10_000


class AskingTools:
    """By tool, or other request, that asked: True if it is certain that it was this one."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def __contains__(self, tool: str) -> bool:
        return tool in self._known

    def asked(self, tool: str, *, is_certain: bool) -> None:
        """Notes that a call of this tool asked something, or may have."""
        if len(self._known) < MAX_TOOLS:
            self._known[tool] = is_certain or self._known.get(tool, False)

    def was_quiet(self, tool: str) -> None:
        """Notes that a call of this tool ran alone, and asked nothing: it was not this one, then."""
        if self._known.get(tool) is False:
            del self._known[tool]
