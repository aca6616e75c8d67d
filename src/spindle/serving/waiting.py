"""Continuing runs that waited for a time or an event, while a workspace is kept open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any

from spindle.domain.json_schema import is_object
from spindle.errors import ClientError, InvalidArgumentsError, NotFoundError, SpindleError
from spindle.runs.waits import EVENTS
from spindle.serving.going_on import RunsGoingOn
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
        self._going_on = RunsGoingOn("its event", note)

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
            self._going_on.cancel()

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
            self._going_on.begin(going_on)
        return True


def _awaits(pause: OpenPause, event: Event) -> bool:
    wanted: Any = pause.details.get("where", {})
    if not matches(str(pause.details["event"]), event):
        return False
    return is_object(wanted) and all(at(event.data, path) == value for path, value in wanted.items())
