"""Listening for triggers: to channels of events, resources of MCP servers, and files in a folder."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from spindle.auth.credentials import configured
from spindle.domain.call import new_id
from spindle.domain.event import now
from spindle.errors import ConfigurationError, ConnectionFailedError
from spindle.serving.file_drops import FileDrops
from spindle.serving.triggers import MAX_EVENT, Trigger, triggers_of
from spindle.threads import in_thread

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.ports.source import Note

LOOK = 1.0
"""Seconds between two looks into a folder."""
CLEAN = 60.0
"""Seconds between two looks for files that were taken and need not be kept."""


@contextlib.asynccontextmanager
async def triggered_meanwhile(app: Spindle, note: Note) -> AsyncGenerator[None]:
    """Listens for all triggers, for as long as this is entered. Webhooks come to `spindle serve`."""
    tasks = [
        asyncio.create_task(Trigger(app, name, config, note).keep(listen), name=f"trigger {name}")
        for name, config in triggers_of(app).items()
        if config.kind != "webhook"
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def listen(trigger: Trigger) -> None:
    """Fires a trigger for each event. Ends with an error when nothing can be heard any more."""
    match trigger.config.kind:
        case "channel":
            await _channel(trigger)
        case "resource":
            await _resource(trigger)
        case "folder":
            await _folder(trigger)
        case "webhook":
            raise ConfigurationError("webhooks come to `spindle serve`")


async def _channel(trigger: Trigger) -> None:
    from spindle.sources.events import EventsSource
    from spindle.sources.events.listening import listen as listen_to

    sources, only = trigger.app.catalog.sources, trigger.config.source
    names = [name for name in sources.names if sources.kind(name) == "events"] if only is None else [only]
    found = [source for source in map(sources.get, names) if isinstance(source, EventsSource)]
    if not found:
        raise ConfigurationError(
            "there is no source of events to listen to",
            hint="put an AsyncAPI document into the folder events/ of the workspace",
        )
    pattern = trigger.config.channel or "*"
    pairs = [(source, configured(source.config)) for source in found]
    async with listen_to(pairs, pattern) as listening:
        if not listening.places:
            raise ConfigurationError(
                f"no channel can be listened to that fits {pattern!r}"
                + "".join(f"; {reason}" for reason in listening.silent[:3])
            )
        async for item in listening.incoming:
            event = item.event
            # By CloudEvents an id is unlike those of the same source.
            key = f"{event.source} {event.id}" if event.id else None
            await trigger.fire_or_drop({**event.to_dict(), "id": event.id or new_id()}, key)
            if item.settle is not None:
                await item.settle(True)


async def _resource(trigger: Trigger) -> None:
    uri = trigger.config.resource or ""
    async with trigger.app.watch(uri, source=trigger.config.source) as changes:
        async for change in changes:
            read = await trigger.app.read(uri, source=trigger.config.source)
            texts = [block.text for block in read.content if block.text is not None]
            data = "".join(texts)[: MAX_EVENT + 1]
            event = {"id": new_id(), "uri": uri, "source": change.source, "time": now(), "data": data}
            await trigger.fire_or_drop(event)
    raise ConnectionFailedError(f"changes of {uri} are no longer told")


async def _folder(trigger: Trigger) -> None:
    config = trigger.config
    drops = FileDrops(trigger.app.settings.root / (config.folder or ""), config.pattern, config.settle)
    cleaned = -CLEAN
    while True:
        for drop in await in_thread(drops.take, "spindle-drops"):
            await trigger.fire_or_drop(drop.event())
            await in_thread(drop.done, "spindle-drops")
        if time.monotonic() - cleaned >= CLEAN:
            await remove_spent(trigger, drops)
            cleaned = time.monotonic()
        await asyncio.sleep(LOOK)


async def remove_spent(trigger: Trigger, drops: FileDrops) -> None:
    """Removes files that were taken and are over the limits, except those whose runs have not ended."""
    keep = trigger.config.keep
    for key in await in_thread(lambda: drops.spent(keep.age, keep.count, time.time()), "spindle-drops"):
        if not await trigger.is_at_work(key):
            await in_thread(lambda key=key: drops.remove(key), "spindle-drops")
