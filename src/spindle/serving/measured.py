"""Counts the requests over HTTP, and shows the metrics of a server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from spindle.errors import ConfigurationError
from spindle.listening.response import Response
from spindle.serving.problems import problem, respond
from spindle.telemetry import exporting, metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from spindle.app import Spindle
    from spindle.domain.serve import ServeConfig
    from spindle.telemetry.metrics import Metrics

PATH = "/metrics"


class Measured:
    """Counts each request that the app inside answers."""

    def __init__(self, app: ASGIApp, counted: Metrics) -> None:
        self._app = app
        self._metrics = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, began = 0, time.perf_counter()
        self._metrics.in_flight += 1

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            self._metrics.in_flight -= 1
            self._metrics.requested(scope["method"], status, time.perf_counter() - began)


def shown() -> Response:
    """The metrics, as Prometheus reads them."""
    if metrics.active is None:
        return respond(problem(404, "not_found", "this server counts nothing", "set serve.metrics"))
    return Response(metrics.active.text(), headers={"Content-Type": metrics.CONTENT_TYPE})


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    """The app at an address of its own, which has nothing but metrics."""
    if scope["type"] == "http":
        found = shown() if scope["path"] == PATH else respond(problem(404, "not_found", f"see {PATH}"))
        await found(scope, receive, send)


@contextlib.asynccontextmanager
async def measuring(app: Spindle, config: ServeConfig) -> AsyncGenerator[None]:
    """Counts what happens, meanwhile, if the settings or OpenTelemetry's variables want it, and answers at
    the address that the settings may name for it."""
    if (config.metrics or config.metrics_address) and metrics.active is None:
        metrics.active = metrics.Metrics(exporting.meter())
    if metrics.active is not None:
        app.recorder.hear(metrics.active.called)
    if config.metrics_address is None:
        yield
        return
    from spindle.listening.server import answering, listen

    host, _, port = config.metrics_address.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(
            f"serve.metrics_address {config.metrics_address!r} is not an address such as 127.0.0.1:9464"
        )
    with listen(host.strip("[]") or "127.0.0.1", int(port)) as listening:
        async with answering(_answer, listening, 1.0):
            yield
