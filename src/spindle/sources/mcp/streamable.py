"""Streamable HTTP: every message is a POST of its own, and answers come as its body, whole or as events.

Servers of the handshake era know the session by an id, which is shown with each request, may speak on a
stream of their own, and are told of the end; those of 2026-07-28 know nothing of a session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from spindle.http.failures import HttpFailure
from spindle.mcp_protocol.names import MODERN_VERSIONS
from spindle.sources.mcp.exchange import CallExchange

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.http.answer import HttpAnswer
    from spindle.http.client import RepeatableRequest
    from spindle.sources.mcp.pending import Pending
    from spindle.sources.mcp.session_http import SessionHttp

logger = logging.getLogger("spindle.mcp")

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"
GOODBYE = 5.0
"""Seconds that a server has to hear of the end of a session."""

MAX_REPEATABLE = 256
"""Heads of requests that are kept: for each caller's credential, and in the modern era for each tool."""

_POSTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class StreamableLink:
    """The messages of one session, as HTTP requests."""

    def __init__(self, http: SessionHttp, url: str) -> None:
        self._http = http
        self._url = url
        self._posts: set[asyncio.Task[None]] = set()
        self._repeatable: dict[object, RepeatableRequest] = {}
        self.session_id: str | None = None
        self.version: str | None = None
        """The version of the protocol that the newest message was sent in."""

    @property
    def is_modern(self) -> bool:
        """True if every request stands alone."""
        return self.version in MODERN_VERSIONS

    async def post(self, content: bytes, headers: Mapping[str, str], note: CallExchange) -> HttpAnswer:
        """Posts a message. Raises an HttpFailure."""
        self.version = headers.get(VERSION, self.version)
        return await self._http.post(self._url, self._shown(headers), content, note)

    def post_at_once(
        self, content: bytes, headers: Mapping[str, str], credential: Credential | None
    ) -> HttpAnswer | None:
        """Posts a message that only differs in its body from one before, if that takes no waiting. Returns
        the answer that will come, for `answered`; None: it was not sent."""
        key = credential, self.session_id, self.version, *headers.items()
        same = self._repeatable.get(key)
        if same is None:
            request = self._http.request("POST", self._url, self._shown(headers), credential=credential)
            same = self._http.client.repeatable(request)
            if same is None:
                return None
            if len(self._repeatable) >= MAX_REPEATABLE:
                self._repeatable.clear()
            self._repeatable[key] = same
        return self._http.client.send_at_once(same, content)

    def answered(self, answer: HttpAnswer, note: CallExchange) -> Awaitable[HttpAnswer]:
        """The answer to what was posted so, once its head has come. Raises an HttpFailure."""
        return self._http.answered(answer, note)

    async def stream(self, last_event: str | None) -> HttpAnswer:
        """Opens the server's own stream of events, or goes on with one after an event."""
        headers = {"accept": "text/event-stream", **self._known()}
        if last_event is not None:
            headers["last-event-id"] = last_event
        return await self._http.send(self._http.request("GET", self._url, headers))

    async def aclose(self) -> None:
        """Ends the session, where the server knows of one."""
        for task in self._posts:
            task.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)
        if self.session_id is None:
            return
        request = self._http.request("DELETE", self._url, self._known())
        with suppress(HttpFailure, TimeoutError):
            async with asyncio.timeout(GOODBYE):
                await (await self._http.send(request)).aclose()

    def _shown(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**_POSTED, **self._known(), **headers}

    def _known(self) -> dict[str, str]:
        known: dict[str, str] = {}
        if self.session_id is not None:
            known[SESSION] = self.session_id
        if self.version is not None:
            known[VERSION] = self.version
        return known

    # --- as a link of messages that nobody answers

    @property
    def lost(self) -> bool:
        """Each request finds out by itself."""
        return False

    def epitaph(self) -> str:
        return "closed the session"

    async def write(self, line: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Posts a message that has no answer: what becomes of it is nobody's call."""
        try:
            answer = await self.post(line, headers or {}, CallExchange())
            await answer.aclose()
            if answer.status >= 400:
                logger.debug("a message was refused with HTTP status %s", answer.status)
        except HttpFailure as failure:
            logger.debug("a message did not arrive: %s", failure)
        return True

    brought: list[Pending] | None = None  # the tasks of requests read their answers themselves

    def write_at_once(self, line: bytes, *, together: bool = False) -> bool:
        return False  # each line is a request of its own

    def write_now(self, line: bytes) -> None:
        task = asyncio.create_task(self._write(line))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _write(self, line: bytes) -> None:
        await self.write(line)

    def listen(
        self,
        on_line: Callable[[bytes], None],
        on_too_long: Callable[[bytes, bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Nothing comes but in answer to a request."""

    def pause_reading(self) -> None:
        """Whoever reads a stream waits by itself."""

    def resume_reading(self) -> None:
        """See pause_reading."""
