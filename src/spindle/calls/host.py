"""What a tool may do through the call that it serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from spindle.calls.journal import Journal, current_journal
from spindle.errors import Interruption

if TYPE_CHECKING:
    from spindle.domain.call import Reply, Result


class CallHost:
    """Makes further calls, and asks questions, at the place of one call."""

    def __init__(
        self, call: Callable[[str, Mapping[str, Any]], Awaitable[Result]], journal: Journal | None
    ) -> None:
        self._call = call
        self._journal = journal

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Result:
        # Not left to the context: a tool may hand its Context to threads and tasks that have another one.
        token = current_journal.set(self._journal)
        try:
            return await self._call(tool, arguments)
        finally:
            current_journal.reset(token)

    def ask(self, question: BaseException) -> Reply:
        if self._journal is None or not isinstance(question, Interruption):
            raise question
        return self._journal.ask(question)
