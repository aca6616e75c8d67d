"""One request and what comes of it: redirects within bounds, limits on sizes, files to the file store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

import httpx2

from spindle.domain.call import INLINE_LIMIT, Result
from spindle.errors import ConfigurationError, ConnectionFailedError, ResultTooLargeError, ServerError
from spindle.http.addresses import is_below, same_origin
from spindle.http.responses import is_file, media_type_of, to_error, to_file, to_result
from spindle.sources.http import CONNECT_FAILURES
from spindle.sources.reach import InsideError, Reach

if TYPE_CHECKING:
    from spindle.domain.call import Call, FileKeeper
    from spindle.sources.openapi.request import Prepared

MAX_REDIRECTS = 5
# All that follows a redirect to somebody else.
_HARMLESS = frozenset({"accept", "content-type", "user-agent", "accept-language"})
_PIECE = 1024 * 1024


class ExchangeSettings(Protocol):
    """The settings that count here, whatever kind of source they are of."""

    @property
    def connect_timeout(self) -> float: ...
    @property
    def allow_private(self) -> bool: ...
    @property
    def max_result_size(self) -> int: ...
    @property
    def max_download_size(self) -> int: ...


class HttpExchange:
    """Makes the requests of one session, over connections that are kept."""

    def __init__(self, name: str, settings: ExchangeSettings) -> None:
        self._name = name
        self._settings = settings
        self.reach = Reach(
            # How long an answer may take is the call's to say.
            httpx2.Timeout(None, connect=settings.connect_timeout),
            httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def aclose(self) -> None:
        await self.reach.aclose()

    async def perform(
        self,
        prepared: Prepared,
        call: Call,
        *,
        public_only: bool,
        promised: bool,
        below: httpx2.URL | None = None,
    ) -> Result:
        """`public_only`: somebody else chose the address, so it may not be one of ours. `promised`: the
        tool has an output schema. `below`: where redirects may lead, if not anywhere."""
        url = httpx2.URL(prepared.url)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(prepared, url, public_only)
            try:
                location = response.headers.get("location")
                if response.status_code not in (301, 302, 303, 307, 308) or not location:
                    return await self._read(response, call.files, promised)
                following = url.join(location)
                if following.scheme not in ("http", "https"):
                    raise ServerError(
                        f"{self._name!r} redirects to {following.scheme}:, which is not followed"
                    )
                if below is not None and not is_below(str(following), str(below)):
                    raise ServerError(
                        f"{self._name!r} redirects to {following.copy_with(query=None)}, out of its base URL",
                        hint="make that a source of its own, if it is meant",
                        status=response.status_code,
                    )
                elsewhere = not same_origin(str(following), str(url))
                if elsewhere and not public_only and not self._settings.allow_private:
                    public_only = not await self.reach.is_from_inside(response)
            finally:
                await response.aclose()
            _redirect(prepared, response.status_code, elsewhere=elsewhere)
            url = following
        raise ServerError(f"{self._name!r} redirected more than {MAX_REDIRECTS} times")

    async def _send(self, prepared: Prepared, url: httpx2.URL, public_only: bool) -> httpx2.Response:
        try:
            return await self.reach.send(
                prepared.method,
                url,
                public_only=public_only,
                headers=prepared.headers,
                content=prepared.content,
            )
        except InsideError:
            raise ConfigurationError(
                f"{self._name!r} leads to {url.host}, which is on this machine or a private network",
                hint=f"set sources.{self._name}.allow_private = true, or its base_url, if that is meant",
                sent=False,
            ) from None
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"cannot reach {self._name!r} at {url.host}: {str(error) or type(error).__name__}",
                hint="check that the API is there, and `base_url`",
                sent=not isinstance(error, CONNECT_FAILURES),
            ) from error

    async def _read(self, response: httpx2.Response, files: FileKeeper | None, promised: bool) -> Result:
        limit = self._settings.max_result_size
        if response.status_code >= 300:
            raise to_error(self._name, response, await self._body(response, limit))
        if files is not None and is_file(response):
            return await self._download(response, files, promised)
        return to_result(response, await self._body(response, limit), promised=promised)

    async def _body(self, response: httpx2.Response, limit: int) -> bytes:
        body = bytearray()
        async for chunk in self._chunks(response, limit, "max_result_size"):
            body += chunk
        return bytes(body)

    async def _download(self, response: httpx2.Response, files: FileKeeper, promised: bool) -> Result:
        """What is small stays in the result; the rest goes to a file as it comes."""
        limit = self._settings.max_download_size
        size = 0
        head = bytearray()
        async with contextlib.aclosing(self._chunks(response, limit, "max_download_size")) as chunks:
            async for chunk in chunks:
                head += chunk
                if len(head) > INLINE_LIMIT:
                    break
            else:
                return to_result(response, bytes(head), promised=promised)

            async def whole() -> AsyncGenerator[bytes]:
                nonlocal size
                size = len(head)
                yield bytes(head)
                async for chunk in chunks:
                    size += len(chunk)
                    yield chunk

            async with contextlib.aclosing(whole()) as pieces:
                path = await files.keep_stream(pieces, media_type_of(response))
        return to_file(response, size, path=path)

    async def _chunks(self, response: httpx2.Response, limit: int, setting: str) -> AsyncGenerator[bytes]:
        size = 0
        try:
            async for chunk in response.aiter_bytes(_PIECE):
                size += len(chunk)
                if size > limit:
                    raise ResultTooLargeError(
                        f"{self._name!r}: the answer is larger than {limit} bytes",
                        hint=f"ask for less, or raise sources.{self._name}.{setting}",
                        status=response.status_code,
                    )
                yield chunk
        except httpx2.DecodingError as error:
            raise ServerError(f"{self._name!r} sent an answer that cannot be unpacked: {error}") from error
        except httpx2.TransportError as error:
            raise ConnectionFailedError(
                f"lost {self._name!r} while it answered: {str(error) or type(error).__name__}"
            ) from error


def _redirect(prepared: Prepared, status: int, *, elsewhere: bool) -> None:
    """Make the request what it must be at its next stop."""
    if status == 303 or (status in (301, 302) and prepared.method == "POST"):
        prepared.method = prepared.method if prepared.method == "HEAD" else "GET"
        prepared.content = None
        prepared.headers.pop("content-type", None)
    if elsewhere:
        prepared.headers = {name: value for name, value in prepared.headers.items() if name in _HARMLESS}
