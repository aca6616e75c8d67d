"""Runs that go on in the background of a server, after what they waited for has come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from spindle.errors import SpindleError

if TYPE_CHECKING:
    from spindle.ports.source import Note


class RunsGoingOn:
    """Holds the tasks that execute such runs. How a run ends is kept with it; a failure is also noted."""

    def __init__(self, after: str, note: Note) -> None:
        """`after`: what they have waited for, in a few words."""
        self._after = after
        self._note = note
        self._at_work: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Lets a run go on."""
        task = asyncio.create_task(self._reported(work), name=f"run after {self._after}")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    def cancel(self) -> None:
        """Ends all of them."""
        for task in self._at_work:
            task.cancel()

    async def _reported(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        except SpindleError as error:
            self._note(f"a run went on after {self._after} and failed: {error.message}")
