"""A connection over HTTP/1: its bytes become requests, which the application answers one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from spindle.listening.cycle import RequestCycle
from spindle.listening.flow import FlowControl
from spindle.listening.writer import AnswerWriter

if TYPE_CHECKING:
    from spindle.listening.state import ServerState

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class RequestConnection(asyncio.Protocol):
    """Has httptools parse what comes, and an application answer each request in its turn."""

    transport: asyncio.Transport
    flow: FlowControl
    writer: AnswerWriter

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.loop = asyncio.get_running_loop()
        self.parser = httptools.HttpRequestParser(self)
        # A client may send the next request though it asked to close after this one. It is not answered.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.server: tuple[str, int] | None = None
        self.client: tuple[str, int] | None = None
        self.scheme = "http"
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.scope: dict[str, Any] = {}
        self.cycle: RequestCycle | None = None
        """The newest request that came."""
        self.running: RequestCycle | None = None
        """The request that is answered."""
        self.pipeline: deque[RequestCycle] = deque()
        """Requests that wait while one is answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - of a stream, it is one
        self.state.connections.add(self)
        self.transport, self.flow = transport, FlowControl(transport)
        self.writer = AnswerWriter(transport, self.loop.call_soon)
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        # Those of a Unix socket are paths, and the client's is empty.
        self.server = here[:2] if isinstance(here, tuple) else None
        self.client = there[:2] if isinstance(there, tuple) and there else None
        self.scheme = "https" if transport.get_extra_info("sslcontext") else "http"

    def connection_lost(self, exc: Exception | None) -> None:
        self.state.connections.discard(self)
        self.transport.close()
        del self.parser  # which holds us

    def pause_writing(self) -> None:
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    def shutdown(self) -> None:
        """Ends the connection when its newest request is answered; at once if that has been."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    # --- the parser's

    def on_message_begin(self) -> None:
        self.url, self.headers = b"", []
        self.scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
        }

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_headers_complete(self) -> None:
        parser, scope = self.parser, self.scope
        version = parser.get_http_version()
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope["http_version"] = version
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        before = self.cycle
        self.cycle = RequestCycle(
            scope,
            self.writer,
            self.flow,
            self.state,
            self.on_response_complete,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            waits_to_continue=any(
                name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
            ),
        )
        if before is None or before.response_complete:
            self.start(self.cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.append(self.cycle)

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if cycle is None:
            return
        cycle.more_body = False
        if not cycle.response_complete:
            cycle.message_event.set()
        elif not cycle.keep_alive:
            self.writer.close()

    # --- answering

    def start(self, cycle: RequestCycle) -> None:
        """Has the application answer a request, unless the client asked to be left after an earlier one."""
        if self.transport.is_closing():
            return
        self.running = cycle
        task = self.loop.create_task(cycle.run(self.state.app))
        self.state.tasks.add(task)
        task.add_done_callback(self.state.tasks.discard)

    def on_response_complete(self) -> None:
        """Goes on with the next request that waits."""
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self.start(self.pipeline.popleft())
