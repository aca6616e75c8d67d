"""Opening a session with a server over Streamable HTTP, or the SSE transport that came before it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from spindle.errors import SpindleError
from spindle.sources.mcp.dispatcher import LinkDispatcher
from spindle.sources.mcp.http_dispatcher import HttpDispatcher
from spindle.sources.mcp.legacy_sse import open_sse_link
from spindle.sources.mcp.session import McpSession, open_session
from spindle.sources.mcp.session_http import SessionHttp
from spindle.sources.mcp.streamable import StreamableLink

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.ports.source import Notice
    from spindle.sources.mcp.config import McpConfig

# How a server that only speaks the older SSE transport refuses a POST to its event stream.
REFUSES_STREAMABLE = frozenset({400, 404, 405, 406, 415, 501})


@contextlib.asynccontextmanager
async def open_http(
    name: str, config: McpConfig, credential: Credential, on_change: Callable[[], None], tell: Notice
) -> AsyncGenerator[McpSession]:
    """Opens a session over HTTP, with the older SSE transport if the server only speaks that."""
    async with contextlib.AsyncExitStack() as stack:
        if config.transport == "sse":
            session = await stack.enter_async_context(_open_sse(name, config, credential, on_change, tell))
        else:
            try:
                opening = _open_streamable(name, config, credential, on_change, tell)
                session = await stack.enter_async_context(opening)
            except SpindleError as refusal:
                if config.transport == "http" or refusal.status not in REFUSES_STREAMABLE:
                    raise
                try:
                    opening = _open_sse(name, config, credential, on_change, tell)
                    session = await stack.enter_async_context(opening)
                except SpindleError:
                    raise refusal from None
        yield session


@contextlib.asynccontextmanager
async def _open_streamable(
    name: str, config: McpConfig, credential: Credential, on_change: Callable[[], None], tell: Notice
) -> AsyncGenerator[McpSession]:
    assert config.url is not None
    place = f"{name} ({config.url})"
    async with (
        contextlib.aclosing(SessionHttp(name, config, credential)) as http,
        contextlib.aclosing(
            HttpDispatcher(StreamableLink(http, config.url), config.max_result_size)
        ) as messages,
        open_session(name, config, place, messages, on_change, tell) as session,
    ):
        if session.is_modern:
            # Every request stands alone, so each can carry its own caller's credential. What came
            # before ties a session to whoever opened it.
            session.per_call_credentials = True
            http.client.keep_no_cookies()
        yield session


@contextlib.asynccontextmanager
async def _open_sse(
    name: str, config: McpConfig, credential: Credential, on_change: Callable[[], None], tell: Notice
) -> AsyncGenerator[McpSession]:
    assert config.url is not None
    limit = config.max_result_size
    place = f"{name} ({config.url})"
    async with (
        contextlib.aclosing(SessionHttp(name, config, credential)) as http,
        open_sse_link(http, name, config.url, limit) as link,
    ):
        dispatcher = LinkDispatcher(link, limit)
        opening = open_session(name, config, place, dispatcher, on_change, tell, handshake_only=True)
        async with opening as session:
            dispatcher.when_lost(lambda: session.lose(link.epitaph()))
            yield session
