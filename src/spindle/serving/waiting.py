"""Continuing runs that waited for a time or an event, while a workspace is kept open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import is_object
from spindle.errors import ClientError, InvalidArgumentsError, NotFoundError, SpindleError
from spindle.runs.waits import EVENTS
from spindle.sources.events.bus import matches
from spindle.sources.message_paths import at

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.event import Event
    from spindle.ports.source import Note
    from spindle.runs.outcomes import OpenPause


@contextlib.asynccontextmanager
async def continued_meanwhile(app: Spindle, note: Note) -> AsyncGenerator[None]:
    """Continues runs whose time has come, or whose event, for as long as this is entered."""
    due = app.runner.due
    due.can_do = app.flows.can_continue
    events = AwaitedEvents(app, note)
    tasks = [
        asyncio.create_task(due.run(), name="continuing runs that are due"),
        asyncio.create_task(events.run(), name="continuing runs after events"),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class AwaitedEvents:
    """Hands the events of this process to the runs that wait for them."""

    def __init__(self, app: Spindle, note: Note) -> None:
        self._app = app
        self._note = note
        self._subscription = app.events()
        self._at_work: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Hands out events until it is cancelled."""
        try:
            async with self._subscription as events:
                async for event in events:
                    # All that have come since, with one look at the store: events may come in floods.
                    came = [event, *[await anext(events) for _ in range(events.waiting)]]
                    try:
                        await self.deliver(came)
                    except SpindleError as error:
                        self._note(
                            f"an event on {event.channel} could not be handed to runs: {error.message}"
                        )
        finally:
            for task in self._at_work:
                task.cancel()

    async def deliver(self, events: Sequence[Event]) -> None:
        """Continues every run that waits for one of these events, with the first that fits."""
        for pause in await self._app.runner.pauses(source=EVENTS):
            for event in events:
                if _awaits(pause, event) and await self._was_taken(pause, event):
                    break

    async def _was_taken(self, pause: OpenPause, event: Event) -> bool:
        try:
            going_on = await self._app.runner.accept(pause, event.data, principal=pause.principal)
        except (InvalidArgumentsError, ClientError, NotFoundError):
            return False  # it does not fit, or another was there before it
        if going_on is not None:
            task = asyncio.create_task(self._reported(going_on), name="run after an event")
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)
        return True

    async def _reported(self, work: Any) -> None:
        try:
            await work
        except SpindleError as error:
            self._note(f"a run went on after its event and failed: {error.message}")


def _awaits(pause: OpenPause, event: Event) -> bool:
    wanted: Any = pause.details.get("where", {})
    if not matches(str(pause.details["event"]), event):
        return False
    return is_object(wanted) and all(at(event.data, path) == value for path, value in wanted.items())
