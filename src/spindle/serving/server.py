"""Serving until told to stop, and letting running calls end first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.listening.limits import ConnectionLimits
from spindle.listening.server import EmbeddedServer
from spindle.serving.measured import Measured
from spindle.telemetry import metrics

if TYPE_CHECKING:
    import socket
    import ssl

    from starlette.types import ASGIApp

    from spindle.domain.serve import ServeConfig


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    config: Callable[[], ServeConfig],
    stopping: Callable[[], None],
    drain: Callable[[], None] | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer requests until this task is cancelled. Then take no more, and let those that run end in time.
    `config` gives the settings of the moment. `drain` is called when it is told to stop, `drain_delay` before
    it takes no more requests."""
    if metrics.active is not None:
        app = Measured(app, metrics.active)
    if config().access_log:
        from spindle.serving.access_log import AccessLog

        app = AccessLog(app)
    server = EmbeddedServer(app, _limits(config), tls)
    running = asyncio.create_task(server.serve(sockets=[listening]), name="the HTTP server")
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        if drain is not None:
            drain()
        if config().drain_delay:
            with contextlib.suppress(asyncio.CancelledError):  # told twice, it stops at once
                await asyncio.sleep(config().drain_delay)
        stopping()
        server.stop(config().shutdown_timeout)
        await running
        raise


def _limits(config: Callable[[], ServeConfig]) -> Callable[[], ConnectionLimits]:
    """The limits by the settings of the moment: the same object until the settings are others."""
    seen = config()
    made = ConnectionLimits.of(seen)

    def current() -> ConnectionLimits:
        nonlocal seen, made
        if config() is not seen:
            seen = config()
            made = ConnectionLimits.of(seen)
        return made

    return current
