"""The HTTP client below the SDK's transports: statuses kept, failures contained, sizes limited."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import httpx2
from mcp_types import CONNECTION_CLOSED

from spindle.domain.identity import Credential
from spindle.sources.mcp.convert import retry_after
from spindle.sources.mcp.exchange import Exchange, current_exchange

CONNECT_FAILURES = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)


@functools.cache
def shared_ssl_context() -> ssl.SSLContext:
    """One for all clients: making it takes longer than many a call."""
    return httpx2.create_ssl_context()


class CredentialAuth(httpx2.Auth):
    """Shows one credential with every request of one session."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def auth_flow(self, request: httpx2.Request) -> Any:
        for name, value in self._credential.headers:
            request.headers[name] = value
        if self._credential.query:
            request.url = request.url.copy_merge_params(dict(self._credential.query))
        if self._credential.cookies:
            pairs = "; ".join(f"{name}={value}" for name, value in self._credential.cookies)
            present = request.headers.get("cookie")
            request.headers["cookie"] = f"{present}; {pairs}" if present else pairs
        yield request


class BrokenResponse(httpx2.StreamError):
    """An answer that stopped in the middle, or never stops. The SDK fails one request for it; for a
    transport error it would end the session and every other call on it."""


class McpHttpClient(httpx2.AsyncClient):
    """Remembers, for the caller of each request, what became of it."""

    def __init__(self, *, max_body: int, contain: bool, **options: Any) -> None:
        super().__init__(verify=shared_ssl_context(), **options)
        self._max_body = max_body
        self._contain = contain

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = (current_exchange.get() if request.method == "POST" else None) or Exchange()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            exchange.failure = error
            exchange.never_sent = isinstance(error, CONNECT_FAILURES)
            exchange.fail()
            if not (self._contain and request.method == "POST"):
                raise
            return _as_answer(request, error)
        exchange.status = response.status_code
        exchange.retry_after = retry_after(response.headers.get("retry-after"))
        if response.status_code >= 400:
            kind = response.headers.get("content-type", "")
            exchange.had_json_rpc_error = await _has_json_rpc_error(response) if "json" in kind else False
            exchange.fail()
        response.stream = _LimitedStream(
            cast(httpx2.AsyncByteStream, response.stream), exchange, self._body_limit(response)
        )
        return response

    def _body_limit(self, response: httpx2.Response) -> int | None:
        # A stream of events lives as long as its session; there the SDK limits each event.
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        return None if is_stream else self._max_body


def make_client(
    credential: Credential,
    headers: Mapping[str, str],
    connect_timeout: float,
    max_body: int,
    *,
    contain: bool = True,
) -> McpHttpClient:
    return McpHttpClient(
        max_body=max_body,
        contain=contain,
        auth=CredentialAuth(credential),
        headers=dict(headers),
        # How long an answer may take is the call's to say.
        timeout=httpx2.Timeout(None, connect=connect_timeout),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
    )


def _as_answer(request: httpx2.Request, error: Exception) -> httpx2.Response:
    body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": CONNECTION_CLOSED, "message": str(error) or "lost"},
    }
    return httpx2.Response(502, json=body, request=request)


async def _has_json_rpc_error(response: httpx2.Response) -> bool:
    try:
        data: Any = response.json() if response.is_stream_consumed else None
        if data is None:
            await response.aread()
            data = response.json()
    except (ValueError, httpx2.StreamError, httpx2.TransportError):
        return False
    return isinstance(data, dict) and isinstance(cast("dict[str, Any]", data).get("error"), dict)


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, exchange: Exchange, limit: int | None) -> None:
        self._stream = stream
        self._exchange = exchange
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if self._limit is not None and size > self._limit:
                    self._exchange.too_large = f"the answer is larger than {self._limit} bytes"
                    raise BrokenResponse(self._exchange.too_large)
                yield chunk
        except httpx2.TransportError as error:
            self._exchange.failure = error
            raise BrokenResponse(str(error) or "the answer broke off") from error

    async def aclose(self) -> None:
        await self._stream.aclose()
