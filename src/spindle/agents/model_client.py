"""The HTTP client that models of a name are asked by: Spindle's own, in the shape that libraries take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2
from pydantic_ai.models import create_async_httpx2_client

from spindle.http.client import HttpClient
from spindle.http.failures import HttpFailure, LostError, UnreachableError
from spindle.http.request import FRAMING, Prepared

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from spindle.http.answer import HttpAnswer

ModelClient = httpx2.AsyncClient
"""The shape that libraries of providers take."""

CONNECT_TIMEOUT = 5.0
MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of a model's answer, streamed or not."""
_OURS = FRAMING | {"accept-encoding", "host"}
"""Headers that our client writes itself."""
_DONE = FRAMING | {"content-encoding", "set-cookie"}
"""Headers of answers that are dealt with here. Cookies are for nobody: all who ask a provider share them."""


def model_client() -> ModelClient:
    """Returns a client for the models of any number of providers. It must be closed."""
    return create_async_httpx2_client(transport=_Transport())


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self) -> None:
        self._client = HttpClient(CONNECT_TIMEOUT)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name not in _OURS}
        prepared = Prepared(request.method, str(request.url), headers, await request.aread() or None)
        timeout: float | None = request.extensions.get("timeout", {}).get("read")
        try:
            answer = await self._client.send(prepared, timeout=timeout)
        except HttpFailure as error:
            raise _theirs(error, request) from error
        kept = [(name, value) for name, value in answer.headers.items() if name not in _DONE]
        return httpx2.Response(answer.status, headers=kept, stream=_Body(answer, request))

    async def aclose(self) -> None:
        await self._client.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: HttpAnswer, request: httpx2.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.chunks(MAX_ANSWER):
                yield piece
        except HttpFailure as error:
            raise _theirs(error, self._request) from error

    async def aclose(self) -> None:
        self._answer.release()


def _theirs(error: HttpFailure, request: httpx2.Request) -> httpx2.TransportError:
    """The error by which libraries know what happened, and whether to ask again."""
    if error.is_silence:
        return httpx2.ReadTimeout(str(error), request=request)
    match error:
        case UnreachableError(sent=False):
            return httpx2.ConnectError(str(error), request=request)
        case UnreachableError() | LostError():
            return httpx2.ReadError(str(error), request=request)
        case _:
            return httpx2.RemoteProtocolError(str(error), request=request)
