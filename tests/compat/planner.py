"""The part of a planner that a ToolNode sees: a context, which pauses as the program that runs it wants."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class PlannerPausedError(Exception):
    """What a planner unwinds with when a tool pauses it."""

    def __init__(self, reason: str, payload: dict[str, Any]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.payload = payload


class Context:
    """A planner's context. `answer` is what happens while the planner is paused; without it, it unwinds."""

    def __init__(
        self,
        user_id: str | None = None,
        trace_id: str = "",
        answer: Callable[[dict[str, Any]], Awaitable[None]] | None = None,
    ) -> None:
        self.tool_context = {"user_id": user_id, "trace_id": trace_id} if user_id else {}
        self.pauses: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    async def pause(self, reason: str, payload: Any = None) -> None:
        self.pauses.append((reason, payload))
        if self._answer is None:
            raise PlannerPausedError(reason, payload)
        await self._answer(payload)
