"""Listens to all servers that a source's documents name."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spindle.domain.event import Event
from spindle.errors import SpindleError
from spindle.sources.events.addresses import covering
from spindle.sources.events.asyncapi import operations
from spindle.sources.events.bus import matches
from spindle.sources.events.files import documents
from spindle.sources.events.links.pool import LinkPool
from spindle.sources.events.links.port import Incoming
from spindle.sources.events.links.receiver import MAX_BODY, Receiver
from spindle.sources.events.operations import EventOperation
from spindle.sources.events.servers import (
    MEMORY,
    Endpoint,
    chosen,
    endpoint,
    process_environment,
    to_metadata,
)
from spindle.sources.events.tools import bindings_of

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.events import EventsSource
    from spindle.sources.events.config import EventsConfig


@dataclass(frozen=True, slots=True)
class _ListeningPlace:
    """A channel at a server."""

    server: Endpoint
    address: str
    operation: EventOperation
    remote: bool


@dataclass(slots=True)
class Listening:
    """The events that arrive: `events`, or `incoming` for a reader that settles each itself when it is done
    with it. `silent` says which channels cannot be heard, and why."""

    incoming: AsyncIterator[Incoming]
    places: list[str] = field(default_factory=list[str])
    silent: list[str] = field(default_factory=list[str])

    @property
    async def events(self) -> AsyncIterator[Event]:
        async for item in self.incoming:
            if item.settle is not None:
                await item.settle(True)
            yield item.event


@contextlib.asynccontextmanager
async def listen(
    sources: Sequence[tuple[EventsSource, Credential]], pattern: str, webhook: str | None = None
) -> AsyncGenerator[Listening]:
    """Listens to all channels that may match; entered once every server has confirmed. The events end with
    an error when a server is lost."""
    found: asyncio.Queue[Incoming | SpindleError] = asyncio.Queue(maxsize=1000)
    listening = Listening(_each(found))
    async with contextlib.AsyncExitStack() as stack:
        forwards: list[AsyncIterator[Incoming]] = []
        receivers: dict[str, list[EventsConfig]] = {} if webhook is None else {webhook: []}
        for source, credential in sources:
            pool = LinkPool(source.name, source.config, source.root, credential)
            stack.push_async_callback(pool.close)
            for place in await _places(source, pattern, listening):
                where = webhook or source.config.listen
                if place.server.protocol == MEMORY:
                    listening.silent.append(f"{place.address}: {_INSIDE}")
                elif place.server.protocol != "http":
                    link = await pool.get(place.server, remote=place.remote)
                    bindings = bindings_of(place.operation, place.server.protocol)
                    forwards.append(await stack.enter_async_context(link.subscribe(place.address, bindings)))
                    listening.places.append(f"{place.address} at {place.server.shown}")
                elif where is None:
                    listening.silent.append(f"{place.address}: {_ELSEWHERE}")
                else:
                    receivers.setdefault(where, []).append(source.config)
        for where, configs in receivers.items():
            secrets = tuple(config.secret for config in configs if config.secret is not None)
            hosts = tuple(host for config in configs for host in config.allowed_hosts)
            receiver = Receiver(where, secrets, MAX_BODY, hosts)
            forwards.append(await stack.enter_async_context(receiver.subscribe()))
            listening.places.append(f"webhooks at {receiver.url}")
        tasks = [asyncio.create_task(_forward(item, pattern, found)) for item in forwards]
        stack.push_async_callback(_end, tasks)
        yield listening


_INSIDE = (
    "its events stay in the process that emits them; listen there with `app.events()`, "
    "or give the document a server"
)
_ELSEWHERE = "webhooks are heard only where they are sent to; name a place with --webhook 127.0.0.1:PORT"


async def _places(source: EventsSource, pattern: str, listening: Listening) -> list[_ListeningPlace]:
    places: dict[tuple[Endpoint, str], _ListeningPlace] = {}
    for document, remote in await documents(source.config, source.root, source.note):
        for operation in operations(document, source.note):
            channel = operation.channel
            if channel.address is None or not _may_fit(pattern, operation):
                continue
            try:
                server = endpoint(
                    to_metadata(chosen(channel.servers, source.config, source.name)),
                    source.config,
                    source.name,
                    remote=remote,
                    environ=process_environment(),
                )
            except SpindleError as error:
                listening.silent.append(f"{channel.address}: {error.message}")
                continue
            address = covering(channel.address, server.protocol)
            if address is None:
                listening.silent.append(
                    f"{channel.address}: {server.protocol} cannot listen to all of its addresses at once"
                )
            else:
                places.setdefault((server, address), _ListeningPlace(server, address, operation, remote))
    return list(places.values())


def _may_fit(pattern: str, operation: EventOperation) -> bool:
    """True if the operation's events can match the pattern. Listening to a queue takes events away from
    others, so it is not done without need."""
    address = operation.channel.address or ""
    names = [message.name for message in operation.messages]
    return "{" in address or any(fnmatch.fnmatchcase(name, pattern) for name in (address, *names))


async def _forward(
    incoming: AsyncIterator[Incoming], pattern: str, found: asyncio.Queue[Incoming | SpindleError]
) -> None:
    try:
        async for item in incoming:
            if matches(pattern, item.event):
                await found.put(item)
            elif item.settle is not None:
                await item.settle(False)
    except SpindleError as error:
        await found.put(error)


async def _each(found: asyncio.Queue[Incoming | SpindleError]) -> AsyncIterator[Incoming]:
    while True:
        item = await found.get()
        if isinstance(item, SpindleError):
            raise item
        yield item


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
