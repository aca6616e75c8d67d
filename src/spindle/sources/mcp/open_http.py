"""Opening a session with a server over Streamable HTTP, or the SSE transport that came before it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from spindle.errors import ConnectionFailedError, SpindleError, from_status, innermost
from spindle.sources.mcp.http_client import make_client
from spindle.sources.mcp.session import McpSession, open_session

if TYPE_CHECKING:
    from spindle.domain.identity import Credential
    from spindle.sources.mcp.config import McpConfig

# How a server that only speaks the older SSE transport refuses a POST to its event stream.
REFUSES_STREAMABLE = frozenset({400, 404, 405, 406, 415, 501})


@contextlib.asynccontextmanager
async def open_http(
    name: str, config: McpConfig, credential: Credential, on_change: Callable[[], None]
) -> AsyncGenerator[McpSession]:
    async with contextlib.AsyncExitStack() as stack:
        if config.transport == "sse":
            session = await _open_sse(stack, name, config, credential, on_change)
        else:
            try:
                session = await _open_streamable(stack, name, config, credential, on_change)
            except SpindleError as refusal:
                if config.transport == "http" or refusal.status not in REFUSES_STREAMABLE:
                    raise
                try:
                    session = await _open_sse(stack, name, config, credential, on_change)
                except SpindleError:
                    raise refusal from None
        yield session


async def _open_streamable(
    stack: contextlib.AsyncExitStack,
    name: str,
    config: McpConfig,
    credential: Credential,
    on_change: Callable[[], None],
) -> McpSession:
    assert config.url is not None
    inner = contextlib.AsyncExitStack()
    async with inner:
        client = await inner.enter_async_context(
            make_client(credential, config.headers, config.connect_timeout, config.max_result_size)
        )
        transport = streamable_http_client(
            config.url, http_client=client, max_sse_event_size=config.max_result_size
        )
        streams = await inner.enter_async_context(transport)
        dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
        session = await inner.enter_async_context(
            open_session(name, config, f"{name} ({config.url})", dispatcher, on_change)
        )
        stack.push_async_exit(inner.pop_all())
        return session
    raise AssertionError("a stack suppresses nothing")


async def _open_sse(
    stack: contextlib.AsyncExitStack,
    name: str,
    config: McpConfig,
    credential: Credential,
    on_change: Callable[[], None],
) -> McpSession:
    assert config.url is not None

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return make_client(
            credential, config.headers, config.connect_timeout, config.max_result_size, contain=False
        )

    inner = contextlib.AsyncExitStack()
    try:
        async with inner:
            streams = await inner.enter_async_context(sse_client(config.url, httpx_client_factory=factory))
            dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(*streams)
            opening = open_session(
                name, config, f"{name} ({config.url})", dispatcher, on_change,
                handshake_only=True, race_failures=True,
            )  # fmt: skip
            session = await inner.enter_async_context(opening)
            stack.push_async_exit(inner.pop_all())
            return session
    except (httpx2.HTTPError, BaseExceptionGroup) as raised:
        error = innermost(raised)
        if isinstance(error, httpx2.HTTPStatusError):
            status = error.response.status_code
            raise from_status(status, f"{name!r} answered with HTTP status {status}") from None
        if isinstance(error, httpx2.HTTPError):
            raise ConnectionFailedError(f"cannot reach {name!r}: {error}", sent=False) from None
        raise
    raise AssertionError("a stack suppresses nothing")
