"""The tools of a source that ask something while they run, as far as that has been seen."""

from __future__ import annotations

MAX_TOOLS = 10_000


class AskingTools(dict[str, bool]):
    """By tool, or other request, that asked: True if it is certain that it was this one."""

    def asked(self, tool: str, *, is_certain: bool) -> None:
        """Notes that a call of this tool asked something, or may have."""
        if len(self) < MAX_TOOLS:
            self[tool] = is_certain or self.get(tool, False)

    def was_quiet(self, tool: str) -> None:
        """Notes that a call of this tool ran alone, and asked nothing: it was not this one, then."""
        if self.get(tool) is False:
            del self[tool]
