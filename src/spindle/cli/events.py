"""`spindle events listen`: prints events as they arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from spindle.cli.context import CliContext, command
from spindle.cli.group import LazyGroup
from spindle.cli.options import SECONDS, shared_options

if TYPE_CHECKING:
    from spindle.app import Spindle
    from spindle.domain.event import Event
    from spindle.sources.events import EventsSource

events = LazyGroup(
    "events",
    sections={"Commands": {"listen": ("events", "listen", "Print events as they arrive.")}},
    params=shared_options(),
    help="Events of the workspace.",
)


@command("listen")
@click.argument("pattern", default="*")
@click.option("--source", help="Only events of this source.")
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="Stop after this many events.")
@click.option("--timeout", metavar="SECONDS", type=SECONDS, help="Stop after this many seconds.")
@click.option("--webhook", metavar="HOST:PORT", help="Receive webhooks here; port 0 takes any free port.")
async def listen(
    cli: CliContext,
    pattern: str,
    source: str | None,
    count: int | None,
    timeout: float | None,
    webhook: str | None,
) -> None:
    """Print events as they arrive at the servers that the workspace's documents name.

    PATTERN, such as 'orders/*', matches the channel or the type of an event.
    """
    from spindle.auth.credentials import configured
    from spindle.errors import CallTimeoutError, ConfigurationError
    from spindle.sources.events.listening import listen as listen_to

    _check_place(webhook)
    heard = 0
    async with cli.open() as app:
        sources = [(found, configured(found.config)) for found in _sources(app, source)]
        async with listen_to(sources, pattern, webhook) as listening:
            for line in listening.silent:
                cli.output.note(line)
            for place in listening.places:
                cli.output.aside(f"listening to {place}")
            if not listening.places:
                hint = "see the notes above" if listening.silent else _HOW
                raise ConfigurationError("there is nothing to listen to", hint=hint)
            timer = asyncio.timeout(timeout)
            try:
                async with timer:
                    async for event in listening.events:
                        _show(cli, event)
                        heard += 1
                        if heard == count:
                            return
            except TimeoutError:
                if not timer.expired():
                    raise
                if count is not None:
                    raise CallTimeoutError(f"{heard} of {count} events came within {timeout:g} s") from None


_HOW = "put an AsyncAPI document into the folder events/ of the workspace"


def _sources(app: Spindle, only: str | None) -> list[EventsSource]:
    from spindle.errors import ConfigurationError
    from spindle.sources.events import EventsSource

    sources = app.catalog.sources
    names = [name for name in sources.names if sources.kind(name) == "events"] if only is None else [only]
    found: list[EventsSource] = []
    for name in names:
        source = sources.get(name)
        if not isinstance(source, EventsSource):
            raise ConfigurationError(
                f"{name!r} is a source of kind {sources.kind(name)}, which has no events"
            )
        found.append(source)
    return found


def _check_place(webhook: str | None) -> None:
    from spindle.cli.errors import UsageMistakeError
    from spindle.sources.events.config import host_and_port

    if webhook is not None:
        try:
            host_and_port(webhook)
        except ValueError as error:
            raise UsageMistakeError(f"--webhook {webhook!r} {error}") from None


def _show(cli: CliContext, event: Event) -> None:
    """Prints an event as one line, flushed at once: a program may be waiting at the other end of a pipe."""
    from spindle.domain.json_schema import to_json

    if cli.output.as_json:
        cli.output.line(to_json(event.to_dict()).decode())
    else:
        data = to_json(event.data).decode()
        cli.output.line(f"{event.time or ''}  {event.channel}  {event.type}  {data}")
    cli.output.flush()
